"""The searches of one task, each of which says whose answers it has found as soon as it has."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ooc_graph.answers.columns import SourceColumns
from ooc_graph.answers.pairs import SourceRows
from ooc_graph.answers.reduced import SourceNumbers, SourceParts, SourceTallies
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.common.cancellation import leave_if_given_up
from ooc_graph.kernels.common.completion import Told, stretches
from ooc_graph.kernels.common.many.tallies import empty_tallies
from ooc_graph.model.resources import CUDA
from ooc_graph.strategies.many.on_device import Heard, columns, internal_ids, on_device
from ooc_graph.strategies.many.recording import Recording
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray

Rows: TypeAlias = SourceRows | SourceColumns | SourceTallies | SourceParts | SourceNumbers


def in_memory(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    recording: Recording | None,
    room: AnyArray | None = None,
    told: Told | None = None,
) -> Rows:
    """What is asked of sources, with all arcs in memory, or in that of a CUDA device.

    Parameters
    ----------
    search
        `ooc_graph.kernels.cpu.many.johnson.CpuJohnson`,
        `ooc_graph.kernels.cpu.many.bfs_search.CpuManyBfs`, or their twins on a CUDA device.
    positions
        int64 (sources,): positions of the sources among all vertices.
    recording
        Hears of those that are found; None: nothing is recorded.
    room
        As of `ooc_graph.strategies.many.on_device.on_device`; not of levels on the CPU.
    told
        Hears of sources that have arcs when the CPU has written their rows there.
    """
    if task.asked.hops and (task.device != CUDA or task.asked.reduce is not None):
        return _levels(task, search, ids, positions, recording)
    if not task.asked.hops:
        search.expect(task.sources, task.reserved.closing)
    if task.asked.parents and task.device != CUDA:
        return _rows(task, search, ids, positions, recording, None)
    heard = _hearing(recording, ids.internal_of[positions] >= 0)
    if task.device == CUDA:
        return on_device(task, search, ids, positions, heard, room)
    # Nobody records what stays in memory.
    who: Heard = heard if room is None else lambda _: told
    return columns(task, search, ids, positions, who, room, lanes=task.lanes)


def batch_by_batch(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    recording: Recording | None,
    room: AnyArray | None = None,
) -> Rows:
    """By a search that does not reduce by itself; a batch is reduced before the next is begun.

    Parameters
    ----------
    search
        `ooc_graph.kernels.cpu.store.johnson.TierJohnson` or
        `ooc_graph.kernels.cpu.store.one_by_one.TierSingly`.
    positions, recording, room
        As of `in_memory`.
    """
    asked, lanes = task.asked, task.lanes
    if asked.reduce is None:
        return _rows(task, search, ids, positions, recording, room)
    rows = SourceNumbers([None] * len(positions))
    # Also of sources without arcs, which batches have here.
    told = _hearing(recording, np.ones(len(positions), np.bool_))(rows)
    for part in stretches(len(positions), lanes, told):
        batch = positions[part]
        answer = search.run(internal_ids(ids, batch), lanes=lanes)
        rows.put(part.start, SourceRows(answer, batch, ids, asked).reduced(asked.reduce))
        if told is not None:
            told(part.start, part.stop)
    return rows


def _hearing(recording: Recording | None, is_searched: AnyArray) -> Heard:
    """Give what hears of the sources of rows, those that are searched from."""
    return lambda rows: None if recording is None else recording.of(rows, is_searched)


def _rows(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    recording: Recording | None,
    room: AnyArray | None,
    **most: Any,
) -> SourceRows | SourceColumns:
    """Distances or levels, and parents if wanted, by internal id; of few columns these alone."""
    if 0 < task.reserved.stretch < len(positions):
        return _columns(task, search, ids, positions, recording, room)
    heard, internal = (
        _hearing(recording, ids.internal_of[positions] >= 0),
        internal_ids(ids, positions),
    )
    if task.asked.parents:
        answers = search.empty(len(internal))
        rows = SourceRows(answers[0], positions, ids, task.asked, answers[1])
        search.run_with_parents(internal, answers, lanes=task.lanes, told=heard(rows))
        return rows
    answer = np.empty((len(internal), search.vertices), search.dtype)
    rows = SourceRows(answer, positions, ids, task.asked)
    search.run(internal, answer, lanes=task.lanes, told=heard(rows), **most)
    return rows


def _columns(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    recording: Recording | None,
    room: AnyArray | None,
) -> SourceColumns:
    """Distances or levels to the targets; those to all vertices of some sources at a time."""
    assert task.asked.targets is not None
    if room is None:
        room = np.empty((len(positions), len(task.asked.targets)), search.dtype)
    rows = SourceColumns(room, positions, ids, task.asked, is_whole=True)
    # Sources without arcs have their rows when the others of a stretch have.
    told = _hearing(recording, np.ones(len(positions), np.bool_))(rows)
    wide: AnyArray = np.empty((task.reserved.stretch, search.vertices), search.dtype)
    for part in stretches(len(positions), task.reserved.stretch, told):
        leave_if_given_up()
        some = positions[part]
        internal = internal_ids(ids, some)
        answer = wide[: len(internal)]
        search.run(internal, answer, lanes=task.lanes)
        found = SourceRows(answer, some, ids, task.asked)
        for row, one in zip(room[part], found, strict=True):
            row[:] = one
        if told is not None:
            told(part.start, part.stop)
    return rows


def _levels(
    task: ManyTask,
    search: Any,
    ids: Ids,
    positions: IntArray,
    recording: Recording | None,
) -> Rows:
    """Levels, or where they are reduced what was counted of them."""
    asked, most = task.asked, None
    if asked.cutoff is not None:
        most = min(max(math.floor(asked.cutoff), 0), INT32_UNREACHED)
    if asked.reduce is None:
        return _rows(task, search, ids, positions, recording, None, most=most)
    heard, internal = (
        _hearing(recording, ids.internal_of[positions] >= 0),
        internal_ids(ids, positions),
    )
    wanted = None
    if asked.targets is not None:
        aimed = ids.internal_of[asked.targets]
        wanted = np.zeros(search.vertices, np.bool_)
        wanted[aimed[aimed >= 0]] = True
    bins, width = 0, 1
    if asked.reduce == HISTOGRAM:
        bins = asked.bins.count
        width = min(int(asked.bins.width_for(search.dtype)), INT32_UNREACHED)
    tallies = empty_tallies(len(internal), bins)
    rows = SourceTallies(tallies, positions, ids, asked)
    counted = {"most": most, "wanted": wanted, "bins": bins, "width": width, "tallies": tallies}
    search.tally(internal, lanes=task.lanes, told=heard(rows), **counted)
    return rows
