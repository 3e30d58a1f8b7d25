"""What searches from many sources have in common, on any device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray


class ManySources:
    """Distances (of ``dtype``), or levels, from any number of sources, and parents (``ids``)."""

    vertices: int
    dtype: np.dtype[Any]
    ids: np.dtype[Any]

    def _find(
        self,
        sources: IntArray,
        answer: AnyArray,
        parents: AnyArray | None,
        batch_size: int | None,
        on_done: OnDone | None,
    ) -> None:
        """Write distances, and parents if they are wanted."""
        raise NotImplementedError

    def empty(self, sources: int) -> tuple[AnyArray, AnyArray]:
        """Arrays for distances from so many sources, and for their parents."""
        shape = sources, self.vertices
        return np.empty(shape, self.dtype), np.empty(shape, self.ids)

    def run(
        self,
        sources: IntArray,
        answer: AnyArray | None = None,
        *,
        batch_size: int | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Search from each of the internal ids ``sources``: (sources, vertices).

        What is not reached has +inf, or the largest integer of the dtype. Sources are int64, in any
        order, and may repeat. The distances may be written to ``answer``. A batch has up to
        ``batch_size`` sources, and ``on_done`` is called when their rows are there.
        """
        if answer is None:
            answer = np.empty((len(sources), self.vertices), self.dtype)
        self._find(sources, answer, None, batch_size, on_done)
        return answer

    def run_with_parents(
        self,
        sources: IntArray,
        answers: tuple[AnyArray, AnyArray] | None = None,
        *,
        batch_size: int | None = None,
        on_done: OnDone | None = None,
    ) -> tuple[AnyArray, AnyArray]:
        """Distances as `run` gives them, and parents: ids (sources, vertices).

        A source is its own parent; all ones: not reached. Without negative weights parents are
        those of single searches. ``answers`` are arrays as `empty` makes them, to write to.
        """
        answer, parents = self.empty(len(sources)) if answers is None else answers
        self._find(sources, answer, parents, batch_size, on_done)
        return answer, parents


class Apsp(Protocol):
    """What `ManySources` of a graph that one rank has whole do besides; weights of any sign."""

    @property
    def has_matrix(self) -> bool:
        """Whether all pairs were found at once."""

    def expect(self, sources: int, matrix_sources: int = 0) -> None:
        """Prepare for so many sources in all runs to come.

        ``matrix_sources`` of them are searched from here; 0 if no matrix of all pairs may be kept.
        """

    def run_columns(
        self,
        sources: IntArray,
        targets: IntArray,
        own: IntArray,
        most: Any = None,
        *,
        answer: AnyArray | None = None,
        at: IntArray | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Distances to some targets alone."""


class MultiSourceBfs(Protocol):
    """Levels from any number of sources, on a graph that one rank holds whole."""

    @property
    def vertices(self) -> int:
        """Rows of the graph."""

    @property
    def is_one_by_one(self) -> bool:
        """Whether batches were abandoned."""

    def run(
        self,
        sources: IntArray,
        answer: AnyArray | None = None,
        *,
        batch_size: int = ...,
        most: int | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Levels of all vertices from each of the internal ids ``sources``.

        These are int64 (sources,), repetitions allowed. Levels may be written to ``answer``, int32
        (sources, vertices): the largest int32 if a source does not reach. ``batch_size`` is most
        sources of a batch, ``most`` the last level that is wanted; None: all. ``on_done`` is called
        with sources when their rows are in ``answer``.
        """

    def tally(
        self,
        sources: IntArray,
        *,
        batch_size: int = ...,
        most: int | None = None,
        wanted: AnyArray | None = None,
        bins: int = 0,
        width: int = 1,
        tallies: IntArray | None = None,
        on_done: OnDone | None = None,
    ) -> IntArray:
        """Count the vertices that each source reaches, without a matrix of levels.

        What is not said here is as for `run`. ``wanted``, bool (vertices,): which vertices count;
        None: all. There are so many ``bins`` of levels, each of this ``width``; the last one has
        all beyond. ``tallies`` are as `empty_tallies` makes them, to write to.

        Returns int64 (sources, 3 + bins): vertices reached, the source included; the sum of their
        levels; the last level with one of them; and how many there are in each bin.
        """


REACHED, SUM, DEEPEST, BINS = range(4)
"""Columns of the tallies: vertices, sum of their levels, last level; from here on bins."""


def empty_tallies(sources: int, bins: int) -> IntArray:
    """What `CpuManyBfs.tally` writes to: int64 (sources, 3 + bins), zeros."""
    return np.zeros((sources, BINS + bins), np.int64)


def tally_levels(level: AnyArray, most: int, wanted: AnyArray, width: int, row: IntArray) -> None:
    """Write the tally of levels up to ``most`` of rows that are ``wanted``: int64 (3 + bins,)."""
    counts = np.bincount(level[wanted & (level >= 0) & (level <= most)])
    at = np.arange(len(counts))
    row[:3] = counts.sum(), (counts * at).sum(), max(len(counts) - 1, 0)
    bins = len(row) - 3
    if bins:
        np.add.at(row[3:], np.minimum(at // width, bins - 1), counts)


def write_levels(level: AnyArray, most: int, row: AnyArray) -> None:
    """Write levels up to ``most`` to a row of an answer; the largest int32 for all others."""
    row[:] = level
    row[(level < 0) | (level > most)] = INT32_UNREACHED
