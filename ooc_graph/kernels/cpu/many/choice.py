"""Batches of sources, single searches, or all pairs at once: whichever takes less time (CPU).

Batches share reads of arcs. In long thin graphs single searches beat them (`many.one_by_one`), in
small dense ones the matrix of all pairs does (`many.floyd_warshall`). The bits are the same.
"""

from __future__ import annotations

from time import perf_counter

from ooc_graph.kernels.common.completion import Told, shifted
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.one_by_one import SideBySide
from ooc_graph.kernels.cpu.many.search import CpuManySearch, even_lanes
from ooc_graph.kernels.cpu.many.side_by_side import tell_side_by_side
from ooc_graph.kernels.cpu.many.sssp import RELAXED, Wanted
from ooc_graph.types import AnyArray, Rows

MANY_RELAXED = 8.0
"""Relaxations of an arc in a batch from which single searches are tried."""
FEW_ARCS = 4.0
"""Arcs of a row up to which a graph is taken for long and thin."""
CACHED_BYTES = 32 << 20
"""A batch of a long thin graph that takes more is not even tried."""
TIMED = 2
"""Sources of each thread that are timed."""


class Chooser:
    """Searches by batches, one by one or for all pairs at once, whichever takes less time.

    Where a matrix of all pairs may be kept, that of a small dense graph is closed at once, that of
    a larger one if the lengths that the first batches relax say so. Other graphs that are long and
    thin, with batches that exceed the cache, are searched one by one at once; those whose first
    batches relax arcs again and again are tried one by one.

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
        self._decided, self._expected, self._closing = False, 0, 0
        self.side_by_side: SideBySide | None = None
        self.closed: floyd_warshall.Closed | None = None
        self._is_too_long = False

    def expect(self, sources: int, closing: int = 0) -> None:
        """Prepare for so many sources in all runs to come.

        Parameters
        ----------
        closing
            How many of them are searched from here, if a matrix of all pairs may be kept; else 0.
        """
        if not closing and self.closed is not None:
            self.closed, self._decided = None, False
        elif closing > self._closing and self.closed is None:
            # What was chosen for fewer sources, or without room, may not be best for these.
            self._decided = False
        self._expected, self._closing = max(self._expected, sources), closing

    def run(self, wanted: Wanted, lanes: int, told: Told | None = None) -> None:
        """Search from each source.

        Parameters
        ----------
        lanes
            Most sources in a batch.
        told
            Hears of sources when their rows are in the answer.
        """
        done, count = 0, len(wanted.sources)
        first = lanes * self._threads
        if not self._decided and self._may_close() and floyd_warshall.is_sure(*self._size()):
            self._close()
        if not self._decided and self._is_long_and_thin(lanes):
            self._decided, self.side_by_side = True, SideBySide(*self._rows, self._threads)
        if not self._decided and count >= first + (1 + TIMED) * self._threads:
            done = self._try(wanted, first, lanes, told)
            # Not before: a trial that was interrupted has chosen nothing.
            self._decided = True
        rest, told_rest = wanted.part(done), shifted(told, done)
        if self.closed is not None:
            self.closed.run(rest)
            self._tell(told, done, count, lanes)
        elif self.side_by_side is not None:
            self.side_by_side.run(rest, told_rest)
        else:
            self._search.expect(self._expected)
            self._search.search(rest, lanes, told_rest)

    def _tell(self, told: Told | None, begin: int, end: int, lanes: int) -> None:
        """Tell of sources from one to before another, by all threads."""
        if told is None or begin == end:
            return
        # As many at a time as a batch has, or all threads have some.
        length = even_lanes(end - begin, lanes, self._threads)
        tell_side_by_side(self._threads, shifted(told, begin), end - begin, length)

    def _try(self, wanted: Wanted, first: int, lanes: int, told: Told | None) -> int:
        """Time batches, and where they relax much single searches, too; sources done.

        Who hears of them takes time as well, and does between what is timed.
        """
        if not self._may_close():
            self._search.expect(max(self._expected, len(wanted.sources)))
        before, start = self._search.counts[:, RELAXED].sum(), perf_counter()
        # Lengths are counted along all arcs, however many sources the threads' batches have.
        self._search.search(wanted.part(0, first), lanes, pruning=False)
        batch_s = (perf_counter() - start) / first
        counted = self._search.counts[:, RELAXED].sum() - before
        self._tell(told, 0, first, lanes)
        if self._may_close():
            lengths = float(counted) * lanes * (self._closing - first) / first
            if floyd_warshall.pays(self._search.vertices, lengths) and self._close():
                return first
        if counted * lanes / first <= MANY_RELAXED * len(self._search.rows[0].neighbors):
            self.side_by_side = None
            return first
        singly = SideBySide(*self._rows, self._threads)
        # The first searches touch memory, and are perhaps compiled.
        warmed = first + self._threads
        singly.run(wanted.part(first, warmed))
        done = warmed + TIMED * self._threads
        start = perf_counter()
        singly.run(wanted.part(warmed, done))
        # Also where an earlier trial, for fewer sources, chose otherwise.
        is_faster = (perf_counter() - start) / (done - warmed) < batch_s
        self.side_by_side = singly if is_faster else None
        self._tell(told, first, done, lanes)
        return done

    def _is_long_and_thin(self, lanes: int) -> bool:
        return is_long_and_thin(*self._size(), lanes * self._search.dtype.itemsize)

    def _size(self) -> tuple[int, int]:
        """Rows and arcs."""
        return self._search.vertices, len(self._search.rows[0].neighbors)

    def _may_close(self) -> bool:
        if self._is_too_long or self._search.dtype.kind == "f":
            return False
        return floyd_warshall.may_close(*self._size(), self._closing)

    def _close(self) -> bool:
        """Close the matrix of all pairs; whether its numbers are wide enough."""
        self.closed = floyd_warshall.close(self._search.rows[0], self._search.team)
        self._is_too_long = self.closed is None
        self._decided = self._decided or not self._is_too_long
        return not self._is_too_long


def is_long_and_thin(rows: int, arcs: int, lane_bytes: int) -> bool:
    """Whether rows have few out-arcs, and a batch takes more than a cache holds.

    Parameters
    ----------
    lane_bytes
        Of a row's distances in a batch.
    """
    return arcs <= FEW_ARCS * rows and rows * lane_bytes > CACHED_BYTES
