"""Every kernel once or more on small graphs: the program that compute-sanitizer watches.

Memory comes straight from the driver, so that a pool does not hide what lies outside an array.
"""

from __future__ import annotations

import sys

import cupy
import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import InputError
from ooc_graph.kernels import cuda_bfs, cuda_sssp, cuda_sssp_near
from ooc_graph.kernels.cuda_bfs import CudaBfsSearch
from ooc_graph.kernels.cuda_rows import DeviceGraph, build_rows
from ooc_graph.kernels.cuda_sssp import CudaSsspSearch
from ooc_graph.types import Rows

SCALE = 9
# Small thresholds take searches of small graphs through every part of the kernels.
EAGER = {"OPEN_ROWS": 8, "QUEUE_ARCS": 50, "PUSH_BELOW": 2}
SHORT = {"FRONT": 32, "FRONT_FAR": 32, "STRETCH": 8}
# Types and factors of weights, whether to pull, whether near-far has fixed places for rows and
# keeps lengths in shared memory, and other constants of it.
SEARCHES = [
    ("float32", 1, True, False, {}),
    ("float32", 0, True, False, {}),
    ("int32", 1000, True, False, {}),
    ("float32", 1, False, True, {}),
    ("float64", 1, False, True, SHORT),
    ("float64", 0, False, False, {}),
    ("int32", 1000, False, True, SHORT),
    ("int64", 1 << 31, False, False, SHORT),
    ("int64", 1 << 34, False, True, {}),
]


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
        for changed in ({}, EAGER):
            cuda_bfs.constants = lambda *a, changed=changed, **b: {**plain(*a, **b), **changed}
            search = CudaBfsSearch(graph.out_hub, graph.into_hub, original_of=graph.original_of)
            for root in (0, 100, len(graph.tuples) - 1):
                search.run(root)
                search.run_on_device(root)
        cuda_bfs.constants = plain
        paths(graph, directed)
    deep()
    cupy.cuda.Device().synchronize()
    sys.stdout.write("all kernels have run\n")


def paths(graph: DeviceGraph, directed: bool) -> None:
    """SSSP by both methods, with weights of all types; without weights all are on plateaus."""
    usual = cuda_sssp_near.constants
    for dtype, factor, pulls, placed, changed in SEARCHES:
        rows = [
            Rows(r.offsets, r.neighbors, (r.weights * factor).astype(dtype))
            for r in (graph.out_light, graph.into_light)[: 1 + directed]
        ]
        cuda_sssp.may_pull = lambda _, pulls=pulls: pulls
        cuda_sssp_near.fixed_rows_pay = lambda *_, placed=placed: placed
        cuda_sssp_near.KEEP_SMALL = placed
        cuda_sssp_near.constants = lambda *a, changed=changed: {**usual(*a), **changed}
        named = {"original_of": graph.original_of}
        search = CudaSsspSearch(rows[0], rows[-1], graph.tuples, **named)
        search.run(0)
        for root in (100, len(graph.tuples) - 1):
            search.run_on_device(root)
    cuda_sssp_near.constants = usual


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
