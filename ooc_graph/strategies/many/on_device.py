"""Many sources in batches on a CUDA device: what it is asked, and rows of the answer from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ooc_graph.answers.columns import SourceColumns
from ooc_graph.answers.pairs import SourceRows, largest_reached, own_columns
from ooc_graph.answers.reduced import SourceParts
from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.common.completion import Told, stretches
from ooc_graph.kernels.cuda.many.search import CREWS, part_dtype
from ooc_graph.runtime.process import threads_here
from ooc_graph.strategies.many.reductions import BEYOND, ON_DEVICE
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.types import AnyArray, IntArray

Heard = Callable[[Any], "Told | None"]
"""Gives what is to hear of sources when they are found, of rows of the answer; None: nobody is."""


def internal_ids(ids: Ids, positions: IntArray) -> IntArray:
    """Internal ids of the sources that have arcs, int64, given by positions among all vertices."""
    internal = ids.internal_of[positions]
    found: IntArray = internal[internal >= 0].astype(np.int64)
    return found


def on_device(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    heard: Heard = lambda _: None,
    room: AnyArray | None = None,
) -> SourceColumns | SourceParts | SourceRows:
    """What is asked of sources: distances as the device puts them in order, or reductions.

    Of BFS levels, which it puts in order as well; what it counts of them is asked for elsewhere.

    Parameters
    ----------
    search
        `ooc_graph.kernels.cuda.many.johnson.CudaJohnson`, or for levels
        `ooc_graph.kernels.cuda.many.bfs.CudaManyBfs`.
    positions
        int64 (sources,): positions of the sources among all vertices.
    heard
        Gives what hears of the sources that have arcs, as some of them are found.
    room
        (sources, columns): where distances go if nothing else is asked for; None: to new memory.

    Raises
    ------
    MemoryBudgetError
        The device's memory is too small.
    InputError
        A sum of floats is beyond float64, as the CPU finds it.
    """
    if task.asked.parents:
        internal = internal_ids(ids, positions)
        answers = search.empty(len(internal))
        rows = SourceRows(answers[0], positions, ids, task.asked, answers[1])
        search.run_with_parents(internal, answers, lanes=task.lanes, told=heard(rows))
        return rows
    if task.asked.reduce not in ON_DEVICE:
        return columns(task, search, ids, positions, heard, room)
    return _reduced(task, search, ids, positions, heard)


def columns(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    heard: Heard,
    room: AnyArray | None,
    **how: Any,
) -> SourceColumns:
    """Distances, or levels of a device, to what they are asked for to, as a search orders them.

    Where there is room these are of all sources in their order, with those without arcs among them.

    Parameters
    ----------
    search, positions, heard, room
        As of `on_device`; also `ooc_graph.kernels.cpu.many.johnson.CpuJohnson`.
    how
        Beside that to `CudaJohnson.run_columns`, or its twin.
    """
    sources, aimed, own, most = _asked_of_columns(task, search, ids, positions)
    at = None
    if room is None:
        answer: AnyArray = np.empty((len(sources), len(aimed)), search.dtype)
    else:
        answer = room
        assert room.dtype == search.dtype
        if len(sources) < len(positions):
            at = np.flatnonzero(ids.internal_of[positions] >= 0)
    rows = SourceColumns(answer, positions, ids, task.asked, is_whole=room is not None)
    search.run_columns(sources, aimed, own, most, answer=answer, at=at, told=heard(rows), **how)
    rows.fill_isolated(threads_here())
    return rows


def _asked_of_columns(
    task: ManyTask, search: Any, ids: Ids, positions: IntArray
) -> tuple[IntArray, IntArray, IntArray, Any]:
    """Arguments of ``run_columns``."""
    asked, most = task.asked, None
    if asked.cutoff is not None:
        most = largest_reached(asked.cutoff, search.dtype)
    aimed = ids.internal_of if asked.targets is None else ids.internal_of[asked.targets]
    own = own_columns(positions, asked)[ids.internal_of[positions] >= 0]
    return internal_ids(ids, positions), aimed.astype(np.int64), own, most


def _reduced(
    task: ManyTask, search: Any, ids: Ids, positions: IntArray, heard: Heard
) -> SourceParts:
    """Reductions; those of all sources at once where nobody is to hear of them before the end."""
    sources, aimed, own, most = _asked_of_columns(task, search, ids, positions)
    rows = SourceParts(np.zeros(len(sources), part_dtype(search.dtype)), positions, ids, task.asked)
    told = heard(rows)
    if not len(sources):
        # What no source is asked for gets ready for others.
        search.reduce(sources, aimed, own, most)
    length = max(len(sources), 1) if told is None else CREWS * task.lanes
    for part in stretches(len(sources), length, told):
        rows.put(part.start, search.reduce(sources[part], aimed, own[part], most))
        if task.sums_on_device:
            _put_beyond(task, search, ids, rows, rows.beyond(part.start, part.stop))
        if told is not None:
            told(part.start, part.stop)
    return rows


def _put_beyond(task: ManyTask, search: Any, ids: Ids, rows: SourceParts, beyond: IntArray) -> None:
    """Reduce sources whose sums are beyond float64 as the CPU does, from their distances."""
    assert task.asked.reduce is not None
    for begin in range(0, len(beyond), BEYOND):
        some = beyond[begin : begin + BEYOND]
        found = columns(task, search, ids, some, lambda _: None, None)
        rows.put_instead(some, found.reduced(task.asked.reduce))
