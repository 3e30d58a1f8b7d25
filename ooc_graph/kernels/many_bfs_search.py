"""BFS from many sources on a graph in memory: batches and threads (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.bitmap import Words, pack_bits, words_for
from ooc_graph.kernels.many_bfs import BINS, LANES, PLANES, WORDS, Batch, Neighbors, search_batches
from ooc_graph.kernels.many_search import even_lanes
from ooc_graph.kernels.team import Team, new_control
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray, Rows

_DEEPEST = np.iinfo(np.int64).max


class CpuManyBfs:
    """Levels from any number of sources; rows are read once for a batch of them.

    Every thread searches batches of its own. Beside the rows each holds 97 bytes a vertex.

    Parameters
    ----------
    out, into
        Hub-first rows of out- and in-arcs (the same object when undirected).
    team
        Threads that search.
    """

    dtype: np.dtype[Any] = np.dtype(np.int32)

    def __init__(self, out: Rows, into: Rows, team: Team) -> None:
        self._out = _neighbors(out)
        self._into = self._out if into is out else _neighbors(into)
        self._team = team

    @property
    def vertices(self) -> int:
        """Rows of the graph."""
        return len(self._out.offsets) - 1

    def run(
        self,
        sources: IntArray,
        answer: AnyArray | None = None,
        *,
        lanes: int = LANES,
        most: int | None = None,
    ) -> AnyArray:
        """Levels of all vertices from each of the internal ids ``sources``.

        Parameters
        ----------
        sources
            int64 (sources,), repetitions allowed.
        answer
            int32 (sources, vertices) to write to.
        lanes
            Most sources of a batch.
        most
            The last level that is wanted; None: all.

        Returns
        -------
        ndarray
            int32 (sources, vertices), the largest int32 where a source does not reach.
        """
        if answer is None:
            answer = np.empty((len(sources), self.vertices), np.int32)
        nothing = np.empty((0, BINS), np.int64)
        self._search(sources, lanes, most, 1, pack_bits(np.empty(0, np.bool_)), answer, nothing)
        return answer

    def tally(
        self,
        sources: IntArray,
        *,
        lanes: int = LANES,
        most: int | None = None,
        wanted: AnyArray | None = None,
        bins: int = 0,
        width: int = 1,
    ) -> IntArray:
        """Count the vertices that each source reaches, without a matrix of levels.

        Parameters
        ----------
        sources, lanes, most
            As for `run`.
        wanted
            bool (vertices,): which vertices count; None: all.
        bins, width
            Bins of levels, each so wide; the last one has all beyond.

        Returns
        -------
        ndarray
            int64 (sources, 3 + bins): vertices reached, the source included; the sum of their
            levels; the last level with one of them; and how many there are in each bin.
        """
        chosen = np.ones(self.vertices, np.bool_) if wanted is None else wanted
        tallies = np.zeros((len(sources), BINS + bins), np.int64)
        nothing = np.empty((0, self.vertices), np.int32)
        self._search(sources, lanes, most, width, pack_bits(chosen), nothing, tallies)
        return tallies

    def _search(
        self,
        sources: IntArray,
        lanes: int,
        most: int | None,
        width: int,
        wanted: Words,
        answer: AnyArray,
        tallies: IntArray,
    ) -> None:
        if not len(sources):
            return
        each = even_lanes(len(sources), min(lanes, LANES), self._team.threads)
        options = np.array([_DEEPEST if most is None else most, each, width], np.int64)
        self._team.launch(
            search_batches,
            new_control(),
            self._out,
            self._into,
            _states(self.vertices, self._team.threads),
            wanted,
            options,
            np.array([INT32_UNREACHED], np.int32),
            sources,
            answer,
            tallies,
        )


def _neighbors(rows: Rows) -> Neighbors:
    return Neighbors(rows.offsets.view(np.int64), rows.neighbors)


def _states(rows: int, threads: int) -> Batch:
    """State of one batch for each thread."""
    words = words_for(rows)

    def empty(*shape: int) -> AnyArray:
        return np.empty((threads, *shape), np.uint64)

    return Batch(
        empty(rows, 2 * WORDS),
        empty(rows, WORDS),
        empty(words),
        empty(words),
        empty(words),
        empty(WORDS),
        empty(PLANES, WORDS),
    )
