"""BFS and SSSP on one CUDA device: Graph500's graphs and search keys, every answer validated.

    python benchmarks/gpu.py [--scales 20,22,24,26] [--kernels bfs,sssp] [--searches 64]

Edges are generated and sorted on the device. A search is timed by events on its stream, from before
all initialisation until parents (original ids, in an array by internal id) and levels or distances
stand in device memory. TEPS counts input tuples between reached vertices, duplicates included and
self-loops not; the record also has it by unique edges. Kernel 1 is from edges in device memory to
searchable rows. Appends to records/gpu.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import cupy
import numpy as np
from gpu_checks import Checks

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda_bfs import CudaBfsSearch
from ooc_graph.kernels.cuda_rows import DeviceGraph, build_rows
from ooc_graph.kernels.cuda_sssp import CudaSsspSearch
from ooc_graph.report.records import append_record
from ooc_graph.report.statistics import teps_statistics

RECORDS = Path(__file__).parent / "records" / "gpu.jsonl"
ORDER = {"bfs": "hub", "sssp": "light"}
COUNTED_SEARCHES = 8
WARM_SCALE = 18


def device_facts() -> dict[str, Any]:
    """Device and versions."""
    runtime = cupy.cuda.runtime
    found = runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "name": found["name"].decode(),
        "memory_bytes": found["totalGlobalMem"],
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
    }


def seconds(work: Any) -> tuple[Any, float]:
    """What some work on the device gives, and how long it takes."""
    cupy.cuda.Device().synchronize()
    begun = perf_counter()
    done = work()
    cupy.cuda.Device().synchronize()
    return done, perf_counter() - begun


def generate(kronecker: Kronecker, weighted: bool) -> tuple[Any, Any, Any]:
    source, target = (cupy.empty(kronecker.edges, np.uint32) for _ in range(2))
    weight = cupy.empty(kronecker.edges, np.float32) if weighted else None
    kronecker.generate_into(0, source, target, weight)
    return source, target, weight


def build(kronecker: Kronecker, edges: tuple[Any, Any, Any], kernel: str) -> DeviceGraph:
    return build_rows(*edges, vertices=kronecker.vertices, orders=(ORDER[kernel],))


def new_search(graph: DeviceGraph, kernel: str, *, count: bool = False) -> Any:
    named = {"original_of": graph.original_of}
    if kernel == "bfs":
        return CudaBfsSearch(graph.out_hub, graph.out_hub, count_arcs=count, **named)
    return CudaSsspSearch(graph.out_light, graph.out_light, graph.tuples, **named)


def reached_of(tree: Any, kernel: str) -> Any:
    if kernel == "sssp":
        return cupy.isfinite(tree.distance)
    return tree.level != (255 if tree.level.dtype == np.uint8 else -1)


def arcs_share(graph: DeviceGraph, kernel: str, search: Any, roots: list[int]) -> float:
    """Median share of the arcs that a search looks at, over a few roots."""
    roots, examined = roots[:COUNTED_SEARCHES], []
    if kernel == "bfs":
        arcs = len(graph.out_hub.neighbors)
        counting = new_search(graph, kernel, count=True)
        examined = [int(counting.run(root).level_arcs.sum()) for root in roots]
    else:
        arcs = len(graph.out_light.neighbors)
        examined = [sum(search.run_on_device(root).phase_arcs.values()) for root in roots]
    return statistics.median(examined) / arcs


def searches(graph: DeviceGraph, kernel: str, roots: list[int]) -> dict[str, Any]:
    """Time and validate one search a root."""
    checks, search = Checks(), new_search(graph, kernel)
    check = checks.bfs if kernel == "bfs" else checks.sssp
    rows = graph.out_hub if kernel == "bfs" else graph.out_light
    degree = cupy.diff(rows.offsets.view(np.int64))
    search.run_on_device(roots[0])
    times, tuples, unique, wrong, flat = [], [], [], 0, 0
    for root in roots:
        tree = search.run_on_device(root)
        times.append(tree.elapsed_s)
        reached = reached_of(tree, kernel)
        tuples.append(int(graph.tuples[reached].sum(dtype=np.uint64)) // 2)
        unique.append(int(degree[reached].sum()) // 2)
        found = check(graph, root, tree)
        wrong, flat = wrong + found[0], flat + found[1]
    if wrong:
        raise SystemExit(f"{kernel}: {wrong} rows of the answers are wrong")
    return {
        "times_s": times,
        "edges": tuples,
        "unique_edges": unique,
        "teps": teps_statistics(times, tuples).to_dict(),
        "unique_teps": teps_statistics(times, unique).to_dict(),
        "arcs_share": arcs_share(graph, kernel, search, roots),
        "rows_checked": len(degree) * len(roots),
        "plateau_rows": flat,
    }


def line(record: dict[str, Any]) -> str:
    teps = record["teps"]
    names = ("harmonic_mean", "minimum", "first_quartile", "median", "third_quartile", "maximum")
    figures = " ".join(f"{teps[name] / 1e9:8.1f}" for name in names)
    return (
        f"{record['kernel']:5} {record['scale']:5} {figures} "
        f"{record['unique_teps']['harmonic_mean'] / 1e9:8.1f} {record['arcs_share'] * 100:8.2f} "
        f"{record['generation_s']:8.3f} {record['kernel1_s']:8.3f}"
    )


HEADER = (
    "                            GTEPS (input tuples)             unique    arcs %     seconds\n"
    "kernel scale harmonic  slowest  1st qu.   median  3rd qu.     best harmonic examined "
    "generate kernel 1"
)


def run(scale: int, kernel: str, count: int, commit: str | None) -> dict[str, Any]:
    kronecker = Kronecker(scale)
    edges, generation_s = seconds(lambda: generate(kronecker, kernel == "sssp"))
    graph, kernel1_s = seconds(partial(build, kronecker, edges, kernel))
    del edges
    cupy.get_default_memory_pool().free_all_blocks()
    keys = kronecker.search_keys(count, degree=(graph.internal_of >= 0).get())
    roots = graph.internal_of[cupy.asarray(keys)].get().tolist()
    rows = graph.out_hub or graph.out_light
    assert rows is not None
    record = {
        "benchmark": "gpu",
        "kernel": kernel,
        "scale": scale,
        "edge_factor": kronecker.edge_factor,
        "device": device_facts(),
        "source_commit": commit,
        "rows": len(graph.original_of),
        "arcs": len(rows.neighbors),
        "generation_s": generation_s,
        "kernel1_s": kernel1_s,
        "roots": keys,
        **searches(graph, kernel, roots),
    }
    return append_record(RECORDS, record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scales", default="20,22,24,26")
    parser.add_argument("--kernels", default="bfs,sssp")
    parser.add_argument("--searches", type=int, default=64)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    kernels = options.kernels.split(",")
    for kernel in kernels:
        # What is compiled when first wanted is compiled before anything is timed.
        small = Kronecker(WARM_SCALE)
        new_search(build(small, generate(small, kernel == "sssp"), kernel), kernel).run(0)
    print(HEADER)
    for scale in map(int, options.scales.split(",")):
        for kernel in kernels:
            print(line(run(scale, kernel, options.searches, options.commit)), flush=True)
            cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()
