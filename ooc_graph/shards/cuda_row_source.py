"""Rows of a range on a CUDA device: from a pass over all tuples, or from sorted runs on disk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Protocol

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.cuda.build.gather import CHANGED
from ooc_graph.kernels.cuda.build.store_rows import RowMaker, StoreRows
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.shards.cuda_edges import DeviceEdges
from ooc_graph.shards.range_runs import RangeRuns, RunReader

Range = tuple[int, int, int]
"""First row of a range in store order, the one after the last, and its arcs at most."""


class RowSource(Protocol):
    """Gives the rows of each side's ranges, in the order of the store, once."""

    def rows(self, side: str, number: int) -> StoreRows:
        """Rows of a range."""


class PassRows:
    """Rows of each range by a pass over all tuples.

    Parameters
    ----------
    edges, maker
        Tuples, and who makes rows of them.
    sides
        Which ends of an edge are arcs of a side.
    ranges
        Of rows.
    """

    def __init__(
        self, edges: DeviceEdges, maker: RowMaker, sides: Mapping[str, int], ranges: list[Range]
    ) -> None:
        self._edges, self._maker, self._sides, self._ranges = edges, maker, sides, ranges

    def rows(self, side: str, number: int) -> StoreRows:
        """Rows of a range. Raises as `ooc_graph.kernels.cuda.build.store_rows.RowMaker.rows`."""
        with closing(self._edges.blocks()) as blocks:
            return self._maker.rows(blocks, self._sides[side], *self._ranges[number])


class RunRows:
    """Rows of each range from what all runs have of it.

    Parameters
    ----------
    runs, reader
        All runs, and who reads them.
    maker, ranges
        As of `PassRows`.
    """

    def __init__(
        self, runs: RangeRuns, reader: RunReader, maker: RowMaker, ranges: list[Range]
    ) -> None:
        self._runs, self._reader, self._maker, self._ranges = runs, reader, maker, ranges

    def rows(self, side: str, number: int) -> StoreRows:
        """Rows of a range.

        Raises
        ------
        InputError
            There are more arcs than were counted.
        OSError
            As of `ooc_graph.shards.range_runs.Part.read`.
        """
        low, high, most = self._ranges[number]
        return self._maker.made(high - low, self._read(side, number, low, most))

    def _read(self, side: str, number: int, low: int, most: int) -> list[Any]:
        """Keys, rows counted from ``low``, and words, as the runs follow each other."""
        cupy, arcs, done = cuda(), self._runs.arcs(side, number), 0
        if arcs > most:
            raise InputError(CHANGED)
        keys = cupy.empty(arcs, np.uint64)
        words = None if self._runs.word is None else cupy.empty(arcs, self._runs.word)
        for some, beside in self._reader.pieces(side, number):
            place = slice(done, done + len(some))
            keys[place].set(some)
            if words is not None:
                words[place].set(beside)
            done += len(some)
            # The piece is in ordinary memory, which is gone then.
            cupy.cuda.get_current_stream().synchronize()
        keys -= np.uint64(low << 32)
        return [keys, words]
