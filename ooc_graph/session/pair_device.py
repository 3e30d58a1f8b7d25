"""Many sources in batches on a CUDA device: what it is asked, and rows of the answer from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ooc_graph.answers.columns import SourceColumns
from ooc_graph.answers.numbers import SourceNumbers
from ooc_graph.answers.pairs import largest_reached, own_columns
from ooc_graph.answers.parts import SourceParts
from ooc_graph.answers.reductions import Reduced
from ooc_graph.answers.scatter import Ids
from ooc_graph.types import IntArray

if TYPE_CHECKING:
    from ooc_graph.session.pair_tasks import PairsTask

ON_DEVICE = ("eccentricity", "closeness", "sum")
"""Reductions that a CUDA device makes itself."""
SUMMED = ("closeness", "sum")
"""Those that add distances up."""
_BEYOND = 64
"""Sources whose distances leave the device at once where their sums are beyond float64."""


def internal_ids(ids: Ids, places: IntArray) -> IntArray:
    """Internal ids of the sources that have arcs, int64, given by places among all vertices."""
    internal = ids.internal_of[places]
    found: IntArray = internal[internal >= 0].astype(np.int64)
    return found


def on_device(
    task: PairsTask, search: Any, ids: Ids, places: IntArray
) -> SourceColumns | SourceParts | SourceNumbers:
    """What is asked of sources: distances as the device puts them in order, or reductions.

    Parameters
    ----------
    search
        `ooc_graph.kernels.cuda_johnson.CudaJohnson`.
    places
        int64 (sources,): places of the sources among all vertices.

    Raises
    ------
    MemoryBudgetError
        The device's memory is too small.
    InputError
        A sum of floats is beyond float64, as the CPU finds it.
    """
    if task.asked.reduce not in ON_DEVICE:
        return _columns(task, search, ids, places)
    given = _asked_of_device(task, search, ids, places)
    parts = SourceParts(search.reduce(*given), places, ids, task.asked)
    if not task.sums_on_device or not parts.is_beyond.any():
        return parts
    return _with_beyond(task, search, ids, places, parts)


def _columns(task: PairsTask, search: Any, ids: Ids, places: IntArray) -> SourceColumns:
    given = _asked_of_device(task, search, ids, places)
    return SourceColumns(search.run_columns(*given), places, ids, task.asked)


def _asked_of_device(
    task: PairsTask, search: Any, ids: Ids, places: IntArray
) -> tuple[IntArray, IntArray, IntArray, Any]:
    """Arguments of `CudaJohnson.run_columns`."""
    asked, most = task.asked, None
    if asked.cutoff is not None:
        most = largest_reached(asked.cutoff, search.dtype)
    aimed = ids.internal_of if asked.targets is None else ids.internal_of[asked.targets]
    own = own_columns(places, asked)[ids.internal_of[places] >= 0]
    return internal_ids(ids, places), aimed.astype(np.int64), own, most


def _with_beyond(
    task: PairsTask, search: Any, ids: Ids, places: IntArray, parts: SourceParts
) -> SourceNumbers:
    """Reductions; of sources whose sums are beyond float64 as the CPU makes them of distances."""
    reduce, beyond = task.asked.reduce, np.flatnonzero(parts.is_beyond)
    assert reduce is not None
    found: dict[int, Reduced] = {}
    for begin in range(0, len(beyond), _BEYOND):
        some = beyond[begin : begin + _BEYOND]
        rows = _columns(task, search, ids, places[some])
        found |= dict(zip(some.tolist(), rows.reduced(reduce), strict=True))
    return SourceNumbers(
        [
            found[index] if index in found else parts.part(index, index + 1).reduced(reduce)[0]
            for index in range(len(places))
        ]
    )
