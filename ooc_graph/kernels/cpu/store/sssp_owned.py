"""SSSP steps of a rank that has the distances of its own rows alone, and their heads (CPU).

A push goes along the heads as if there were no other arcs, until nothing changes. Rows whose heads
are exhausted then go on along their tails, which are fetched from the store, and what improves is
pushed along the heads again. A row that gets nearer begins with its head again, and with its tail
once the head is exhausted.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, drop
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.sssp.owned import SharedSettled
from ooc_graph.kernels.common.sssp.rows import Known, LightRows
from ooc_graph.kernels.common.sssp.sums import path_sum
from ooc_graph.kernels.common.store.rows import TierRows, until
from ooc_graph.kernels.common.store.scans import scanner
from ooc_graph.kernels.cpu.sssp.owned import CpuOwnedSsspRank
from ooc_graph.kernels.cpu.sssp.owned_lists import Listed, Own
from ooc_graph.kernels.cpu.sssp.owned_looks import has_beside
from ooc_graph.kernels.cpu.sssp.owned_plateaus import offer_arcs
from ooc_graph.kernels.cpu.sssp.owned_steps import push_arcs, tail_of_ring
from ooc_graph.kernels.cpu.sssp.tails import (
    Tails,
    advance,
    new_tails,
    raise_bound,
    smallest_later,
    wait_for,
)
from ooc_graph.kernels.cpu.store.sssp import has_empty_head, light_heads
from ooc_graph.types import AnyArray, Dealing, IntArray

RING, IN_RING, PENDING, AGAIN, FOUND, LISTED, LOOKED, FULL = range(8)
"""Words of the counts of a `TailStep`.

The ring of `push_own`: where it begins, the rows in it, those pending, and what is done again; rows
that have found a parent, entries listed, arcs examined, and 1 if there was no room for an entry.
"""


class TailStep(NamedTuple):
    """State of pushes and offers along tails.

    ``counts`` int64 (8,): see `RING`. ``smallest`` (1,) and ``bound`` are as of `push_own`.
    """

    out: LightRows
    own: Own
    tails: Tails
    bound: Any
    settled: AnyArray
    listed: Listed
    smallest: AnyArray
    counts: IntArray


@scanner
@subroutine
def push_tail(step: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Push a row along its tail, as `push_own` does along its head."""
    counts, own, tails = step.counts, step.own, step.tails
    if counts[FULL]:
        return False
    tail = tail_of_ring(own, counts[RING], counts[IN_RING])
    ring = tail, counts[IN_RING], counts[PENDING], counts[AGAIN], step.smallest[0]
    arcs, positions = (neighbors, weights), (np.int64(0), len(neighbors))
    below = step.bound, step.settled, step.listed
    arc, is_full, entries, ring = push_arcs(
        step.out, own, row, arcs, positions, below, counts[LISTED], ring
    )
    _, counts[IN_RING], counts[PENDING], counts[AGAIN], step.smallest[0] = ring
    counts[LISTED], counts[FULL] = entries, is_full
    counts[LOOKED] += arc
    if arc < len(neighbors) and not is_full:
        wait_for(tails, row, path_sum(own.wave.distance[row], weights[arc], own.wave.top[0]))
    advance(tails, row, arc)
    return bool(arc == len(neighbors))


@scanner
@subroutine
def offer_tail(step: Any, row: int, neighbors: Any, weights: Any) -> bool:
    """Offer a row along its tail, as `offer_rows` does along its head."""
    counts = step.counts
    if counts[FULL]:
        return False
    arcs, positions = (neighbors, weights), (np.int64(0), len(neighbors))
    found = counts[FOUND], counts[LISTED]
    arc, is_full, found = offer_arcs(step.own, row, arcs, positions, step.listed, found)
    (counts[FOUND], counts[LISTED]), counts[FULL] = found, is_full
    counts[LOOKED] += arc
    if arc < len(neighbors) and not is_full:
        drop(step.tails.wanting, row)
    advance(step.tails, row, arc)
    return bool(arc == len(neighbors))


class Looking(NamedTuple):
    """State of a look for a neighbour that is settled, or is not; ``found`` (1,) says whether."""

    settled: AnyArray
    wanted: bool
    found: IntArray


@scanner
@subroutine
def look_beside(looking: Any, _row: int, neighbors: Any, _weights: Any) -> bool:
    """Look along a row, until one is found."""
    if not looking.found[0]:
        looking.found[0] = has_beside(neighbors, 0, len(neighbors), looking.settled, looking.wanted)
    return bool(not looking.found[0])


class StoreOwnedSsspRank(CpuOwnedSsspRank):
    """SSSP steps on the rows of one shard, which are light-first, and whose tails are in the store.

    Every head has its row's first arc.
    """

    def __init__(self, dealing: Dealing, out: TierRows, known: Known, *, directed: bool) -> None:
        heads = out.heads
        if has_empty_head(heads):
            raise ValueError("SSSP needs the first arc of every row in memory")
        super().__init__(dealing, light_heads(heads), known, directed=directed)
        self.arcs = int(heads.lengths.sum(dtype=np.int64))
        self._tails = new_tails(heads.lengths, np.empty_like(self._wave.distance))
        self._tier, self._none = out, np.empty(0, np.uint64)

    def begin(self, root: int, bound: float, distance: AnyArray | None, most_listed: int) -> None:
        """As of `CpuOwnedSsspRank`."""
        for rows in (self._tails.wanting, self._tails.waiting):
            rows[:] = 0
        super().begin(root, bound, distance, most_listed)

    def _take_pending(self) -> None:
        super()._take_pending()
        raise_bound(self._tails, self._bound)
        self._smallest = smallest_later(self._tails, self._kind(self._smallest))

    def _push_queue(self, shared: SharedSettled, listed: int) -> tuple[int, int, int]:
        """Push the rows in the queue along heads and tails; as of `CpuOwnedSsspRank`."""
        listed, examined, again = super()._push_queue(shared, listed)
        while not self._queued and self._tails.wanting.any():
            counts = self._scan(push_tail, shared.settled, listed)
            self._queued, self._pending = int(counts[IN_RING]), int(counts[PENDING])
            listed = int(counts[LISTED])
            examined, again = examined + int(counts[LOOKED]), again + int(counts[AGAIN])
            if counts[FULL]:
                break
            listed, more, repeated = super()._push_queue(shared, listed)
            examined, again = examined + more, again + repeated
        return listed, examined, again

    def _still_to_go(self) -> int:
        return super()._still_to_go() + int(self._tails.wanting.any())

    def _scan(self, scan: Any, settled: AnyArray, listed: int) -> IntArray:
        """Go along the tails that are wanted, until the list is full; the counts of that."""
        window, tails, counts = self._tier.window, self._tails, np.zeros(FULL + 1, np.int64)
        counts[RING], counts[IN_RING], counts[PENDING] = self._head, self._queued, self._pending
        counts[LISTED], counts[FOUND] = listed, self._found
        smallest = np.array([self._smallest])
        given = self._out, self._own, tails, self._bound, settled, self._entries()
        step = TailStep(*given, smallest, counts)
        until_full = until(lambda: bool(counts[FULL]), partial(scan, step))
        for count in self._tier.tails(tails.wanting):
            window.cursor[:count] = tails.cursor[window.row[:count]]
            if not self._tier.scan(count, until_full):
                break
        self._smallest = smallest.item()
        return counts

    def _offer_queue(self) -> tuple[int, int]:
        """Offer the rows in the queue along heads and tails; as of `CpuOwnedSsspRank`."""
        listed, examined = super()._offer_queue()
        if self._head == self._queued and self._tails.wanting.any():
            counts = self._scan(offer_tail, self._none, listed)
            self._found, listed = int(counts[FOUND]), int(counts[LISTED])
            examined += int(counts[LOOKED])
        return listed, examined

    def _look(self, rows: Words, settled: AnyArray, *, wanted: bool) -> bool:
        """As of `CpuOwnedSsspRank`, along tails if heads decide nothing."""
        if super()._look(rows, settled, wanted=wanted):
            return True
        found = np.zeros(1, np.int64)
        scan = partial(look_beside, Looking(settled, wanted, found))
        self._tier.scan_tails(rows, until(lambda: bool(found[0]), scan))
        return bool(found[0])
