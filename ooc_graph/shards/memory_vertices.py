"""Edges in memory -> who is which internal id, nothing written: first pass of `in_memory`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import InputError
from ooc_graph.kernels.cpu.build.degrees import falling_order
from ooc_graph.kernels.cpu.build.partition import count_spanned, id_extent
from ooc_graph.shards.renumber import CountedIds, refuse_unlisted
from ooc_graph.shards.tables import Tables, VertexSpace, ranks_of
from ooc_graph.shards.tally import Tally
from ooc_graph.types import AnyArray, EdgeBlock, IntArray, distinct

UNIT_EDGES = 1 << 20
BLOCK_EDGES = 1 << 15
# Ids that leave more than so many entries free for every tuple are looked up, not indexed.
_SPAN_PER_TUPLE = 8
_LEAST_SPAN = 1 << 16


class SharedBlocks:
    """The blocks of a source, dealt to threads in units; every thread iterates on its own."""

    def __init__(self, source: EdgeSource) -> None:
        self._source, self._lock = source, threading.Lock()
        self._units = iter(source.units(UNIT_EDGES))

    def _unit(self) -> Unit | None:
        with self._lock:
            return next(self._units, None)

    def __iter__(self) -> Iterator[tuple[int, EdgeBlock]]:
        """Number of a block's first tuple, and the block."""
        while (unit := self._unit()) is not None:
            first = unit.start
            for block in self._source.read(unit, BLOCK_EDGES):
                yield first, block
                first += len(block)


InThreads = Callable[[Callable[[], Any]], list[Any]]
"""Has every thread do some work; what they return."""


@dataclass(frozen=True)
class Vertices:
    """The vertices of edges in memory.

    ``internal_of`` is by position; ``originals`` is None if ids are dense, else ``first_id`` is.
    ``tuples`` are those at each internal id, uint32 or uint64 (rows,).
    """

    tables: Tables
    internal_of: AnyArray
    original_of: IntArray
    originals: IntArray | None
    first_id: int | None
    tuples: AnyArray
    total: Tally


def number_vertices(source: EdgeSource, in_threads: InThreads) -> Vertices:
    """Count tuples and rank the vertices by them."""
    if source.id_range is not None:
        return _spanned(source, *source.id_range, None, in_threads)
    listed = distinct(np.concatenate([np.empty(0, np.int64), *source.vertex_blocks()]))
    first, last = _extent(source, listed, in_threads)
    if last - first < max(_LEAST_SPAN, _SPAN_PER_TUPLE * (source.edges or 0)):
        return _spanned(source, first, last - first + 1, listed, in_threads)
    return _sparse(source, listed, in_threads)


def _extent(source: EdgeSource, listed: IntArray, in_threads: InThreads) -> tuple[int, int]:
    blocks = SharedBlocks(source)

    def look() -> list[tuple[int, int]]:
        return [id_extent(b.source, b.target) for _, b in blocks if len(b)]

    found = [pair for part in in_threads(look) for pair in part]
    found += [(int(listed[0]), int(listed[-1]))] if len(listed) else []
    if not found:
        raise InputError("the input has no edges", advice="nothing was built")
    return min(low for low, _ in found), max(high for _, high in found)


def _spanned(
    source: EdgeSource, first: int, count: int, listed: IntArray | None, in_threads: InThreads
) -> Vertices:
    """Ids that are indices of a table: ``first`` to ``first + count - 1``.

    ``listed`` are vertices that no edge need name; None: all ids are vertices.
    """
    looped = np.zeros(0 if listed is None else count, np.uint8)
    total, degree = _count_spanned(source, first, looped, count, in_threads)
    order = falling_order(degree)
    internal_of = ranks_of(order, count)
    original_of = order.astype(np.int64)
    original_of += first
    names: tuple[AnyArray, IntArray | None, int | None] = internal_of, None, first
    if listed is not None:
        looped |= degree > 0
        if len(listed):
            refuse_unlisted(np.flatnonzero(looped) + first, listed)
            looped[listed - first] = 1
        if not looped.all():
            seen = np.flatnonzero(looped)
            names = internal_of[seen], seen + first, None
    tables = Tables(VertexSpace(first, count), internal_of, None)
    return Vertices(tables, names[0], original_of, *names[1:], degree[order], total)


def _count_spanned(
    source: EdgeSource, first: int, looped: AnyArray, count: int, in_threads: InThreads
) -> tuple[Tally, AnyArray]:
    """Tuples at each index, uint32 (count,); ``looped`` is marked where a self-loop is."""
    blocks = SharedBlocks(source)

    def tally() -> tuple[Tally, AnyArray, AnyArray]:
        mine, low, high = Tally(), np.zeros(count, np.uint8), np.zeros(count, np.uint32)
        for number, block in blocks:
            loops = count_spanned(block.source, block.target, first, low, high, looped)
            if loops < 0:
                _refuse_outside(block, -1 - loops, number, first, count)
            mine.add(block, loops)
        return mine, low, high

    parts = in_threads(tally)
    degree = parts[0][2]
    for _, _, high in parts[1:]:
        degree += high
    for _, low, _ in parts:
        degree += low
    return Tally.sum(part[0] for part in parts), degree


def _refuse_outside(block: EdgeBlock, at: int, number: int, first: int, count: int) -> None:
    ends = int(block.source[at]), int(block.target[at])
    raise InputError(
        f"edge {number + at:,} joins {ends[0]} and {ends[1]}",
        advice=f"the vertices were said to be {first} to {first + count - 1}",
    )


def _sparse(source: EdgeSource, listed: IntArray, in_threads: InThreads) -> Vertices:
    """Ids with gaps too wide for a table: sorted, and looked up by bisection."""
    blocks = SharedBlocks(source)

    def count() -> tuple[Tally, CountedIds]:
        mine, found = Tally(), CountedIds()
        for _, block in blocks:
            mine.add(block, found.add_edges(block))
        found.settle()
        return mine, found

    parts = in_threads(count)
    found = parts[0][1]
    for _, other in parts[1:]:
        found.merge(other.ids, other.counts)
    if len(listed):
        refuse_unlisted(found.ids, listed)
        found.merge(listed, np.zeros(len(listed), np.uint64))
    ids, order = found.ids, falling_order(found.counts)
    internal_of, tuples = ranks_of(order, len(ids)), found.counts[order]
    if int(tuples.max(initial=0)) < 1 << 32:
        tuples = tuples.astype(np.uint32)
    first, dense = int(ids[0]), int(ids[-1]) - int(ids[0]) == len(ids) - 1
    tables = Tables(VertexSpace(first, len(ids)), internal_of, ids)
    names: tuple[IntArray | None, int | None] = (None, first) if dense else (ids, None)
    total = Tally.sum(tally for tally, _ in parts)
    return Vertices(tables, internal_of, ids[order], *names, tuples, total)
