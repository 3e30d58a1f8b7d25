"""Edges without rows: each edge once, grouped by the segments of vertices that its ends lie in.

A segment is at most `SEGMENT` consecutive internal ids, so that inside a group of edges both ends
are 16 bits, and the state of the two segments that a group touches stays in the core's cache while
all of its edges are relaxed [1]. The first segments are small and double in length: that is where
the hubs are, whose distances are short and whose edges are most, and what holds for all vertices
of a segment decides what may be left unread. With weights, a group is cut into bands, lightest
first, so that a pass may leave out what is too heavy to improve anything. Bands are cut into
pieces, which are what threads take.

[1] X. Zhu, W. Han, W. Chen, "GridGraph: large-scale graph processing on a single machine using
2-level hierarchical partitioning", USENIX ATC 2015 (there for edges on disk).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import Dealt, internal_of
from ooc_graph.kernels.common.team import take_chunk
from ooc_graph.types import AnyArray, IntArray

SEGMENT_BITS = 16
SEGMENT = 1 << SEGMENT_BITS
"""Vertices of a segment, at most."""
FIRST_BITS = 9
"""The first two segments have two to the power of this many vertices each."""
_SMALL = SEGMENT_BITS - FIRST_BITS
HALF = np.uint32(SEGMENT_BITS)
LOW_END = np.uint32(SEGMENT - 1)
"""Mask of the bits of an edge that its tail has; those above, `HALF` of them, are the head's."""
PIECES_AT_ONCE = 8
"""Pieces that a thread takes at once."""


class GroupedEdges(NamedTuple):
    """A whole graph as edges, in host memory.

    It takes 4 bytes an edge and the weight. Rows take twice that for an undirected graph, whose
    edges stand in them from both ends, and for a directed one, whose in-arcs are stored, too; and 8
    bytes a vertex and side for offsets.

    An edge that is ``undirected`` leads both ways, and has the smaller id as its tail. ``ends``
    uint32 (edges,): position of the tail in its segment in the low 16 bits, of the head above.
    ``weights`` (edges,) are of the stored kind; (0,) without. ``begin`` int64 (pieces + 1,): piece
    p is ``begin[p]:begin[p + 1]``; pieces are ordered by segment of the head, segment of the tail,
    and band. ``tail`` and ``head`` int32 (pieces,): segments of the ends. ``lightest`` (pieces,):
    the smallest weight in the piece; (0,) without weights. ``base`` is that of `segment_bases`.
    """

    undirected: bool
    ends: AnyArray
    weights: AnyArray
    begin: IntArray
    tail: AnyArray
    head: AnyArray
    lightest: AnyArray
    base: IntArray

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return int(self.base[-1])

    @property
    def segments(self) -> int:
        """Number of segments."""
        return len(self.base) - 1


def segments_for(vertices: int) -> int:
    """Segments of so many vertices."""
    return segment_of(vertices - 1) + 1 if vertices else 0


def segment_bases(vertices: int) -> IntArray:
    """First id of each segment, and the number of vertices: int64 (segments + 1,)."""
    segments = segments_for(vertices)
    starts = [0, *(1 << (FIRST_BITS + k) for k in range(_SMALL))]
    starts += range(SEGMENT, vertices, SEGMENT)
    return np.array([*starts[:segments], vertices], np.int64)


def segment_of(vertex: int) -> int:
    """Segment that an internal id lies in."""
    if vertex >= SEGMENT:
        return (vertex >> SEGMENT_BITS) + _SMALL
    segment, rest = 0, vertex >> FIRST_BITS
    while rest > 0:
        segment, rest = segment + 1, rest >> 1
    return segment


segment_of_id = kernel(segment_of)


@subroutine
def pieces_of(control: Any, edges: Any) -> Iterator[int]:
    """Share out the pieces; all threads go through it. Word `CHUNK` must be 0 at the start."""
    while True:
        first, last = take_chunk(control, PIECES_AT_ONCE, len(edges.tail))
        if first >= last:
            break
        for piece in range(first, last):  # noqa: UP028 (numba has no `yield from`)
            yield piece


PIECE_EDGES = 1 << 14
"""Edges of a piece, at most."""
MOST_BANDS = 16
BAND_EDGES = 1 << 12
"""A band holds at least this many edges, on average over groups."""


class ArcBlock(NamedTuple):
    """Some consecutive arcs of a shard, in host memory, from its arc number ``first`` on.

    ``dealt`` says which rows the shard has, ``offsets`` int64 (rows + 1,) where they begin.
    ``weights`` is (0,) without.
    """

    dealt: Dealt
    offsets: IntArray
    first: int
    neighbors: AnyArray
    weights: AnyArray


class Cells(NamedTuple):
    """Where edges go: a cell is a band of a group.

    Its number is ``(head segment * segments + tail segment) * bands + band``. ``base`` and
    ``marks`` are those of `segment_bases` and `band_marks`, ``ends`` and ``weights`` those of
    `GroupedEdges`. ``counts`` int64 (segments * segments * bands,) are counted up; if ``ends`` is
    not empty, each is the next position of an edge in it.
    """

    base: IntArray
    marks: AnyArray
    counts: IntArray
    ends: AnyArray
    weights: AnyArray


def grouped(
    vertices: int,
    blocks: Callable[[], Iterable[ArcBlock]],
    marks: AnyArray,
    *,
    directed: bool,
    weighted: bool,
) -> GroupedEdges:
    """Group the edges of a whole graph whose out-arcs ``blocks`` gives.

    It is called twice: to count and to position the edges. ``marks`` are those of `band_marks`.
    """
    base, segments = segment_bases(vertices), segments_for(vertices)
    counts = np.zeros(segments * segments * (len(marks) + 1), np.int64)
    cells = Cells(base, marks, counts, np.empty(0, np.uint32), marks[:0])
    _group(blocks(), directed, cells)
    begin, tail, head = piece_table(counts, segments)
    ends = np.empty(int(begin[-1]), np.uint32)
    weights = np.empty(len(ends) if weighted else 0, marks.dtype)
    positions = np.cumsum(counts) - counts
    _group(blocks(), directed, Cells(base, marks, positions, ends, weights))
    lightest = np.minimum.reduceat(weights, begin[:-1]) if len(weights) else weights
    return GroupedEdges(not directed, ends, weights, begin, tail, head, lightest, base)


def _group(blocks: Iterable[ArcBlock], directed: bool, cells: Cells) -> None:
    for block in blocks:
        row = int(np.searchsorted(block.offsets, block.first, "right")) - 1
        _group_arcs(block, row, not directed, cells)


def bands_for(edges: int, segments: int, *, directed: bool) -> int:
    """Bands of weights to cut each group into, so that there are edges enough for each."""
    groups = segments * segments if directed else segments * (segments + 1) // 2
    return max(1, min(MOST_BANDS, edges // max(1, groups * BAND_EDGES)))


def band_marks(sample: AnyArray, bands: int) -> AnyArray:
    """Weights at which bands begin, except the first: ascending, no two alike, (< bands,).

    Bands are finer where weights are light: (k / bands) ** 2 of the edges lie below mark k.
    """
    if bands <= 1 or not len(sample):
        return np.empty(0, sample.dtype)
    shares = (np.arange(1, bands) / bands) ** 2
    return np.unique(np.sort(sample)[(shares * len(sample)).astype(np.int64)])


@subroutine
def _band_of(marks: Any, weight: Any) -> int:
    low, high = 0, len(marks)
    while low < high:
        middle = (low + high) >> 1
        if marks[middle] <= weight:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _group_arcs(block: Any, row: int, undirected: bool, cells: Any) -> None:
    """Count a block of a shard's arcs by cell, or bring them to their positions.

    The block begins in ``row``. Of an undirected graph arcs that lead to a smaller id are left
    out: the edge is stored from there.
    """
    base, marks = cells.base, cells.marks
    weighted, placing = len(block.weights) > 0, len(cells.ends) > 0
    segments, bands = len(base) - 1, len(marks) + 1
    for index in range(len(block.neighbors)):
        while block.offsets[row + 1] <= block.first + index:
            row += 1
        u, v = internal_of(row, block.dealt), np.int64(block.neighbors[index])
        if undirected and v < u:
            continue
        head, tail = segment_of_id(v), segment_of_id(u)
        cell = (head * segments + tail) * bands
        if weighted:
            cell += _band_of(marks, block.weights[index])
        position = cells.counts[cell]
        cells.counts[cell] = position + 1
        if placing:
            cells.ends[position] = (np.uint32(v - base[head]) << HALF) | np.uint32(u - base[tail])
            if weighted:
                cells.weights[position] = block.weights[index]


def piece_table(counts: IntArray, segments: int) -> tuple[IntArray, AnyArray, AnyArray]:
    """``begin``, ``tail`` and ``head`` of the pieces, from the edges of each cell."""
    bands = len(counts) // max(1, segments * segments)
    cells = np.flatnonzero(counts)
    edges = counts[cells]
    pieces = -(-edges // PIECE_EDGES)
    within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin = np.repeat(np.cumsum(edges) - edges, pieces) + within * PIECE_EDGES
    group = np.repeat(cells // bands, pieces)
    return (
        np.append(begin, edges.sum()).astype(np.int64),
        (group % max(1, segments)).astype(np.int32),
        (group // max(1, segments)).astype(np.int32),
    )
