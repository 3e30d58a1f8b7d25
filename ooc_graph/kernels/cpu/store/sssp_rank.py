"""SSSP steps on one shard of which only the heads of the rows are in memory (CPU).

A push goes along the heads with the steps of the ranks in memory, as if there were no other arcs.
A row whose head is exhausted goes on along its tail, which has a cursor of its own. Unless the row
gets nearer, a push fetches no unit of its tail again but the one in which it stopped.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import (
    Words,
    drop,
    has,
    members,
    members_of,
    put,
    put_all,
    words_for,
)
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import Dealt, internal_of, is_own, local_of
from ooc_graph.kernels.common.sssp.distances import path_sum
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.common.sssp.survey import Known
from ooc_graph.kernels.common.store.rows import HeadRows, TierRows
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.sssp.push import FLAG_BITS
from ooc_graph.kernels.cpu.sssp.rank import CpuSsspRank, Payload, push_queued, ready, take_own
from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared
from ooc_graph.kernels.cpu.store.sssp import (
    EXAMINED,
    LOOKED,
    NEW,
    Field,
    count_lost,
    has_empty_head,
    near_overflow,
    pull_heads,
    pull_tails,
)
from ooc_graph.kernels.cpu.store.sssp_parents import parent_heads, parent_tails
from ooc_graph.types import AnyArray, Dealing, IntArray, owner_of

LISTED, AGAIN = 1, 2
"""Places in the counts of a `Listing`: entries, and those of them that were reached before.
`LOOKED` is the third."""


class Tails(NamedTuple):
    """Rows whose head is exhausted, and how far along their tails they are.

    ``wanting``, a bitmap, has the rows that go on now, and ``waiting`` those whose next candidate,
    ``later`` (rows,), is above the bound. ``cursor`` (rows,) is a row's next arc.
    """

    cursor: AnyArray
    later: AnyArray
    wanting: Words
    waiting: Words


class Listing(NamedTuple):
    """What a step lists: vertices and distances, or vertices and possible parents.

    ``counts`` int64 (3,): see `LISTED`.
    """

    distance: AnyArray
    dealt: Dealt
    lengths: AnyArray
    tails: Tails
    bound: Any
    top: Any
    target: AnyArray
    found: AnyArray
    counts: IntArray


class Hop(NamedTuple):
    """State of a step that looks for parents on plateaus; ``unresolved`` has who lacks one."""

    distance: AnyArray
    dealt: Dealt
    parent: AnyArray
    unresolved: Words
    top: Any


@kernel
def _forget(improved: Any, dealt: Any, tails: Any) -> None:
    """Own rows that are nearer now begin with their heads again."""
    for index in range(len(improved)):
        v = np.int64(improved[index])
        if is_own(v, dealt):
            row = local_of(v, dealt)
            drop(tails.wanting, row)
            drop(tails.waiting, row)


@kernel
def _raise_bound(tails: Any, bound: Any) -> None:
    """Have rows go on whose next candidate is within the bound."""
    for row in members_of(tails.waiting):
        if tails.later[row] <= bound:
            drop(tails.waiting, row)
            put(tails.wanting, row)


@kernel
def _note_exhausted(heads: Any, wave: Any, count: int, tails: Any) -> None:
    """Have the rows ``queue[:count]`` go on that took all of their head and have more arcs."""
    for index in range(count):
        row = np.int64(wave.queue[index])
        taken = np.int64(wave.taken[row]) >> FLAG_BITS
        head = heads.starts[row + 1] - heads.starts[row]
        if taken == head and head < heads.lengths[row]:
            tails.cursor[row] = head
            put(tails.wanting, row)


@kernel
def _smallest_later(tails: Any, smallest: Any) -> Any:
    """Smallest candidate of those that wait, or ``smallest``."""
    for row in members_of(tails.waiting):
        smallest = min(smallest, tails.later[row])
    return smallest


@kernel
def _go_on(window: Any, count: int, cursor: Any) -> None:
    """Have the rows of a window go on at their cursors."""
    for index in range(count):
        window.cursor[index] = cursor[window.row[index]]


@scanner
@subroutine
def list_improvements(listing: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """List what gets nearer along a row's arcs, up to the bound and as long as there is room."""
    distance, tails, counts = listing.distance, listing.tails, listing.counts
    at, listed, arc = distance[internal_of(row, listing.dealt)], counts[LISTED], 0
    while arc < len(neighbors):
        candidate = path_sum(at, weights[arc], listing.top)
        if candidate > listing.bound:
            tails.later[row] = candidate
            drop(tails.wanting, row)
            put(tails.waiting, row)
            break
        if listed == len(listing.target):
            break
        v = np.int64(neighbors[arc])
        if candidate < distance[v]:
            counts[AGAIN] += distance[v] < listing.top
            listing.target[listed], listing.found[listed] = v, candidate
            listed += 1
        arc += 1
    counts[LISTED] = listed
    counts[LOOKED] += arc
    tails.cursor[row] += arc
    if tails.cursor[row] == listing.lengths[row]:
        drop(tails.wanting, row)
    return bool(arc == len(neighbors))


@scanner
@subroutine
def list_offers(listing: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """List the vertices that a row may be the parent of."""
    distance, top, counts = listing.distance, listing.top, listing.counts
    u = internal_of(row, listing.dealt)
    at, listed = distance[u], counts[LISTED]
    for arc in range(len(neighbors)):
        v = np.int64(neighbors[arc])
        away = distance[v]
        if at < away and away < top and path_sum(at, weights[arc], top) == away:
            listing.target[listed], listing.found[listed] = v, u
            listed += 1
    counts[LISTED] = listed
    counts[LOOKED] += len(neighbors)
    return True


@scanner
@subroutine
def find_beside_on_rank(hop: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Give a row the smallest neighbour on its plateau that has a parent already."""
    at = hop.distance[internal_of(row, hop.dealt)]
    for arc in range(len(neighbors)):
        if path_sum(at, weights[arc], hop.top) > at:
            return False
        u = np.int64(neighbors[arc])
        if hop.distance[u] == at and not has(hop.unresolved, u):
            hop.parent[row] = min(hop.parent[row], neighbors[arc])
    return True


@kernel
def _list_lacking(distance: Any, dealt: Any, parent: Any, top: Any, lacking: Any) -> int:
    """List the reached own rows without a parent; how many."""
    count, none = 0, parent.dtype.type(-1)
    for row in range(len(parent)):
        if parent[row] == none and distance[internal_of(row, dealt)] < top:
            lacking[count] = row
            count += 1
    return count


@kernel
def _take_solved(parent: Any, lacking: Any, count: int, solved: Any) -> tuple[int, int]:
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
def _put_rows(bits: Any, rows: Any) -> None:
    put_all(bits, rows, len(rows))


def _head_rows(heads: HeadRows) -> LightRows:
    return LightRows(heads.starts, heads.neighbors, heads.weights, heads.first)


class StoreSsspRank(CpuSsspRank):
    """SSSP steps on the rows of one shard, which are light-first, and whose tails are in the store.

    A push lists so many entries at a time, at least the arcs of the longest row. ``out`` and
    ``into`` are the same object if the graph is undirected; the head of every row has its first
    arc.
    """

    def __init__(
        self,
        dealing: Dealing,
        out: TierRows,
        into: TierRows,
        known: Known,
        most_listed: int,
        team: Team,
    ) -> None:
        heads = out.heads
        if has_empty_head(heads) or has_empty_head(into.heads):
            raise ValueError("SSSP needs the first arc of every row in memory")
        super().__init__(dealing, _head_rows(heads), _head_rows(into.heads), known, team)
        self.arcs = int(heads.lengths.sum(dtype=np.int64))
        self._out_rows, self._into_rows = out, into
        bits = words_for(dealing.rows)
        self._bits, self._more = (np.zeros(bits, np.uint64) for _ in "12")
        # While rows are pushed, the distances of the own rows are not written yet.
        self._tails = Tails(
            np.empty(dealing.rows, heads.starts.dtype),
            self._distance,
            *(np.zeros(bits, np.uint64) for _ in "12"),
        )
        self._target = np.empty(most_listed, self._ids)
        self._found = np.empty(most_listed, self._top.dtype)
        self._lows = np.empty(team.threads, self._top.dtype)
        self._queued = 0

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound, and those that are left to push."""
        super().drop_pending()
        self._queued = 0
        self._tails.wanting[:] = 0
        self._tails.waiting[:] = 0

    def push(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending.

        As many as there is room for; the others come with the next push.
        """
        wave, limit, has_risen = self._seen(shared), self._kind(bound), bound != self._bound
        assert not (has_risen and self._queued)
        self._bound, tails = bound, self._tails
        _forget(shared.improved, wave.dealt, tails)
        if has_risen:
            _raise_bound(tails, limit)
        queued, pending, _ = ready(
            self._out, wave, shared.improved, self._queued, self._pending, has_risen, limit
        )
        target, found = self._target, self._found
        done, listed, self._pending, examined, again, smallest = push_queued(
            self._out, wave, queued, pending, limit, target, found
        )
        _note_exhausted(self._out_rows.heads, wave, done, tails)
        self._queued = queued - done
        wave.queue[: self._queued] = wave.queue[done:queued].copy()
        listing = self._listing(shared, limit, target, found, listed)
        self._go_on_along_tails(listing)
        listed = int(listing.counts[LISTED])
        least = np.array([_smallest_later(tails, self._kind(smallest))], self._top.dtype)
        payload = target[:listed].copy(), found[:listed].copy(), least
        looked, more = listing.counts[LOOKED], listing.counts[AGAIN]
        return payload, int(examined + looked), int(again + more)

    def _listing(
        self,
        shared: CpuSsspShared,
        bound: Any,
        target: AnyArray,
        found: AnyArray,
        listed: int = 0,
    ) -> Listing:
        """State of a step that lists, with so many entries listed already."""
        dealt, lengths = self._wave.dealt, self._out_rows.heads.lengths
        counts = np.array([0, listed, 0])
        return Listing(
            shared.distance, dealt, lengths, self._tails, bound, self._top, target, found, counts
        )

    def _go_on_along_tails(self, listing: Listing) -> None:
        """List improvements along the tails that are wanted, as long as there is room."""
        out, tails = self._out_rows, self._tails
        for count in out.tails(tails.wanting):
            if listing.counts[LISTED] == len(listing.target):
                return
            _go_on(out.window, count, tails.cursor)
            out.scan(count, partial(list_improvements, listing))

    def _lengths(self, rows: AnyArray) -> AnyArray:
        return self._out_rows.heads.lengths[rows]

    def _scan_within(
        self, shared: CpuSsspShared, bound: float, scan: Any, dtype: np.dtype[Any]
    ) -> tuple[AnyArray, AnyArray, int]:
        """What a step lists along all arcs of the own rows within a bound; arcs examined."""
        rows = self._rows_within(shared, bound)
        listing = self._listing(shared, self._top, *self._listed(rows, dtype))
        self._out_rows.scan_rows(self._bitmap(rows), partial(scan, listing))
        listed = int(listing.counts[LISTED])
        return listing.target[:listed], listing.found[:listed], int(listing.counts[LOOKED])

    def _bitmap(self, rows: AnyArray) -> Words:
        self._bits[:] = 0
        _put_rows(self._bits, rows)
        return self._bits

    def push_within(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int]:
        """Candidates along all arcs of the own rows within ``bound``; arcs examined."""
        target, found, examined = self._scan_within(
            shared, bound, list_improvements, self._top.dtype
        )
        return (target, found, np.array([self._top])), examined

    def offer_within(self, shared: CpuSsspShared, bound: float) -> tuple[AnyArray, AnyArray, int]:
        """Vertices that own rows within ``bound`` may be parents of, these rows; arcs examined."""
        return self._scan_within(shared, bound, list_offers, self._ids)

    def _field(self, shared: CpuSsspShared, marks: Words, bound: Any) -> Field:
        """State of a step, with nothing counted."""
        dealt, top = self._wave.dealt, self._top
        counts, low = np.zeros(2, np.int64), np.full(1, top)
        return Field(
            shared.distance, self._distance, self._parent, dealt, marks, bound, top, low, counts
        )

    def pull(self, shared: CpuSsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined."""
        into, control = self._into_rows, new_control()
        take_own(shared.distance, self._wave.dealt, self._distance)
        field = self._field(shared, self._bits, self._kind(floor))
        self._team.launch(
            pull_heads,
            control,
            into.heads,
            field,
            self._kind(final),
            self._lows,
            self._scratches,
            self._more,
        )
        into.scan_tails(self._more, partial(pull_tails, field))
        rows = self._wave.queue[: members(self._bits, self._wave.queue)]
        arcs = self._out_rows.heads.lengths[rows].sum(dtype=np.int64)
        payload = self._dealing.internal_of(rows), self._distance[rows], np.array([self._top])
        return payload, int(arcs), int(control[EXAMINED] + field.counts[LOOKED])

    def find_parents(self, shared: CpuSsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents that are still lacking; vertices left on plateaus, and arcs examined."""
        dealing, into, control = self._dealing, self._into_rows, new_control()
        if owner_of(np.array(root), dealing.shards) == dealing.shard:
            self._parent[dealing.local_of(np.array(root))] = root
        field = self._field(shared, self._more, self._kind(self._floor))
        self._team.launch(parent_heads, control, into.heads, field)
        into.scan_tails(self._more, partial(parent_tails, field))
        pending = self._wave.pending
        self._left = _list_lacking(
            shared.distance, self._wave.dealt, self._parent, self._top, pending
        )
        examined = int(control[EXAMINED] + field.counts[LOOKED])
        return dealing.internal_of(pending[: self._left]), examined

    def resolve(self, shared: CpuSsspShared) -> AnyArray:
        """Vertices on plateaus that are next to one that has a parent, and take it."""
        pending, solved = self._wave.pending, np.empty(self._left, self._ids)
        hop = Hop(shared.distance, self._wave.dealt, self._parent, shared.waiting, self._top)
        bits = self._bitmap(pending[: self._left])
        self._into_rows.scan_rows(bits, partial(find_beside_on_rank, hop))
        found, self._left = _take_solved(self._parent, pending, self._left, solved)
        return self._dealing.internal_of(solved[:found])

    def overflowed(self, shared: CpuSsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        self._bits[:] = 0
        field = self._field(shared, self._bits, self._top)
        near_overflow(field, self._known.heaviest)
        self._out_rows.scan_rows(self._bits, partial(count_lost, field))
        return bool(field.counts[NEW])
