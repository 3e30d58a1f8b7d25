"""Every kernel once or more on small graphs: the program that compute-sanitizer watches.

Memory comes straight from the driver, so that a pool does not hide what lies outside an array.
"""

from __future__ import annotations

import sys

import cupy
import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import InputError
from ooc_graph.kernels import cuda_bfs, cuda_sssp
from ooc_graph.kernels.cuda_bfs import CudaBfsSearch
from ooc_graph.kernels.cuda_rows import build_rows
from ooc_graph.kernels.cuda_sssp import CudaSsspSearch
from ooc_graph.types import Rows

SCALE = 9
# Small thresholds take searches of small graphs through every part of the kernels.
EAGER = {
    "OPEN_ROWS": 8,
    "PUSH_BELOW": 2,
    "NARROW_ARCS": 8,
    "THIN": 1,
    "FLOOD_ARCS": 50,
    "FLOOD_ROWS": 1 << 20,
}


def main() -> None:
    cupy.cuda.set_allocator(None)
    kronecker = Kronecker(SCALE)
    source, target = (cupy.empty(kronecker.edges, np.uint64) for _ in range(2))
    weight = cupy.empty(kronecker.edges, np.float32)
    kronecker.generate_into(0, source, target, weight)
    ends = source.astype(np.uint32), target.astype(np.uint32)
    kronecker.generate_into(0, *ends, None)
    plain = cuda_bfs.constants
    for directed in (False, True):
        options = {"vertices": kronecker.vertices, "directed": directed}
        graph = build_rows(source, target, weight, orders=("hub", "light"), **options)
        build_rows(*ends, range_arcs=3000, **options)
        flat = graph.out_light, graph.into_light
        for changed in ({}, EAGER):
            cuda_bfs.constants = lambda *a, changed=changed, **b: {**plain(*a, **b), **changed}
            search = CudaBfsSearch(graph.out_hub, graph.into_hub, original_of=graph.original_of)
            for root in (0, 100, len(graph.tuples) - 1):
                search.run(root)
                search.run_on_device(root)
        cuda_bfs.constants = plain
        for factor, pulls in ((1, True), (0, True), (1, False)):
            # Without weights all vertices are on plateaus.
            rows = [Rows(r.offsets, r.neighbors, r.weights * np.float32(factor)) for r in flat]
            into = rows[1] if directed else rows[0]
            cuda_sssp.may_pull = lambda _, pulls=pulls: pulls
            paths = CudaSsspSearch(rows[0], into, graph.tuples, original_of=graph.original_of)
            for root in (0, 100, len(graph.tuples) - 1):
                paths.run(root)
                paths.run_on_device(root)
    deep()
    cupy.cuda.Device().synchronize()
    sys.stdout.write("all kernels have run\n")


def deep() -> None:
    """A path with more levels than a byte tells, and sums that overflow."""
    at = cupy.arange(300, dtype=np.uint32)
    weight = cupy.full(300, 1e38, np.float32)
    graph = build_rows(at, at + 1, weight, vertices=301, orders=("hub", "light"))
    CudaBfsSearch(graph.out_hub, graph.out_hub).run(299)
    try:
        CudaSsspSearch(graph.out_light, graph.out_light, graph.tuples).run(299)
    except InputError:
        return
    raise AssertionError("an overflow was not found")


if __name__ == "__main__":
    main()
