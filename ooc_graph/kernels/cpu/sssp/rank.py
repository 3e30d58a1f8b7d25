"""SSSP steps on one shard of many (CPU).

Distances live in the process's shared replica, which only its `merge` changes: a rank reads them
and says what it found. What the ranks of a process find in a superstep therefore does not depend
on their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import overflow_error, path_sum, unreached
from ooc_graph.kernels.common.sssp.plateaus import plateau_parent
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.common.sssp.survey import survey
from ooc_graph.kernels.cpu.sssp.parents import lost_by_overflow, parent_of_row
from ooc_graph.kernels.cpu.sssp.pull import pull_row
from ooc_graph.kernels.cpu.sssp.push import HeadedRows
from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared
from ooc_graph.types import DEAL_BLOCK, DEAL_BLOCK_BITS, AnyArray, Dealing, owner_of

Payload = tuple[AnyArray, AnyArray, AnyArray]
QUEUED, WAITING = 1, 2


@subroutine
def _internal(row: int, dealt: Any) -> Any:
    shards, shard = dealt
    block = (row >> DEAL_BLOCK_BITS) * shards + shard
    return (block << DEAL_BLOCK_BITS) | (row & (DEAL_BLOCK - 1))


@kernel
def _ready(
    out: Any, dealt: Any, distance: Any, state: Any, pending: int, count: int, bound: Any, top: Any
) -> tuple[int, int, int]:
    """Queue pending rows with a candidate <= ``bound`` behind ``queue[:count]``.

    Returns the queued, the rows still pending and the arcs that the queued have left.
    """
    taken, marks, queue, waiting = state
    kept, arcs = 0, 0
    for index in range(count):
        row = np.int64(queue[index])
        arcs += out.offsets[row + 1] - out.offsets[row]
    for index in range(pending):
        row = np.int64(waiting[index])
        position, end = out.offsets[row] + np.int64(taken[row]), out.offsets[row + 1]
        if marks[row] & QUEUED or position == end:
            marks[row] &= QUEUED
        elif path_sum(distance[_internal(row, dealt)], out.weights[position], top) <= bound:
            marks[row] = QUEUED
            queue[count] = row
            count += 1
            arcs += end - position
        else:
            waiting[kept] = row
            kept += 1
    return count, kept, arcs


@kernel
def _queue_improved(state: Any, rows: Any) -> None:
    taken, marks, queue, _ = state
    for index in range(len(rows)):
        row = np.int64(rows[index])
        taken[row] = 0
        marks[row] |= QUEUED
        queue[index] = row


@kernel
def _push(
    out: Any,
    dealt: Any,
    distance: Any,
    state: Any,
    count: int,
    pending: int,
    bound: Any,
    top: Any,
    target: Any,
    found: Any,
) -> tuple[int, int, int, int]:
    """Emit improvements up to ``bound`` from the queue; emitted, pending, examined, again."""
    taken, marks, queue, waiting = state
    emitted, examined, again = 0, 0, 0
    for index in range(count):
        row = np.int64(queue[index])
        begin, end = out.offsets[row], out.offsets[row + 1]
        position = begin + np.int64(taken[row])
        examined -= position
        at = distance[_internal(row, dealt)]
        while position < end:
            candidate = path_sum(at, out.weights[position], top)
            if candidate > bound:
                break
            v = np.int64(out.neighbors[position])
            if candidate < distance[v]:
                again += distance[v] < top
                target[emitted], found[emitted] = v, candidate
                emitted += 1
            position += 1
        examined += position
        taken[row] = position - begin
        marks[row] = 0
        if position < end:
            marks[row] = WAITING
            waiting[pending] = row
            pending += 1
    return emitted, pending, examined, again


@kernel
def _smallest(out: Any, dealt: Any, distance: Any, state: Any, pending: int, top: Any) -> Any:
    taken, _, _, waiting = state
    smallest = top
    for index in range(pending):
        row = np.int64(waiting[index])
        weight = out.weights[out.offsets[row] + np.int64(taken[row])]
        smallest = min(smallest, path_sum(distance[_internal(row, dealt)], weight, top))
    return smallest


@kernel
def _pull(
    into: Any,
    out_offsets: Any,
    dealt: Any,
    distance: Any,
    final: Any,
    floor: Any,
    top: Any,
    target: Any,
    found: Any,
) -> tuple[int, int, int]:
    emitted, arcs, examined = 0, 0, 0
    for row in range(len(out_offsets) - 1):
        v = _internal(row, dealt)
        before = distance[v]
        if before <= final:
            continue
        best, looked = pull_row(into, distance, row, before, floor, top)
        examined += looked
        if best < before:
            target[emitted], found[emitted] = v, best
            emitted += 1
            arcs += out_offsets[row + 1] - out_offsets[row]
    return emitted, arcs, examined


@kernel
def _parents(
    into: Any, dealt: Any, distance: Any, parent: Any, left: Any, root: int, floor: Any, top: Any
) -> tuple[int, int]:
    """Parents of the own rows; rows on plateaus go to ``left``: how many, and arcs examined."""
    count, examined = 0, 0
    for row in range(len(parent)):
        v = _internal(row, dealt)
        if v == root:
            parent[row] = v
        elif distance[v] < top:
            found, looked = parent_of_row(into, distance, row, distance[v], floor, top)
            examined += looked
            if found >= 0:
                parent[row] = found
            else:
                left[count] = row
                count += 1
    return count, examined


@kernel
def _resolve(
    into: Any,
    dealt: Any,
    distance: Any,
    waiting: Any,
    parent: Any,
    left: Any,
    count: int,
    top: Any,
    solved: Any,
) -> tuple[int, int]:
    """Give rows in ``left`` the plateau parent that they can have now; solved, still left."""
    found, kept = 0, 0
    for index in range(count):
        row = np.int64(left[index])
        v = _internal(row, dealt)
        u = plateau_parent(into, distance, waiting, row, distance[v], top)
        if u >= 0:
            parent[row] = u
            solved[found] = v
            found += 1
        else:
            left[kept] = row
            kept += 1
    return found, kept


@kernel
def _overflowed(out: Any, dealt: Any, distance: Any, heaviest: Any, top: Any) -> bool:
    for row in range(len(out.offsets) - 1):
        at = distance[_internal(row, dealt)]
        if lost_by_overflow(out, row, at, heaviest, distance, top):
            return True
    return False


class CpuSsspRank:
    """SSSP steps on the rows of one shard, on the caller's thread.

    Parameters
    ----------
    dealing
        Which rows these are.
    out, into
        Light-first rows to push and to pull along.
    tuples
        Input tuples at each own row.
    """

    def __init__(
        self, dealing: Dealing, out: LightRows, into: HeadedRows, tuples: AnyArray
    ) -> None:
        rows, self._ids = dealing.rows, out.neighbors.dtype
        self.vertices, self.arcs = dealing.vertices, len(out.neighbors)
        self._dealing, self._dealt = dealing, (dealing.shards, dealing.shard)
        self._out, self._into, self._found = out, into, survey(out, tuples)
        dtype = out.weights.dtype
        self._top = unreached(dtype if dtype.kind == "f" else np.dtype(np.int64))[0]
        self._kind = self._top.dtype.type
        self._heaviest = out.weights.max(initial=0)
        self._state = (
            np.zeros(rows, np.uint64),
            np.zeros(rows, np.uint8),
            np.empty(rows, self._ids),
            np.empty(rows, self._ids),
        )
        self._pending = self._left = 0
        self._parent = np.empty(rows, self._ids)

    def start(self) -> None:
        """Forget everything."""
        self._state[1][:] = 0
        self._pending = self._left = 0
        self._parent[:] = np.iinfo(self._ids).max

    def survey(self) -> tuple[tuple[int, int, int, int], float]:
        """Tuples at the first rows and at all, first rows with spread weights and all; a step."""
        s = self._found
        return (s.head_tuples, s.tuples, s.spread_rows, s.sampled_rows), s.step

    def nothing(self, smallest: float) -> Payload:
        """Payload that relaxes nothing."""
        dtype = self._top.dtype
        # The first step is a float64; beyond the largest float32 it is as good as infinite.
        with np.errstate(over="ignore"):
            least = np.array([min(self._top, smallest)], dtype)
        return np.empty(0, self._ids), np.empty(0, dtype), least

    def seed(self, root: int) -> Payload:
        """Payload that puts the root at distance 0, if this rank owns it."""
        if (root >> DEAL_BLOCK_BITS) % self._dealing.shards != self._dealing.shard:
            return self.nothing(self._top)
        dtype = self._top.dtype
        return np.array([root], self._ids), np.zeros(1, dtype), np.array([self._top], dtype)

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""
        self._state[1][:] = 0
        self._pending = 0

    def push(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending."""
        improved = shared.improved
        if self._dealing.shards > 1:
            mine = owner_of(improved, self._dealing.shards) == self._dealing.shard
            improved = improved[mine]
        _queue_improved(self._state, self._dealing.local_of(improved))
        rows, where = (self._out, self._dealt, shared.distance), (self._kind(bound), self._top)
        count, pending, room = _ready(*rows, self._state, self._pending, len(improved), *where)
        target, found = np.empty(room, self._ids), np.empty(room, self._top.dtype)
        emitted, self._pending, examined, again = _push(
            *rows, self._state, count, pending, *where, target, found
        )
        smallest = _smallest(*rows, self._state, self._pending, self._top)
        payload = (
            target[:emitted].copy(),
            found[:emitted].copy(),
            np.array([smallest], self._top.dtype),
        )
        return payload, examined, again

    def pull(self, shared: CpuSsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined."""
        target = np.empty(len(self._parent), self._ids)
        found = np.empty(len(target), self._top.dtype)
        emitted, arcs, examined = _pull(
            self._into,
            self._out.offsets,
            self._dealt,
            shared.distance,
            self._kind(final),
            self._kind(floor),
            self._top,
            target,
            found,
        )
        payload = target[:emitted].copy(), found[:emitted].copy(), np.array([self._top])
        return payload, arcs, examined

    def find_parents(self, shared: CpuSsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents; vertices left on plateaus, and arcs examined."""
        left = self._state[3]
        self._left, examined = _parents(
            self._into,
            self._dealt,
            shared.distance,
            self._parent,
            left,
            root,
            self._kind(0),
            self._top,
        )
        return self._dealing.internal_of(left[: self._left]), examined

    def resolve(self, shared: CpuSsspShared) -> AnyArray:
        """Vertices on plateaus that are next to one that has a parent, and take it."""
        solved = np.empty(self._left, self._ids)
        found, self._left = _resolve(
            self._into,
            self._dealt,
            shared.distance,
            shared.waiting,
            self._parent,
            self._state[3],
            self._left,
            self._top,
            solved,
        )
        return solved[:found]

    def overflowed(self, shared: CpuSsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        return bool(_overflowed(self._out, self._dealt, shared.distance, self._heaviest, self._top))

    def refuse_overflow(self) -> None:
        """Raise the error that says so."""
        error: InputError = overflow_error(self._top.dtype)
        raise error

    def tree(self, shared: CpuSsspShared, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order."""
        mine = self._dealing.internal_of(np.arange(len(self._parent)))
        return SsspTree(self._parent, shared.distance[mine], 0.0, phase_arcs)
