"""What the SSSP ranks of one process share: everyone's distances, and compiled steps (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import drop, put, words_for
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.dealt import WHOLE, arcs_of, internal_of
from ooc_graph.kernels.common.intrinsics import atomic_lower
from ooc_graph.kernels.common.sssp.distances import SharedBounds
from ooc_graph.kernels.common.sssp.plateaus import find_beside
from ooc_graph.kernels.cpu.sssp import push
from ooc_graph.kernels.cpu.sssp.common import COMMON_BYTES
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import DEAL_BLOCK, AnyArray

_ALIGNED = 64


@kernel
def ready(
    out: Any, wave: Any, improved: Any, count: int, pending: int, has_risen: bool, bound: Any
) -> tuple[int, int, int]:
    """Queue own rows that improved, and under a new bound those pending; their arcs left.

    ``queue[:count]`` has rows already, but none under a new bound.
    """
    if has_risen:
        count, pending = push.take_pending(out, wave, pending, bound)
    count, pending = push.queue_improved(out, wave, improved, count, pending, bound)
    return count, pending, arcs_of(out.offsets, WHOLE, wave.queue[:count])


@kernel
def list_within(wave: Any, bound: Any, rows: Any) -> int:
    """List the rows with a distance of at most ``bound``; how many."""
    count = 0
    for base in range(0, len(wave.taken), DEAL_BLOCK):
        shift = internal_of(base, wave.dealt) - base
        for row in range(base, min(base + DEAL_BLOCK, len(wave.taken))):
            rows[count] = row
            count += wave.distance[row + shift] <= bound
    return count


@kernel
def find_at(distance: Any, vertices: Any, at: Any) -> int:
    """Index of the first of the vertices at distance ``at``; their number if there is none."""
    for index in range(len(vertices)):
        if distance[np.int64(vertices[index])] == at:
            return index
    return len(vertices)


@kernel
def find_beside_rows(into: Any, plateau: Any, rows: Any) -> None:
    """Give rows the smallest neighbour on their plateau that has a parent, if there is one."""
    for index in range(len(rows)):
        row = np.int64(rows[index])
        start, stop = into.offsets[row], into.offsets[row + 1]
        find_beside(plateau, row, into.neighbors[start:stop], into.weights[start:stop])


@kernel
def take_solved(parent: Any, lacking: Any, count: int, solved: Any) -> tuple[int, int]:
    """Move rows that have a parent now from ``lacking`` to ``solved``; how many, and those left."""
    found, left, none = 0, 0, parent.dtype.type(-1)
    for index in range(count):
        row = np.int64(lacking[index])
        if parent[row] == none:
            lacking[left] = row
            left += 1
        else:
            solved[found] = row
            found += 1
    return found, left


@kernel
def _relax(
    distance: Any,
    marks: Any,
    improved: Any,
    count: int,
    vertices: Any,
    candidates: Any,
    low: Any,
    is_joined: bool,
) -> tuple[int, Any]:
    """Take the smaller distances; list improved vertices once each (marked).

    Equal ones were taken by a rank of this process when it found them, and others take them now. If
    distances ``is_joined``, any rank may have taken them, and their owner takes note now. Returns
    how many are listed, and the smallest distance taken or ``low``.
    """
    for index in range(len(vertices)):
        v, candidate = np.int64(vertices[index]), candidates[index]
        # Others may be ahead, and joined distances smaller.
        low = min(low, candidate if candidate <= distance[v] or is_joined else low)
        if candidate < distance[v] or (candidate == distance[v] and is_joined):
            atomic_lower(distance, v, candidate)
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
        self._vertices = vertices
        self._distance: AnyArray | None = None
        self._making = Lock()
        self.waiting = np.zeros(words_for(vertices), np.uint64)
        self._marks = np.zeros(vertices, np.uint8)
        self._list = np.empty(vertices, id_dtype(vertices))
        self.improved = self._list[:0]
        self.is_joined = False
        """Whether the distances are those of all ranks, which see at once what others find."""
        self.common: AnyArray | None = None
        """The end of ``memory``, `COMMON_BYTES`, if ``parts`` processes map it."""
        self.memory: AnyArray | None = None
        self.parts = 1

    @property
    def distance(self) -> AnyArray:
        """Distances of all vertices; made if asked for, as most searches join those of others."""
        with self._making:
            if self._distance is None:
                self._distance = np.full(self._vertices, self.top[0], self.top.dtype)
            return self._distance

    @property
    def joined_bytes(self) -> int:
        """Bytes of the distances, and behind them of what ranks have that search together."""
        return self._common_at + COMMON_BYTES

    @property
    def _common_at(self) -> int:
        return -(-self._bytes // _ALIGNED) * _ALIGNED

    @property
    def _bytes(self) -> int:
        return self._vertices * self.top.dtype.itemsize

    def join(self, memory: AnyArray | None, part: int, parts: int) -> None:
        """Have the distances in memory that all processes map, of which this fills a part."""
        self.is_joined = True
        if memory is not None:
            rows = self._vertices
            self.memory, self.common, self.parts = memory, memory[self._common_at :], parts
            self._distance = memory[: self._bytes].view(self.top.dtype)
            self._distance[rows * part // parts : rows * (part + 1) // parts] = self.top[0]

    def part(self) -> None:
        """Have distances of this process alone, as at first; others may still write to joined ones.

        All do so at the same time.
        """
        self._distance, self.is_joined = None, False
        self.memory = self.common = None

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Relax (three arrays), or change the set of those waiting for a parent (two arrays)."""
        if len(payloads[0]) == 2:
            for joining, leaving in payloads:
                _change_set(self.waiting, joining, leaving)
            return
        count, low = 0, self.top[0]
        for vertices, candidates, _ in payloads:
            if len(vertices) == 0:
                continue
            state = self.distance, self._marks, self._list, count
            count, low = _relax(*state, vertices, candidates, low, self.is_joined)
        self.improved = self._list[:count]
        _unmark(self._marks, self.improved)
        self._low = self.top.dtype.type(low)
        self._smallest = min(smallest[0] for _, _, smallest in payloads)
