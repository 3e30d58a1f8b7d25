"""Many sources one by one, each thread a search of its own (CPU).

In a batch a row is pushed whenever it improves for any of the sources. Where these lie far apart in
a long thin graph, such as a road network, that is once for each of them, and every push carries the
slots of all others. A batch of BFS visits each row once for almost every source there, and a visit
costs more than one of a single search. Then single searches are faster, and threads need not share
one. The bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ooc_graph.kernels.common.completion import OnDone, current_event, raise_if_cancelled
from ooc_graph.kernels.common.device import SsspSearch
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.batch import Wanted, put_row
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
    is_ended, cancelled = [False], current_event()
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
    raise_if_cancelled()
