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

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import kernel, subroutine
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
