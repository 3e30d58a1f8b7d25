"""Everyone's distances in one process: what the SSSP ranks there share (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import drop, put, words_for
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.sssp.distances import SharedBounds
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import AnyArray


@kernel
def _relax(
    distance: Any,
    marks: Any,
    improved: Any,
    count: int,
    vertices: Any,
    candidates: Any,
    low: Any,
) -> tuple[int, Any]:
    """Take the smaller distances; list improved vertices once each (marked).

    Returns how many are listed, and the smallest distance taken or ``low``.
    """
    for index in range(len(vertices)):
        v = np.int64(vertices[index])
        if candidates[index] < distance[v]:
            distance[v] = candidates[index]
            low = min(low, candidates[index])
            if marks[v] == 0:
                marks[v] = 1
                improved[count] = v
                count += 1
    return count, low


@kernel
def _unmark(marks: Any, improved: Any) -> None:
    for index in range(len(improved)):
        marks[np.int64(improved[index])] = 0


@kernel
def _change_set(words: Any, joining: Any, leaving: Any) -> None:
    for index in range(len(joining)):
        put(words, np.int64(joining[index]))
    for index in range(len(leaving)):
        drop(words, np.int64(leaving[index]))


class CpuSsspShared(SharedBounds):
    """Replica of all distances and of the set of vertices waiting on plateaus, in host memory."""

    def __init__(self, vertices: int, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self.distance = np.full(vertices, self.top[0], dtype)
        self.waiting = np.zeros(words_for(vertices), np.uint64)
        self._marks = np.zeros(vertices, np.uint8)
        self._list = np.empty(vertices, id_dtype(vertices))
        self.improved = self._list[:0]

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Relax (three arrays), or change the set of those waiting for a parent (two arrays)."""
        if len(payloads[0]) == 2:
            for joining, leaving in payloads:
                _change_set(self.waiting, joining, leaving)
            return
        count, low = 0, self.top[0]
        for vertices, candidates, _ in payloads:
            count, low = _relax(
                self.distance, self._marks, self._list, count, vertices, candidates, low
            )
        self.improved = self._list[:count]
        _unmark(self._marks, self.improved)
        self._low = self.top.dtype.type(low)
        self._smallest = min(smallest[0] for _, _, smallest in payloads)
