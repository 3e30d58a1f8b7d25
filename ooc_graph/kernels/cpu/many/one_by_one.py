"""Many sources one by one, each thread a search of its own (CPU).

In a batch a row is pushed whenever it improves for any of the sources. Where these lie far apart in
a long thin graph, such as a road network, that is once for each of them, and every push carries the
slots of all others. A batch of BFS visits each row once for almost every source there, and a visit
costs more than one of a single search. Then single searches are faster, and threads need not share
one. The bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.common.device import SsspSearch
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.side_by_side import side_by_side
from ooc_graph.kernels.cpu.many.sssp import Wanted
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch, suits_near_far
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.types import AnyArray, IntArray, Rows


@kernel
def put_row(distance: Any, position: int, wanted: Any) -> None:
    """Write the distances from the source at a position, by internal id, as `Wanted`."""
    columns, potential = wanted.columns, wanted.potential
    is_reweighted, far, most = len(potential) > 0, columns.ends[0], columns.ends[1]
    mine = potential[wanted.sources[position]] if is_reweighted else far
    row = wanted.answer[columns.at[position]]
    for column in range(len(columns.row)):
        v, found = columns.row[column], far
        if v >= 0 and distance[v] < far:
            found = distance[v] - mine + potential[v] if is_reweighted else distance[v]
        row[column] = found if found <= most else far


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
