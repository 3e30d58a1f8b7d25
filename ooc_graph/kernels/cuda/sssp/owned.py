"""SSSP steps of a rank that has the distances and parents of its own rows alone (CUDA)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.owned import Candidates, SharedSettled
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.steps import KEPT, LISTED, starts_of
from ooc_graph.kernels.cuda.sssp.owned_push import LENGTHS, PARENTS, OwnedPushes, Round
from ooc_graph.kernels.cuda.sssp.shared import STEP
from ooc_graph.types import AnyArray


class CudaOwnedSsspRank(OwnedPushes):
    """SSSP steps on the rows of one shard, which are light-first and pushed along ``out``.

    In addition to the rows it has three ids, two distances and 13 bytes a row, and while it
    searches a table of candidates for others. Weights are those that `known_of` takes. Errors are
    as of `CudaBfsRank`.
    """

    @within_memory(STEP)
    def settled(self, bound: float) -> tuple[AnyArray, int]:
        """Bitmap of the own rows up to a bound, beyond that of the call before; rows left."""
        words, high = cuda().empty(self._words, np.uint32), self._kind(bound)
        self._steps.clear()
        given = self._distance, self._low, high, self._top, words, self._steps.counts
        threads = self._words * 32
        self._steps.launch("mark_between", threads, self._rows, np.uint32(self._words), *given)
        self._low = high
        return words.get().view(np.uint64), self._steps.fetch()[LISTED]

    def may_reach_more(self, shared: SharedSettled) -> bool:
        """Whether own rows that are left may have a neighbour that is settled."""
        return self._finds("find_settled", self._low, shared.settled)

    def overflowed(self, shared: SharedSettled) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        heaviest = self._kind(self._known.heaviest)
        return self._finds("find_lost", heaviest, self._top, shared.settled)

    def _finds(self, name: str, *arguments: Any) -> bool:
        self._steps.clear()
        rows = self._rows, self._out.offsets, self._out.neighbors, self._distance
        self._steps.launch(name, int(self._rows) * 32, *rows, *arguments, self._steps.counts)
        return self._steps.fetch()[LISTED] > 0

    def distances(self) -> AnyArray:
        """Distances of the own rows, in host memory."""
        distances: AnyArray = self._distance.get()
        return distances

    @within_memory(STEP)
    def list_lacking(self) -> int:
        """Reached rows without a parent, on plateaus; others there offer themselves next."""
        self._steps.clear()
        self._offers.clear()
        rows = self._rows, self._out.offsets, self._out.weights, self._distance, self._near
        given = self._top, self._queue.rows, self._steps.counts
        self._steps.launch("list_entrances", int(self._rows), *rows, *given)
        counts = self._steps.fetch()
        self._begin_hop(counts[LISTED])
        return counts[KEPT]

    def _begin_hop(self, count: int) -> None:
        """Have the first rows of the queue offer themselves along their plateaus."""
        self._round, self._at = Round(), 0
        rows = self._queue.rows[:count]
        first, arcs = (cuda().empty(count, np.uint64) for _ in range(2))
        given = self._out.offsets, self._out.weights, self._distance, self._top, self._queue.taken
        self._steps.launch("measure_ties", count, np.uint32(count), rows, *given, first, arcs)
        queue = np.uint32(count), starts_of(arcs), rows, first
        columns = self._out.neighbors, self._out.weights
        self._round = Round(queue, (), columns, int(queue[1][-1].get()))

    @within_memory(STEP)
    def offer(self) -> tuple[Candidates, int, int]:
        """What rows offer along their plateaus; arcs left, and examined."""
        examined = self._offer_rows()
        return self._sent(), self._still_to_offer(), examined

    def _offer_rows(self) -> int:
        """Have rows offer themselves until the table is full; arcs examined."""
        before, self._at = self._at, self._offer_along(self._round, self._at)
        return self._at - before

    def _offer_along(self, going: Round, at: int) -> int:
        """As `_push_along`."""
        given = going.arcs[0], *self._dealt, self._top, *self._own, self._queue.lists[0]
        return self._go_along("offer_ties", (LENGTHS, PARENTS), going, at, *given)

    def _still_to_offer(self) -> int:
        return self._round.end - self._at

    @within_memory(STEP)
    def take_offers(self, candidates: Candidates) -> None:
        """Have own rows that lack a parent take the smallest that is offered in this hop."""
        for piece in self._pieces_of(candidates):
            self._take_ties(piece)

    def _take_ties(self, candidates: Candidates) -> None:
        count, target, at, _, parent = self._uploaded(candidates)
        own = self._dealt[0], self._top, *self._own, self._queue.lists[0]
        given = count, target, at, parent, *own, self._offers.counts
        self._offers.launch("take_ties", len(candidates[0]), *given)

    @within_memory(STEP)
    def end_hop(self) -> int:
        """How many rows found a parent in this hop; they offer themselves in the next."""
        found, solved = self._offers.fetch()[LISTED], self._queue.lists[0]
        self._offers.zero(LISTED)
        given = np.uint32(found), solved, self._distance, self._near
        self._offers.launch("end_hop", found, *given)
        self._queue.rows, self._queue.lists[0] = solved, self._queue.rows
        self._begin_hop(found)
        return found

    @within_memory(STEP)
    def tree(self, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order; copied to host memory."""
        self._table, self._round = None, Round()
        return SsspTree(self._parent.get(), self.distances(), 0.0, phase_arcs)
