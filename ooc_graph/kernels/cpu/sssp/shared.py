"""Everyone's distances in one process: what the SSSP ranks there share (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.sssp.distances import SharedBounds
from ooc_graph.types import AnyArray


@kernel
def _relax(
    distance: Any, marks: Any, improved: Any, count: int, vertices: Any, candidates: Any
) -> int:
    """Take the smaller distances; list improved vertices once each (marked); return how many."""
    for index in range(len(vertices)):
        v = np.int64(vertices[index])
        if candidates[index] < distance[v]:
            distance[v] = candidates[index]
            if marks[v] == 0:
                marks[v] = 1
                improved[count] = v
                count += 1
    return count


@kernel
def _unmark(distance: Any, marks: Any, improved: Any, low: Any) -> Any:
    """Clear the marks; return the smallest improved distance."""
    for index in range(len(improved)):
        v = np.int64(improved[index])
        marks[v] = 0
        low = min(low, distance[v])
    return low


class CpuSsspShared(SharedBounds):
    """Replica of all distances and of the set of vertices waiting on plateaus, in host memory.

    Parameters
    ----------
    vertices
        Rows of the whole graph.
    dtype
        Of the distances: float32, float64 or int64.
    """

    def __init__(self, vertices: int, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self.distance = np.full(vertices, self.top[0], dtype)
        self.waiting = np.zeros(words_for(vertices), np.uint64)
        self._marks = np.zeros(vertices, np.uint8)
        self._list = np.empty(vertices, np.int64)
        self.improved = self._list[:0]

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Relax (three arrays), or toggle the set of those waiting for a parent (one array)."""
        if len(payloads[0]) == 1:
            for (vertices,) in payloads:
                ids = vertices.astype(np.uint64)
                bits = np.uint64(1) << (ids & np.uint64(63))
                np.bitwise_xor.at(self.waiting, (ids >> np.uint64(6)).astype(np.int64), bits)
            return
        count = 0
        for vertices, candidates, _ in payloads:
            count = _relax(self.distance, self._marks, self._list, count, vertices, candidates)
        self.improved = self._list[:count]
        self._low = self.top.dtype.type(
            _unmark(self.distance, self._marks, self.improved, self.top[0])
        )
        self._smallest = min(smallest[0] for _, _, smallest in payloads)
