"""SSSP steps of a rank that has the distances and parents of its own rows alone (CPU)."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, pack_bits, words_for
from ooc_graph.kernels.common.dealt import dealt_of
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import BaseSsspRank
from ooc_graph.kernels.common.sssp.owned import Candidates, Pushed, SharedSettled
from ooc_graph.kernels.common.sssp.rows import Known, LightRows
from ooc_graph.kernels.cpu.sssp import owned_looks as looks
from ooc_graph.kernels.cpu.sssp import owned_plateaus as plateaus
from ooc_graph.kernels.cpu.sssp import owned_steps as steps
from ooc_graph.kernels.cpu.sssp.owned_lists import EMPTY, Listed, Own, new_listed
from ooc_graph.kernels.cpu.sssp.search import new_wave
from ooc_graph.kernels.cpu.sssp.tails import new_tails
from ooc_graph.types import AnyArray, Dealing, owner_of


class CpuOwnedSsspRank(BaseSsspRank):
    """SSSP steps on the rows of one shard, which are light-first and pushed along ``out``.

    In addition to the rows and their first weights it has three ids, two distances and 4 bytes a
    row (8 if a row has 2**30 arcs), and while it searches a list of candidates for others.
    """

    def __init__(
        self,
        dealing: Dealing,
        out: LightRows,
        known: Known,
        *,
        directed: bool,
    ) -> None:
        rows, ids = dealing.rows, out.neighbors.dtype
        super().__init__(dealing, len(out.neighbors), ids, out.weights.dtype, known)
        self._out, self.directed, self.ranks = out, directed, dealing.shards
        distances = np.array([self._top]).dtype
        longest = int(np.diff(out.offsets).max(initial=0))
        self._wave = new_wave(np.empty(rows, ids), distances, 0, longest)
        near, dealt = np.empty(rows, distances), dealt_of(dealing)
        self._own = Own(self._wave, np.empty(rows, ids), near, dealt)
        # There are none: all arcs are in memory.
        self._tails = new_tails(out.offsets[:0], near[:0])
        self._kind, self._bits = distances.type, np.dtype(f"u{distances.itemsize}")
        self._listed: Listed | None = None

    def begin(self, root: int, bound: float, distance: AnyArray | None, most_listed: int) -> None:
        """Forget everything; the root, or all that was reached before, is to be pushed."""
        own, wave = self._own, self._wave
        wave.taken[:] = 0
        wave.distance[:] = self._top if distance is None else distance
        own.parent[:], own.near[:] = np.iinfo(self._ids).max, self._top
        vertex, dealing = np.array([root]), self._dealing
        if owner_of(vertex, dealing.shards) == dealing.shard:
            row = dealing.local_of(vertex)
            wave.distance[row] = own.near[row] = 0
            own.parent[row] = root
        self._bound, self._low = self._kind(bound), self._kind(-1)
        self._head, self._again, self._found = 0, 0, 0
        self._queued, self._pending, self._smallest = steps.queue_reached(
            self._out, own, self._bound
        )
        self._listed = new_listed(most_listed, self._ids, wave.distance.dtype)

    def push(self, shared: SharedSettled, bound: float) -> Pushed:
        """Push own rows below the bound, to their fixed point, or until the list is full."""
        if bound != self._bound:
            assert not self._queued
            self._bound, self._head = self._kind(bound), 0
            self._take_pending()
        count, examined, again = self._push_queue(shared, 0)
        return Pushed(self._sent(count), self._still_to_go(), examined, again, self._smallest)

    def _still_to_go(self) -> int:
        """Rows that are left to be pushed, or to offer themselves."""
        return int(self._queued)

    def _take_pending(self) -> None:
        """Queue the rows that a new bound has go on."""
        self._queued, self._pending, self._smallest = steps.raise_bound(
            self._out, self._wave, self._pending, self._bound
        )

    def _push_queue(self, shared: SharedSettled, listed: int) -> tuple[int, int, int]:
        """Push the rows in the queue; entries listed, arcs examined, and what is done again."""
        ring = self._head, self._queued, self._pending, self._smallest
        below = self._bound, shared.settled, self._entries()
        *ring, count, examined, again = steps.push_own(
            self._out, self._own, self._tails, *ring, below, listed
        )
        self._head, self._queued, self._pending, self._smallest = ring
        return count, examined, again

    def _entries(self) -> Listed:
        """The list, which is empty."""
        assert self._listed is not None
        return self._listed

    def _sent(self, count: int) -> Candidates:
        """The first ``count`` listed entries, by ascending target; empties the list.

        Distances become unsigned numbers of the same bits, which the exchange can code.
        """
        listed = self._entries()
        if count:
            listed.slots[:] = EMPTY
        order = np.argsort(listed.target[:count])
        found, near = (column.view(self._bits)[order] for column in (listed.found, listed.near))
        return listed.target[order], found, near, listed.parent[order]

    def _as_listed(self, candidates: Candidates) -> Candidates:
        """Undo `_sent`."""
        target, found, near, parent = candidates
        kind = self._wave.distance.dtype
        return target, found.view(kind), near.view(kind), parent

    def take(self, candidates: Candidates) -> int:
        """Take candidates below the bound; how many improve what was reached before."""
        ring = self._head, self._queued, self._pending, self._smallest
        self._queued, self._pending, self._smallest, again = steps.take_candidates(
            self._out, self._own, ring, self._bound, *self._as_listed(candidates)
        )
        return int(again)

    def settled(self, bound: float) -> tuple[AnyArray, int]:
        """Bitmap of the own rows up to a bound, beyond that of the call before; rows left."""
        high = self._kind(bound)
        words = np.zeros(words_for(self._dealing.rows), np.uint64)
        left = steps.mark_between(self._wave.distance, self._low, high, self._top, words)
        self._low = high
        return words, int(left)

    def may_reach_more(self, shared: SharedSettled) -> bool:
        """Whether own rows that are left may have a neighbour that is settled."""
        beyond = pack_bits(self._wave.distance > self._low)
        return self._look(beyond, shared.settled, wanted=True)

    def distances(self) -> AnyArray:
        """Distances of the own rows, in an array of their own."""
        return self._wave.distance.copy()

    def overflowed(self, shared: SharedSettled) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        losing = np.zeros(words_for(self._dealing.rows), np.uint64)
        looks.mark_losing(self._own, self._known.heaviest, losing)
        return self._look(losing, shared.settled, wanted=False)

    def _look(self, rows: Words, settled: AnyArray, *, wanted: bool) -> bool:
        """Whether a neighbour of some rows is settled, or is not."""
        return bool(looks.look_along(self._out, rows, settled, wanted))

    def list_lacking(self) -> int:
        """Reached rows without a parent, on plateaus; others there offer themselves next."""
        self._head = 0
        self._queued, lacking = plateaus.list_entrances(self._out, self._own)
        return int(lacking)

    def offer(self) -> tuple[Candidates, int, int]:
        """What rows offer along their plateaus; rows that are left to do so; arcs examined."""
        count, examined = self._offer_queue()
        return self._sent(count), self._still_to_go() - self._head, examined

    def _offer_queue(self) -> tuple[int, int]:
        """Offer the rows in the queue; entries listed, and arcs examined."""
        at = self._head, self._queued
        self._head, self._found, count, examined = plateaus.offer_rows(
            self._out, self._own, self._tails, *at, self._found, self._entries()
        )
        return count, examined

    def take_offers(self, candidates: Candidates) -> None:
        """Have own rows that lack a parent take the smallest that is offered in this hop."""
        target, at, _, parent = self._as_listed(candidates)
        self._found = plateaus.take_offers(self._own, self._found, target, at, parent)

    def end_hop(self) -> int:
        """How many rows found a parent in this hop; they offer themselves in the next."""
        found = self._found
        plateaus.end_hop(self._own, found)
        self._head, self._queued, self._found = 0, found, 0
        return int(found)

    def tree(self, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order."""
        self._listed = None
        return SsspTree(self._own.parent, self._wave.distance, 0.0, phase_arcs)

    def rehearse(self, shared: SharedSettled) -> None:
        """Take, once, the steps that a search by a single rank never takes."""
        self.begin(0, 0, None, 1)
        for bound in range(2):
            self.push(shared, bound)
        shared.merge([self.settled(1)[:1]])
        shared.bound_above(1.0)
        self.may_reach_more(shared)
        self.overflowed(shared)
