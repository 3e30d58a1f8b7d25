"""What the ranks of a BFS have in common that search together, and what each has alone (CPU).

In memory that all processes map are the parents, and bitmaps: of what is visited, of what each rank
claims in a push, and of two frontiers, of which one is read and one written. Parents and the first
two kinds have the rows of one rank behind those of the other; the frontiers are by internal id.
A byte for each block of rows says whether a rank has claimed any.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, Words
from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.dealt import Dealt
from ooc_graph.kernels.common.meeting import Waits, gathering_words
from ooc_graph.kernels.common.team import CONTROL_WORDS, LINE
from ooc_graph.kernels.cpu.bfs.fused import Trace
from ooc_graph.kernels.cpu.bfs.pull import IntoRows, Tree
from ooc_graph.kernels.cpu.bfs.push import OutRows
from ooc_graph.types import DEAL_BLOCK, DEAL_BLOCK_BITS, AnyArray, IntArray


class Common(NamedTuple):
    """What all ranks have in common; ``stride`` is from a rank's first row to that of the next.

    ``claimed`` has a bitmap for each rank, so that they do not write to the same cache lines, and
    ``touched`` a byte of each rank for every block, in lines of its own.
    """

    control: IntArray
    gathering: IntArray
    parent: AnyArray
    visited: Words
    claimed: Words
    frontier: Words
    touched: AnyArray
    stride: int


class Own(NamedTuple):
    """What a rank has: rows to push and to pull along, and its state.

    Of the state, parents and what is visited are its part of what is common.
    """

    out: OutRows
    into: IntoRows
    tree: Tree
    trace: Trace


class Start(NamedTuple):
    """How a rank begins a search.

    ``members`` are the threads of all ranks. ``found`` and ``found_arcs`` are what the rank has of
    the root; ``vertices`` and ``arcs`` those of the graph.
    """

    dealt: Dealt
    members: int
    waits: Waits
    found: int
    found_arcs: int
    vertices: int
    arcs: int


def common_bytes(vertices: int, ranks: int, id_bytes: int) -> int:
    """Memory for `Common`; fewer ranks, of which this number is a multiple, need no more."""
    rows = _stride(vertices, ranks) * ranks
    bitmaps = (3 + ranks) * 8 * (rows // WORD_BITS)
    # Padding to whole lines is the same for fewer ranks, or less.
    words = CONTROL_WORDS + gathering_words(ranks)
    return 8 * words + rows * id_bytes + bitmaps + ranks * touched_bytes(rows)


def common_in(memory: AnyArray, vertices: int, ranks: int, ids: np.dtype[Any]) -> Common:
    """Lay the arrays out in memory, bytes that are zeros."""
    stride = _stride(vertices, ranks)
    rows = stride * ranks
    words = 8 * (rows // WORD_BITS)
    bitmaps, touched_size = (words, ranks * words, 2 * words), ranks * touched_bytes(rows)
    counters = 8 * CONTROL_WORDS, 8 * gathering_words(ranks)
    sizes = *counters, rows * ids.itemsize, *bitmaps, touched_size
    assert len(memory) >= sum(sizes)
    control, gathering, parent, *maps, touched = np.split(
        memory[: sum(sizes)], np.cumsum(sizes[:-1])
    )
    visited, claimed, frontier = (one.view(np.uint64) for one in maps)
    tables = parent.view(ids), visited, claimed, frontier, touched
    return Common(control.view(np.int64), gathering.view(np.int64), *tables, stride)


def touched_bytes(rows: int) -> int:
    """Bytes of a rank in ``touched``, in whole cache lines."""
    return -(-(rows >> DEAL_BLOCK_BITS) // (8 * LINE)) * 8 * LINE


def _stride(vertices: int, ranks: int) -> int:
    return -(-vertices // (DEAL_BLOCK * ranks)) * DEAL_BLOCK


@subroutine
def index_of(v: Any, dealt: Any, stride: int) -> Any:
    """Where a vertex stands in arrays that have rank after rank."""
    block = np.int64(v) >> DEAL_BLOCK_BITS
    owner = block & ((1 << dealt.shard_bits) - 1)
    local = ((block >> dealt.shard_bits) << DEAL_BLOCK_BITS) | (np.int64(v) & (DEAL_BLOCK - 1))
    return np.uint64(owner * stride + local)
