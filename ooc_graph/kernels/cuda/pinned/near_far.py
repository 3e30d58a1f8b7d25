"""SSSP by near-far on a CUDA device of a graph whose rows stand in pinned host memory.

For weights of every type that stores have, and for graphs where pulling has nothing to gain, such
as road networks. The device has offsets and all that is written; rows are read over the bus where
they are, each time that a round or the pass for parents comes to them.
"""

from __future__ import annotations

from typing import Any

from ooc_graph.kernels.cuda.runtime.rows import NULL
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.near_far import NearFar
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.kernels.cuda.sssp.sums import Sums, sums_of_stored


class CudaTierNearSearch(CudaSsspSearch):
    """As `CudaSsspSearch`, of rows that the device reads where they are; by near-far alone.

    Rows are light-first, their offsets on the device or in host memory (copied), neighbours and
    weights the device's views of pinned host memory, of the types that stores have. Integers of 32
    bits are summed in 32 as long as that is enough, those of 64 bits in 64 from the start. What it
    has on the device is `ooc_graph.memory.cuda.device_facts.NearPlan`.
    """

    def _sums_of(self, weights: Any) -> Sums:
        return sums_of_stored(weights.dtype)

    def _method_for(self, graph: Weighted, pulls: bool) -> Method:
        """Near-far, also where pulling pays: that is for weights of 32 bits and other kernels."""
        del pulls
        return _Uncopied(graph)


class _Uncopied(NearFar):
    """Near-far without a copy of rows' first arcs, which would be as large as short rows are."""

    def _fix_rows(self, chosen: dict[str, int | str]) -> tuple[Any, Any]:
        del chosen
        return NULL, NULL
