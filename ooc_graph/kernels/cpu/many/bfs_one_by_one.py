"""BFS from many sources one by one, each thread a search of its own (CPU).

In long thin graphs, such as road networks, few sources meet in a row at the same level. A batch
then visits each row once for almost every source, and a visit costs more than one of a single
search.
"""

from __future__ import annotations

from collections.abc import Callable

from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.bfs.search import CpuBfsSearch
from ooc_graph.kernels.cpu.many.side_by_side import side_by_side
from ooc_graph.types import AnyArray, IntArray, Rows


class BfsSideBySide:
    """Single searches of one graph, one on each thread.

    Parameters
    ----------
    out, into
        Hub-first rows.
    threads
        How many searches.
    """

    def __init__(self, out: Rows, into: Rows, threads: int) -> None:
        self._searches = [CpuBfsSearch(out, into, Team(1)) for _ in range(threads)]

    def each(self, sources: IntArray, take: Callable[[int, AnyArray], None]) -> None:
        """Call ``take(place, level)`` for every source, on the thread that searched from it.

        ``level`` is int32 (rows,), -1 unreached, and changes with the next search.
        """

        def search(thread: int, place: int) -> None:
            take(place, self._searches[thread].run(int(sources[place])).level)

        side_by_side(len(self._searches), len(sources), search)
