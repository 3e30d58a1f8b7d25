"""SSSP with distances of 64 bits on a graph that one CUDA device holds whole."""

from __future__ import annotations

from ooc_graph.kernels.cuda_sssp import CudaSsspSearch


class CudaWideSsspSearch(CudaSsspSearch):
    """`CudaSsspSearch` that sums integers in 64 bits from its first search on.

    `CudaSsspSearch` takes weights of every type by itself; this is for graphs whose integer
    distances are known not to fit 32 bits, so that no search has to be repeated. On floats the two
    do the same.
    """

    _wide = True
