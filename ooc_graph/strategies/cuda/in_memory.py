"""Searches on a CUDA device that has all rows in its memory."""

from __future__ import annotations

from ooc_graph.kernels.cuda.bfs.short_rows import may_place
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many.host import PART_BYTES
from ooc_graph.layout.names import APSP, MULTI_SOURCE_BFS
from ooc_graph.model.kernel import CUDA_FIXED_BYTES, ORDER_OF
from ooc_graph.shards.load import Graph

# Device memory a vertex at most; measured peaks are below it.
_CUDA_BFS_BYTES, _CUDA_SSSP_BYTES, _CUDA_WIDE_BYTES = 64, 96, 160
# The same of BFS where rows may have places of their own, and levels 32 bits.
_CUDA_PLACED_BYTES = 116
# Of many sources bytes an arc, while it is found which are needed; bytes of a row; and bytes of a
# vertex in answers on their way to host memory, at least so many in all.
_CUDA_MANY_ARC_BYTES, _CUDA_MANY_BYTES, _ANSWER_BYTES = 64, 1100, 1100


def cuda_bytes(graph: Graph, kernel: str) -> int:
    """Device memory of one rank that searches the whole graph on a CUDA device, at most."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    if kernel == APSP:
        answers = max(2 * PART_BYTES, graph.vertices * _ANSWER_BYTES)
        state = graph.arcs * _CUDA_MANY_ARC_BYTES + graph.rows * _CUDA_MANY_BYTES
        return rows + state + answers + CUDA_FIXED_BYTES
    if kernel == MULTI_SOURCE_BFS:
        single = graph.rows * cuda_state_bytes(graph, "bfs")
        state = max(cuda_many_bfs_plan.state_bytes(graph.rows, graph.arcs), single)
        return rows + state + CUDA_FIXED_BYTES
    return rows + graph.rows * cuda_state_bytes(graph, kernel) + CUDA_FIXED_BYTES


def cuda_levels_bytes(graph: Graph, columns: int) -> int:
    """Device memory that batches of BFS take besides for levels, at most.

    Parameters
    ----------
    columns
        Levels of a source.
    """
    row_bytes = 4 * cuda_many_bfs_plan.answer_pitch(columns)
    answers = 2 * max(PART_BYTES, cuda_many_bfs_plan.LANES * row_bytes)
    return cuda_many_bfs_plan.noted_bytes(graph.rows) + answers + 4 * columns


def cuda_state_bytes(graph: Graph, kernel: str) -> int:
    """Device memory a vertex beside the rows: heads, buffers, answer."""
    if kernel == "bfs":
        placed = may_place(graph.rows, graph.arcs // (2 if graph.directed else 1))
        return _CUDA_PLACED_BYTES if placed else _CUDA_BFS_BYTES
    is_narrow = graph.weight_dtype is not None and graph.weight_dtype.itemsize == 4
    return _CUDA_SSSP_BYTES if is_narrow else _CUDA_WIDE_BYTES
