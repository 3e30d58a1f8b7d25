"""Road networks: BFS and SSSP on one CUDA device beside the same searches on this machine's CPU.

    python benchmarks/gpu_roads.py [--kernels bfs,sssp] [--searches 16] [--data DIR]

Every road network of the reference data that has no negative weights, as its file gives it. Both
sides hold the same rows and take the roots in turn: the device, the CPU on two threads, the CPU on
all cores. The answers are compared byte for byte. Times are of the searches alone: on the device by
events, until parents and levels or distances stand in its memory; on the CPU until they stand in
host memory. What bringing the device's answer to host memory takes is in the record too. Medians
are printed. Appends to records/gpu_roads.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

import gpu_graphs
import numpy as np

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.types import AnyArray, Shard

RECORDS = Path(__file__).parent / "records" / "gpu_roads.jsonl"
FILES = {
    "New York": "dimacs9-road/USA-road-d.NY.gr.gz",
    "San Francisco Bay (no weights)": "dimacs9-topology/BAY.pace.gr.gz",
    "Rome": "dimacs9-road/rome99.gr",
    "Washington DC, first cost": "biobjective-road/DC-cost1.gr.gz",
    "Washington DC, second cost": "biobjective-road/DC-cost2.gr.gz",
}
FEW_THREADS = 2
RANDOM_STATE = 11
ORDER = {"bfs": "hub", "sssp": "light"}
GPU = "GPU"


def data_folder() -> Path:
    named = os.environ.get("OOC_GRAPH_SHARED")
    shared = Path(named) if named else Path(__file__).resolve().parents[2] / "shared"
    return shared / "data"


def read(path: Path) -> Any:
    """The network in memory, with the weights of the file."""
    source = og.open_source(path)
    blocks = [block for unit in source.units(1 << 20) for block in source.read(unit, 1 << 18)]
    u, v = (np.concatenate([getattr(b, end) for b in blocks]) for end in ("source", "target"))
    weights = [block.weight for block in blocks if block.weight is not None]
    weight = np.concatenate(weights) if weights else None
    return og.from_edges(u, v, weight, directed=source.directed)


def rows_of(shard: Shard, kernel: str) -> tuple[Any, Any]:
    order = ORDER[kernel]
    out = getattr(shard, f"out_{order}")
    return out, getattr(shard, f"into_{order}") if shard.directed else out


def on_device(shard: Shard, kernel: str) -> Any:
    """The device's search; integer weights stay what they are."""
    out, into = rows_of(shard, kernel)
    if kernel == "bfs":
        return CudaBfsSearch(out, into, count_arcs=False)
    return CudaSsspSearch(out, into, shard.tuples)


def answer(tree: Any, kernel: str) -> tuple[bytes, bytes]:
    measure: AnyArray = tree.level if kernel == "bfs" else tree.distance
    return tree.parent.tobytes(), measure.tobytes()


def compare(shard: Shard, kernel: str, cpus: dict[str, CpuDevice], searches: int) -> dict[str, Any]:
    """Times of all sides from the same roots."""
    sides = {name: getattr(cpu, kernel)(shard) for name, cpu in cpus.items()}
    sides[GPU] = on_device(shard, kernel)
    roots = np.random.default_rng(RANDOM_STATE).integers(0, len(shard.tuples), searches).tolist()
    times: dict[str, list[float]] = {name: [] for name in sides}
    whole: list[float] = []
    for search in sides.values():
        search.run(roots[0])
    for turn, root in enumerate(roots):
        answers = set()
        for name in sorted(sides, reverse=turn % 2 == 1):
            begun = perf_counter()
            tree = sides[name].run(root)
            if name == GPU:
                whole.append(perf_counter() - begun)
            times[name].append(tree.elapsed_s)
            answers.add(answer(tree, kernel))
        if len(answers) > 1:
            raise SystemExit(f"{kernel}: the searches from {root} differ")
    median = {name: statistics.median(found) for name, found in times.items()}
    return {
        "times_s": times,
        "gpu_and_copy_s": whole,
        "median_s": median,
        "gpu_and_copy_median_s": statistics.median(whole),
        "gpu_is_faster_by": {n: s / median[GPU] for n, s in median.items() if n != GPU},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", default="bfs,sssp")
    parser.add_argument("--searches", type=int, default=16)
    parser.add_argument("--data", type=Path, default=data_folder(), help="the reference graphs")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    threads = sorted({min(FEW_THREADS, cores()), cores()})
    cpus = {f"CPU, {count} threads": CpuDevice(count) for count in threads}
    for name, file in FILES.items():
        graph = read(options.data / file)
        for kernel in options.kernels.split(","):
            if kernel == "sssp" and not graph.weighted:
                continue
            shard = graph.load(ORDER[kernel])
            figures = compare(shard, kernel, cpus, options.searches)
            rows, _ = rows_of(shard, kernel)
            record = {
                "benchmark": "gpu_roads",
                "kernel": kernel,
                "graph": name,
                "file": file,
                "rows": len(shard.tuples),
                "arcs": len(rows.neighbors),
                "weights": str(rows.weights.dtype) if kernel == "sssp" else None,
                "device": gpu_graphs.device_facts(),
                "source_commit": options.commit,
                **figures,
            }
            append_record(options.records, record)
            took = ", ".join(f"{n} {s * 1e3:.3f} ms" for n, s in figures["median_s"].items())
            ratios = figures["gpu_is_faster_by"].items()
            faster = ", ".join(f"{ratio:.2f} ({n})" for n, ratio in ratios)
            print(f"{name:32} {kernel:4}: {took}; GPU is faster by {faster}", flush=True)
    for cpu in cpus.values():
        cpu.close()


if __name__ == "__main__":
    main()
