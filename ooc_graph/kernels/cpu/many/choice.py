"""Batches of sources, single searches, or all pairs at once: which is expected to be faster (CPU).

In a batch a row is pushed whenever it improves for any of the sources. Where these lie far apart in
a long thin graph, such as a road network, that is once for each of them, and every push carries the
slots of all others. A batch of BFS visits each row once for almost every source there, and a visit
costs more than one of a single search. In a graph with large hubs a single search pulls, and looks
at few arcs; a batch does so only if its sources are many. Then single searches are faster, and
threads need not share one. In small dense graphs the matrix of all pairs beats both
(`many.floyd_warshall`). The bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ooc_graph.kernels.common import completion
from ooc_graph.kernels.common.completion import OnDone, counted_from
from ooc_graph.kernels.common.device import SsspSearch
from ooc_graph.kernels.common.sssp.rows import may_pull, survey
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many import floyd_warshall
from ooc_graph.kernels.cpu.many.batch import RELAXED, Wanted, put_row
from ooc_graph.kernels.cpu.many.search import CpuManySearch, even_batch
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch, suits_near_far
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.threads import Members, raise_first
from ooc_graph.types import AnyArray, IntArray, Rows


def each_alone(
    searches: Sequence[Any], sources: IntArray, take: Callable[[int, Any], None]
) -> None:
    """Call ``take(position, tree)`` for every source, on the thread that searched from it.

    Each thread has one of the searches, whose answer changes with its next one.
    """

    def search(thread: int, position: int) -> None:
        take(position, searches[thread].run(int(sources[position])))

    side_by_side(len(searches), len(sources), search)


class SideBySide:
    """Single searches of one graph, one on each thread, of light-first rows with weights >= 0."""

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

    def run(self, wanted: Wanted, on_done: OnDone | None = None) -> None:
        """As `Chooser.run`."""

        def take(position: int, tree: Any) -> None:
            put_row(tree.distance, position, wanted)
            if on_done is not None:
                on_done(position, position + 1)

        each_alone(self._searches, wanted.sources, take)


def side_by_side(threads: int, count: int, do: Callable[[int, int], None]) -> None:
    """Call ``do(thread, index)`` for all indices below ``count``, taken in turn by whoever is free.

    So no thread gets far ahead of another, and what waits for several of them does not wait long.
    Whatever a call raises, or the thread that waits (KeyboardInterrupt), ends all threads after the
    calls that they are in, and is raised; so does CancelledError if the caller's work is cancelled.
    """
    # Not an Event, which an interrupt may leave closed for the threads that set it as well.
    is_ended, cancelled = [False], completion.current_event()
    # Taking one is a step of the interpreter, whose lock is held meanwhile.
    indices = iter(range(count))

    def end() -> None:
        is_ended[0] = True

    def work(thread: int) -> None:
        for index in indices:
            if is_ended[0] or (cancelled is not None and cancelled.is_set()):
                return
            do(thread, index)

    members, is_given = Members(threads, "ooc-graph-side-by-side"), False
    try:
        for thread in range(threads):
            members.give(thread, partial(work, thread), end)
        is_given = True
    finally:
        # What the calls use is the caller's again.
        errors = members.settle(end, at_once=not is_given)
        members.close()
    raise_first(errors)
    # What was left out is not to be taken for done.
    completion.raise_if_cancelled()


# docs/decisions/0033-batches-by-rules.md; `johnson_settled` in benchmarks/records/johnson.jsonl.
MANY_RELAXED = 8.0
"""Relaxations of an arc in a batch from which single searches take less time."""
FEW_ARCS = 4.0
"""Arcs of a row up to which a graph is taken for long and thin."""
CACHED_BYTES = 32 << 20
"""A batch of a long thin graph that takes more is not even begun."""


def single_searches_pay(rows: int, arcs: int, row_bytes: int, relaxed: float | None = None) -> bool:
    """Whether single searches take less time than batches.

    A batch of a long thin graph relaxes arcs for one source after another. How many it has
    ``relaxed``, on average over batches, tells. Before any was searched (None), a graph is taken
    for long and thin if its rows have few out-arcs; ``row_bytes`` are of a row's batch distances.
    """
    if relaxed is not None:
        return relaxed > MANY_RELAXED * arcs
    return arcs <= FEW_ARCS * rows and rows * row_bytes > CACHED_BYTES


class Chooser:
    """Searches by batches, one by one or for all pairs at once.

    If a matrix of all pairs may be kept, that of a small dense graph is made at once. Of others
    the first batches are looked at: what they relax says whether to make the matrix, and whether
    to continue with single searches. Long thin graphs have these from the beginning. ``search`` is
    by batches; single searches are made of ``out``, ``into`` and ``tuples``.
    """

    def __init__(
        self, search: CpuManySearch, out: Rows, into: Rows, tuples: AnyArray, threads: int
    ) -> None:
        self._search, self._threads = search, threads
        self._rows = out, into, tuples
        self._size = search.vertices, len(search.rows[0].neighbors)
        self._decided, self._expected, self._matrix_sources = False, 0, 0
        self._pulls = may_pull(survey(out, tuples))
        self.side_by_side: SideBySide | None = None
        self.matrix: floyd_warshall.DistanceMatrix | None = None
        self._is_too_long = False

    def expect(self, sources: int, matrix_sources: int = 0) -> None:
        """Prepare for so many sources in all runs to come; see `CpuJohnson.expect`."""
        if not matrix_sources and self.matrix is not None:
            self.matrix, self._decided = None, False
        elif matrix_sources > self._matrix_sources and self.matrix is None:
            # What was chosen for fewer sources, or without memory, may not be best for these.
            self._decided = False
        self._expected, self._matrix_sources = max(self._expected, sources), matrix_sources

    def run(self, wanted: Wanted, batch_size: int, on_done: OnDone | None = None) -> None:
        """Search from each source, in batches of at most ``batch_size``, if it is batches."""
        done = 0 if self._decided else self._decide(wanted, batch_size, on_done)
        rest, rest_done = wanted.part(done), counted_from(on_done, done)
        if self.matrix is not None:
            self.matrix.run(rest)
            self._tell(rest_done, len(rest.sources), batch_size)
        elif self.side_by_side is not None:
            self.side_by_side.run(rest, rest_done)
        else:
            self._search.expect(self._expected)
            self._search.search(rest, batch_size, rest_done)

    def _decide(self, wanted: Wanted, batch_size: int, on_done: OnDone | None) -> int:
        """Choose how to search; how many sources were searched from to know it."""
        if self._may_close() and floyd_warshall.is_sure(*self._size) and self._close():
            return 0
        is_thin = single_searches_pay(*self._size, self._row_bytes(batch_size))
        count = max(self._expected, len(wanted.sources))
        # One source is a batch: single searches would have to be compiled for it.
        is_few = count > 1 and not self._search.prunes_for(count)
        if is_thin or (self._pulls and is_few and not self._may_close()):
            # More sources may be expected later.
            self._decided = is_thin
            self.side_by_side = self.side_by_side or SideBySide(*self._rows, self._threads)
            return 0
        self.side_by_side = None
        if len(wanted.sources) > batch_size * self._threads:
            return self._look(wanted, batch_size, on_done)
        return 0

    def _look(self, wanted: Wanted, batch_size: int, on_done: OnDone | None) -> int:
        """Search a batch on each thread, and choose by what it relaxes; sources done."""
        first = batch_size * self._threads
        if not self._may_close():
            self._search.expect(max(self._expected, len(wanted.sources)))
        before = self._search.counts[:, RELAXED].sum()
        # Lengths are counted along all arcs, however many sources the threads' batches have.
        self._search.search(wanted.part(0, first), batch_size, pruning=False)
        counted = float(self._search.counts[:, RELAXED].sum() - before)
        self._tell(on_done, first, batch_size)
        # Not before: a look that was interrupted has decided nothing.
        self._decided = True
        if self._may_close():
            lengths = counted * batch_size * (self._matrix_sources - first) / first
            if floyd_warshall.pays(self._search.vertices, lengths) and self._close():
                return first
        relaxed = counted * batch_size / first
        is_slow = single_searches_pay(*self._size, self._row_bytes(batch_size), relaxed)
        self.side_by_side = SideBySide(*self._rows, self._threads) if is_slow else None
        return first

    def _row_bytes(self, batch_size: int) -> int:
        return batch_size * self._search.dtype.itemsize

    def _tell(self, on_done: OnDone | None, end: int, batch_size: int) -> None:
        """Tell of the sources before ``end``, by all threads."""
        if on_done is None or end == 0:
            return
        # As many at a time as a batch has, or all threads have some.
        each = even_batch(end, batch_size, self._threads)
        firsts = range(0, end, each)
        side_by_side(
            self._threads,
            len(firsts),
            lambda _, index: on_done(firsts[index], min(firsts[index] + each, end)),
        )

    def _may_close(self) -> bool:
        if self._is_too_long or self._search.dtype.kind == "f":
            return False
        return floyd_warshall.may_close(*self._size, self._matrix_sources)

    def _close(self) -> bool:
        """Close the matrix of all pairs; whether its numbers are wide enough."""
        self.matrix = floyd_warshall.close(self._search.rows[0], self._search.team)
        self._is_too_long = self.matrix is None
        self._decided = self._decided or not self._is_too_long
        return not self._is_too_long
