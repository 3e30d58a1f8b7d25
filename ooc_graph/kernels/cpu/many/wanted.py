"""Which distances are wanted of many sources, and how they are written (CPU)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import inlined, kernel
from ooc_graph.kernels.common.sssp.distances import unreached
from ooc_graph.types import AnyArray, IntArray

PUBLISHED = 16
"""Rows whose distances are written out together: what a cache line holds."""


class Wanted(NamedTuple):
    """Sources, which distances are wanted of every one of them, and where these go.

    ``sources`` int64 (sources,), internal ids, and ``at`` int64 (sources,): each source's row of
    ``answer``. ``columns`` int64 (columns,) of it: internal ids, -1 for who has no row, whom nobody
    reaches. ``ends`` (2,) of the distances' dtype: what stands for not reached, and the largest
    distance that counts as reached. ``potential`` (rows,) is what the weights were shifted by,
    which is taken away, or empty.
    """

    sources: IntArray
    at: IntArray
    answer: AnyArray
    columns: IntArray
    ends: AnyArray
    potential: AnyArray

    def part(self, start: int, stop: int | None = None) -> Wanted:
        """The same of some of the sources."""
        return self._replace(sources=self.sources[start:stop], at=self.at[start:stop])


@inlined
def publish(batch: Any, wanted: Any, first: int, end: int) -> None:
    """Write a batch's distances, of the sources from ``first`` to ``end``, as `Wanted`."""
    columns, potential, answer = wanted.columns, wanted.potential, wanted.answer
    top, far, most = batch.limits[0], wanted.ends[0], wanted.ends[1]
    is_reweighted = len(potential) > 0
    width = len(columns)
    for base in range(0, width, PUBLISHED):
        stop = min(base + PUBLISHED, width)
        for slot in range(end - first):
            mine = potential[wanted.sources[first + slot]] if is_reweighted else top
            at = wanted.at[first + slot]
            for column in range(base, stop):
                row, found = columns[column], far
                if row >= 0:
                    distance = batch.distance[row, slot]
                    if distance < top:
                        found = distance - mine + potential[row] if is_reweighted else distance
                answer[at, column] = found if found <= most else far


def all_wanted(sources: IntArray, answer: AnyArray, potential: AnyArray | None = None) -> Wanted:
    """All distances of every source, by internal id, in rows one after the other."""
    dtype, (count, rows) = answer.dtype, answer.shape
    by = np.empty(0, dtype) if potential is None else potential
    ends = np.repeat(unreached(dtype), 2)
    return Wanted(sources, np.arange(count), answer, np.arange(rows), ends, by)


@kernel
def put_row(distance: Any, position: int, wanted: Any) -> None:
    """Write the distances from the source at a position, by internal id, as `Wanted`."""
    columns, potential = wanted.columns, wanted.potential
    is_reweighted, far, most = len(potential) > 0, wanted.ends[0], wanted.ends[1]
    mine = potential[wanted.sources[position]] if is_reweighted else far
    row = wanted.answer[wanted.at[position]]
    for column in range(len(columns)):
        v, found = columns[column], far
        if v >= 0 and distance[v] < far:
            found = distance[v] - mine + potential[v] if is_reweighted else distance[v]
        row[column] = found if found <= most else far
