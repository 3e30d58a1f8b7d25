"""BFS from many sources on a graph in memory: batches and threads (CPU).

Batches are abandoned for single searches if few sources meet, which is counted (`WORTH`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, pack_bits, words_for
from ooc_graph.kernels.common.completion import OnDone, starts
from ooc_graph.kernels.common.decisions import BfsTree, hubs_are_large
from ooc_graph.kernels.common.many.sources import BINS, empty_tallies, tally_levels, write_levels
from ooc_graph.kernels.common.sssp.rows import first_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.common.tuning import FEW_AT_HUBS, FEW_SOURCES, WORTH
from ooc_graph.kernels.cpu.bfs.search import CpuBfsSearch, out_rows
from ooc_graph.kernels.cpu.many.bfs import Task, search_batch
from ooc_graph.kernels.cpu.many.bfs_settle import PLANES, SLOTS, WORDS, Batch
from ooc_graph.kernels.cpu.many.choice import each_alone
from ooc_graph.kernels.cpu.many.search import even_batch, run_batches
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray, Rows

PATIENCE = 2
"""Visits to every row after which it is asked whether a batch is worth it."""


class _Run(NamedTuple):
    """Sources, and what is wanted of each: levels, or tallies; the other of these is empty."""

    sources: IntArray
    answer: AnyArray
    tallies: IntArray
    wanted: AnyArray
    last: int
    width: int
    batch_size: int

    def take(self, at: int, level: AnyArray) -> None:
        """Write, or count, the levels of a single search from the source at a position."""
        if len(self.answer):
            write_levels(level, self.last, self.answer[at])
        else:
            tally_levels(level, self.last, self.wanted, self.width, self.tallies[at])


class CpuManyBfs:
    """Levels from any number of sources; rows are read once for a batch of them.

    Every thread searches batches of its own. In addition to the rows each has 97 bytes a vertex, or
    less if sources are searched from one by one. ``out`` and ``into`` are hub-first rows (the same
    object when undirected).
    """

    dtype: np.dtype[Any] = np.dtype(np.int32)

    def __init__(self, out: Rows, into: Rows, team: Team) -> None:
        self._out = out_rows(out)
        self._into = self._out if into is out else out_rows(into)
        self._rows, self._team = (out, into), team
        self.vertices = len(self._out.offsets) - 1
        first = self._out.offsets[: first_rows(self.vertices) + 1][-1]
        has_hubs = hubs_are_large(first / max(len(out.neighbors), 1))
        self._few_sources = FEW_AT_HUBS if has_hubs else FEW_SOURCES
        self.is_one_by_one = False
        """Whether batches were abandoned: each thread has a search of its own."""

    def run(
        self,
        sources: IntArray,
        answer: AnyArray | None = None,
        *,
        batch_size: int = SLOTS,
        most: int | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Levels from the internal ids ``sources``, as `MultiSourceBfs.run` says."""
        if answer is None:
            answer = np.empty((len(sources), self.vertices), np.int32)
        last = INT32_UNREACHED - 1 if most is None else most
        nothing = np.empty((0, BINS), np.int64)
        nobody = np.zeros(self.vertices, np.bool_)
        self._search(
            _Run(sources, answer, nothing, nobody, last, 1, min(batch_size, SLOTS)), on_done
        )
        return answer

    def tally(
        self,
        sources: IntArray,
        *,
        batch_size: int = SLOTS,
        most: int | None = None,
        wanted: AnyArray | None = None,
        bins: int = 0,
        width: int = 1,
        tallies: IntArray | None = None,
        on_done: OnDone | None = None,
    ) -> IntArray:
        """Count the vertices that each source reaches, as `MultiSourceBfs.tally` says."""
        chosen = np.ones(self.vertices, np.bool_) if wanted is None else wanted
        last = INT32_UNREACHED - 1 if most is None else most
        if tallies is None:
            tallies = empty_tallies(len(sources), bins)
        nothing = np.empty((0, self.vertices), np.int32)
        self._search(
            _Run(sources, nothing, tallies, chosen, last, width, min(batch_size, SLOTS)), on_done
        )
        return tallies

    def _search(self, run: _Run, on_done: OnDone | None) -> None:
        """Search in batches, and one by one from the sources that are left."""
        left = self._batches(run, on_done)
        if len(run.tallies):
            run.tallies[left] = 0
        self._singly(run, left, on_done)

    def _batches(self, run: _Run, on_done: OnDone | None) -> AnyArray:
        """Search by batches as long as they are worth it; which sources are left, as bool."""
        sources, batch_size = run.sources, run.batch_size
        if self.is_one_by_one or not len(sources):
            return np.ones(len(sources), np.bool_)
        threads = self._team.threads
        each = even_batch(len(sources), batch_size, threads)
        begins = starts(len(sources), each, on_done, batch_size, threads)
        longest = int(np.diff(begins).max())
        if longest < min(self._few_sources, batch_size):
            return np.ones(len(sources), np.bool_)
        finished = np.zeros(len(begins) - 1, np.bool_)
        task = Task(
            self._out,
            self._into,
            pack_bits(run.wanted),
            np.array([run.last, run.width, PATIENCE, WORTH], np.int64),
            np.array([INT32_UNREACHED], np.int32),
            sources,
            begins,
            run.answer,
            run.tallies,
            finished,
        )
        states = [_state(self.vertices) for _ in range(threads)]
        run_batches(self._team, search_batch, states, task, on_done)
        # Of few sources it says little: more of them may meet.
        self.is_one_by_one = not finished.all() and longest >= WORD_BITS
        return np.repeat(~finished, np.diff(begins))

    def _singly(self, run: _Run, left: AnyArray, on_done: OnDone | None) -> None:
        """Search one by one from the sources that are ``left``."""
        positions = np.flatnonzero(left).tolist()

        def found(at: int, tree: BfsTree) -> None:
            run.take(positions[at], tree.level)
            if on_done is not None:
                on_done(positions[at], positions[at] + 1)

        if positions:
            threads = min(self._team.threads, len(positions))
            searches = [CpuBfsSearch(*self._rows, Team(1)) for _ in range(threads)]
            each_alone(searches, run.sources[left], found)


def _state(rows: int) -> Batch:
    """State of one batch."""
    words = words_for(rows)
    shapes = (rows, 2 * WORDS), (rows, WORDS), words, words, words, WORDS, (PLANES, WORDS), 2
    return Batch(*(np.empty(shape, np.uint64) for shape in shapes))
