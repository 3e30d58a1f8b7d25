"""SSSP steps on one shard of which only the heads of the rows are in memory (CPU).

A push goes along the heads with the steps of the ranks in memory, as if there were no other arcs.
A row whose head is exhausted continues along its tail, which has a cursor of its own. Unless the
row gets nearer, a push fetches no block of its tail again except the one in which it stopped.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, mark_only, members, words_for
from ooc_graph.kernels.common.dealt import copy_own
from ooc_graph.kernels.common.sssp.distances import Payload
from ooc_graph.kernels.common.sssp.plateaus import Plateau
from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.kernels.common.store.rows import TierRows, until
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.sssp.listing import push_once
from ooc_graph.kernels.cpu.sssp.rank import CpuSsspRank
from ooc_graph.kernels.cpu.sssp.shared import CpuSsspShared, ready
from ooc_graph.kernels.cpu.sssp.tails import new_tails, raise_bound, smallest_later
from ooc_graph.kernels.cpu.store import sssp as steps
from ooc_graph.kernels.cpu.store import sssp_steps as ranked
from ooc_graph.types import AnyArray, Dealing, owner_of


class StoreSsspRank(CpuSsspRank):
    """SSSP steps on the rows of one shard, which are light-first, and whose tails are in the store.

    A push lists so many entries at a time, at least the arcs of the longest row. ``out`` and
    ``into`` are the same object if the graph is undirected; every head has its row's first arc.
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
        if steps.has_empty_head(heads) or steps.has_empty_head(into.heads):
            raise ValueError("SSSP needs the first arc of every row in memory")
        super().__init__(
            dealing, steps.light_heads(heads), steps.light_heads(into.heads), known, team
        )
        self.arcs = int(heads.lengths.sum(dtype=np.int64))
        self._out_rows, self._into_rows = out, into
        bits = words_for(dealing.rows)
        self._bits, self._more = (np.zeros(bits, np.uint64) for _ in "12")
        # While rows are pushed, the distances of the own rows are not written yet.
        self._tails = new_tails(heads.lengths, self._distance)
        self._target = np.empty(most_listed, self._ids)
        self._found = np.empty(most_listed, self._top.dtype)
        self._lows = np.empty(team.threads, self._top.dtype)

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound, and those that are left to push."""
        super().drop_pending()
        self._tails.wanting[:] = 0
        self._tails.waiting[:] = 0

    def push(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending.

        As many as fit; the others come with the next push.
        """
        wave, limit, has_risen = self._seen(shared), self._kind(bound), bound != self._bound
        assert not (has_risen and self._queued)
        self._bound, tails = bound, self._tails
        ranked.forget(shared.improved, wave.dealt, tails)
        if has_risen:
            raise_bound(tails, limit)
        queued, pending, _ = ready(
            self._out, wave, shared.improved, self._queued, self._pending, has_risen, limit
        )
        target, found = self._target, self._found
        done, listed, self._pending, examined, again, smallest = push_once(
            self._out, wave, queued, pending, limit, target, found
        )
        ranked.note_exhausted(self._out_rows.heads, wave, done, tails)
        self._queued = queued - done
        wave.queue[: self._queued] = wave.queue[done:queued].copy()
        listing = self._listing(shared, limit, target, found, listed)
        # Along the tails that are wanted, as many as fit.
        out = self._out_rows
        scan = until(
            lambda: bool(listing.counts[ranked.LISTED] == len(target)),
            partial(ranked.list_improvements, listing),
        )
        for count in out.tails(tails.wanting) if listed < len(target) else ():
            out.window.cursor[:count] = tails.cursor[out.window.row[:count]]
            if not out.scan(count, scan):
                break
        listed = int(listing.counts[ranked.LISTED])
        least = np.array([smallest_later(tails, self._kind(smallest))], self._top.dtype)
        payload = target[:listed].copy(), found[:listed].copy(), least
        looked, more = listing.counts[steps.LOOKED], listing.counts[ranked.AGAIN]
        return payload, int(examined + looked), int(again + more)

    def push_at_once(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int, int]:
        """As `push`: a row that improves may have to wait for its tail."""
        return self.push(shared, bound)

    def _listing(
        self,
        shared: CpuSsspShared,
        bound: Any,
        target: AnyArray,
        found: AnyArray,
        listed: int = 0,
    ) -> ranked.Listing:
        """State of a step that lists, with so many entries listed already."""
        counts = np.array([0, listed, 0])
        return ranked.Listing(
            shared.distance, self._wave.dealt, self._tails, bound, self._top, target, found, counts
        )

    def _lengths(self, rows: AnyArray) -> AnyArray:
        return self._out_rows.heads.lengths[rows]

    def _scan_within(
        self, shared: CpuSsspShared, bound: float, scan: Any, dtype: np.dtype[Any]
    ) -> tuple[AnyArray, AnyArray, int]:
        """What a step lists along all arcs of the own rows within a bound; arcs examined."""
        rows = self._rows_within(shared, bound)
        listing = self._listing(shared, self._top, *self._listed(rows, dtype))
        self._out_rows.scan_rows(self._bitmap(rows), partial(scan, listing))
        listed = int(listing.counts[ranked.LISTED])
        return listing.target[:listed], listing.found[:listed], int(listing.counts[steps.LOOKED])

    def _bitmap(self, rows: AnyArray) -> Words:
        mark_only(self._bits, rows)
        return self._bits

    def push_within(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int]:
        """Candidates along all arcs of the own rows within ``bound``; arcs examined."""
        target, found, examined = self._scan_within(
            shared, bound, ranked.list_improvements, self._top.dtype
        )
        return (target, found, np.array([self._top])), examined

    def offer_within(self, shared: CpuSsspShared, bound: float) -> tuple[AnyArray, AnyArray, int]:
        """Vertices that own rows within ``bound`` may be parents of, these rows; arcs examined."""
        return self._scan_within(shared, bound, ranked.list_offers, self._ids)

    def _field(self, shared: CpuSsspShared, marks: Words, bound: Any) -> steps.Field:
        """State of a step, with nothing counted."""
        dealt, top = self._wave.dealt, self._top
        counts, low = np.zeros(2, np.int64), np.full(1, top)
        return steps.Field(
            shared.distance, self._distance, self._parent, dealt, marks, bound, top, low, counts
        )

    def pull(self, shared: CpuSsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined."""
        into, control = self._into_rows, new_control()
        copy_own(shared.distance, self._wave.dealt, self._distance)
        field = self._field(shared, self._bits, self._kind(floor))
        found = self._lows, self._scratches, self._more
        self._team.launch(steps.pull_heads, control, into.heads, field, self._kind(final), *found)
        into.scan_tails(self._more, partial(steps.pull_tails, field))
        rows = self._wave.queue[: members(self._bits, self._wave.queue)]
        arcs = self._out_rows.heads.lengths[rows].sum(dtype=np.int64)
        payload = self._dealing.internal_of(rows), self._distance[rows], np.array([self._top])
        return payload, int(arcs), int(control[steps.EXAMINED] + field.counts[steps.LOOKED])

    def pull_at_once(
        self, shared: CpuSsspShared, final: float, floor: float
    ) -> tuple[Payload, int, int]:
        """As `pull`: tails are read in an order of their own, after all heads."""
        return self.pull(shared, final, floor)

    def find_parents(self, shared: CpuSsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents that are still lacking; vertices left on plateaus, and arcs examined."""
        dealing, into, control = self._dealing, self._into_rows, new_control()
        if owner_of(np.array(root), dealing.shards) == dealing.shard:
            self._parent[dealing.local_of(np.array(root))] = root
        field = self._field(shared, self._more, self._kind(self._floor))
        self._team.launch(ranked.parent_heads, control, into.heads, field)
        into.scan_tails(self._more, partial(ranked.parent_tails, field))
        pending = self._wave.pending
        self._left = ranked.list_lacking(
            shared.distance, self._wave.dealt, self._parent, self._top, pending
        )
        examined = int(control[steps.EXAMINED] + field.counts[steps.LOOKED])
        return dealing.internal_of(pending[: self._left]), examined

    def _find_beside(self, plateau: Plateau, rows: AnyArray) -> None:
        self._into_rows.scan_rows(self._bitmap(rows), partial(ranked.find_beside_tails, plateau))

    def overflowed(self, shared: CpuSsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        self._bits[:] = 0
        field = self._field(shared, self._bits, self._top)
        steps.near_overflow(field, self._known.heaviest)
        self._out_rows.scan_rows(self._bits, partial(steps.count_lost, field))
        return bool(field.counts[steps.NEW])
