"""Many sources one by one, each thread a search of its own; and when that beats batches (CPU).

In a batch a row is pushed whenever it improves for any of the sources. Where these lie far apart in
a long thin graph, such as a road network, that is once for each of them, and every push carries the
lanes of all others. Then single searches are faster, and threads need not share one. The bits are
the same.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from ooc_graph.kernels.bellman_ford import restore
from ooc_graph.kernels.interface import SsspSearch
from ooc_graph.kernels.many_search import CpuManySearch
from ooc_graph.kernels.many_sssp import RELAXED
from ooc_graph.kernels.sssp_near_far_search import CpuNearFarSearch, suits_near_far
from ooc_graph.kernels.sssp_search import CpuSsspSearch
from ooc_graph.kernels.sssp_shared import unreached
from ooc_graph.kernels.team import Team
from ooc_graph.types import AnyArray, IntArray, Rows

MANY_RELAXED = 8.0
"""Relaxations of an arc in a batch from which single searches are tried."""
FEW_ARCS = 4.0
"""Arcs of a row up to which a graph is taken for long and thin."""
CACHED_BYTES = 32 << 20
"""A batch of a long thin graph that takes more is not even tried."""
TIMED = 2
"""Sources of each thread that are timed."""


class SideBySide:
    """Single searches of one graph, one on each thread.

    Parameters
    ----------
    out, into
        Light-first rows with weights >= 0.
    tuples
        Input tuples at each row.
    threads
        How many searches.
    """

    def __init__(self, out: Rows, into: Rows, tuples: AnyArray, threads: int) -> None:
        self._searches: list[SsspSearch] = []
        paired = None
        for _ in range(threads):
            if suits_near_far(out, tuples):
                search = CpuNearFarSearch(out, into, tuples, Team(1), paired)
                # One copy of the rows is enough for all threads.
                paired = search.paired
                self._searches.append(search)
            else:
                self._searches.append(CpuSsspSearch(out, into, tuples, Team(1)))

    @property
    def threads(self) -> int:
        """Searches at a time."""
        return len(self._searches)

    def run(self, sources: IntArray, answer: AnyArray, potential: AnyArray | None) -> None:
        """As `Chooser.run`."""

        def work(thread: int) -> None:
            search = self._searches[thread]
            for place in range(thread, len(sources), self.threads):
                answer[place] = search.run(int(sources[place])).distance

        with ThreadPoolExecutor(self.threads) as executor:
            list(executor.map(work, range(self.threads)))
        if potential is not None:
            restore(answer, potential, sources, unreached(answer.dtype)[0])


class Chooser:
    """Searches by batches or one by one, whichever takes less time on the first sources.

    Long thin graphs whose batches exceed the cache are searched one by one at once; of others
    those whose first batches relax arcs again and again are tried one by one, too.

    Parameters
    ----------
    search
        The search by batches.
    out, into, tuples
        What single searches are made of.
    threads
        Threads of the search.
    """

    def __init__(
        self, search: CpuManySearch, out: Rows, into: Rows, tuples: AnyArray, threads: int
    ) -> None:
        self._search, self._threads = search, threads
        self._rows = out, into, tuples
        self._decided, self._expected = False, 0
        self.side_by_side: SideBySide | None = None

    def expect(self, sources: int) -> None:
        """Prepare for so many sources in all runs to come."""
        self._expected = max(self._expected, sources)

    def run(
        self, sources: IntArray, answer: AnyArray, lanes: int, potential: AnyArray | None = None
    ) -> None:
        """Search from each source; distances become the rows of ``answer`` (sources, rows).

        Parameters
        ----------
        lanes
            Most sources in a batch.
        potential
            (rows,): what the weights were shifted by; distances are given without it.
        """
        done = 0
        first = lanes * self._threads
        if not self._decided and is_long_and_thin(self._search, lanes):
            self._decided, self.side_by_side = True, SideBySide(*self._rows, self._threads)
        if not self._decided and len(sources) >= first + (1 + TIMED) * self._threads:
            done = self._try(sources, answer, first, lanes, potential)
        if self.side_by_side is not None:
            self.side_by_side.run(sources[done:], answer[done:], potential)
        else:
            self._search.expect(self._expected)
            self._search.run(sources[done:], answer[done:], lanes=lanes, potential=potential)

    def _try(
        self,
        sources: IntArray,
        answer: AnyArray,
        first: int,
        lanes: int,
        potential: AnyArray | None,
    ) -> int:
        """Time batches, and where they relax much single searches, too; sources done."""
        self._decided = True
        self._search.expect(max(self._expected, len(sources)))
        before, start = self._search.counts[:, RELAXED].sum(), perf_counter()
        self._search.run(sources[:first], answer[:first], lanes=lanes, potential=potential)
        batch_s = (perf_counter() - start) / first
        relaxed = (self._search.counts[:, RELAXED].sum() - before) * lanes / first
        if relaxed <= MANY_RELAXED * len(self._search.rows[0].neighbors):
            return first
        singly = SideBySide(*self._rows, self._threads)
        # The first searches touch memory, and are perhaps compiled.
        warmed = first + self._threads
        singly.run(sources[first:warmed], answer[first:warmed], potential)
        done = warmed + TIMED * self._threads
        start = perf_counter()
        singly.run(sources[warmed:done], answer[warmed:done], potential)
        if (perf_counter() - start) / (done - warmed) < batch_s:
            self.side_by_side = singly
        return done


def is_long_and_thin(search: CpuManySearch, lanes: int) -> bool:
    """Whether rows have few arcs, and a batch takes more than a cache holds."""
    arcs, rows = len(search.rows[0].neighbors), search.vertices
    return arcs <= FEW_ARCS * rows and rows * lanes * search.dtype.itemsize > CACHED_BYTES
