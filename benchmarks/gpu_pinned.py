"""SSSP by near-far with rows in pinned host memory, beside rows on the device, and the CPU.

    python benchmarks/gpu_pinned.py [--scale 22] [--side 3000] [--searches 8] [--threads N]

A Kronecker graph with weights of each type that stores have, and a grid with integers. All sides
hold the same rows and take the roots in turn; the answers are compared byte for byte. Times are of
the searches alone: on the device by events, until parents and distances stand in its memory; on the
CPU until they stand in host memory. Medians are printed, with the device memory that the plan says.
Appends to records/gpu_pinned.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_graphs
import near_far
import numpy as np

from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.pinned.near_far import CudaTierNearSearch
from ooc_graph.kernels.cuda.runtime.pinned import PinnedRoom
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.types import Rows, Shard

RECORDS = Path(__file__).parent / "records" / "gpu_pinned.jsonl"
RANDOM_STATE = 5
HEAVIEST = 1000
SIDES = PINNED, RESIDENT, CPU = "pinned", "resident", "CPU"


def cases(scale: int, side: int) -> Iterator[tuple[str, Shard]]:
    """Graphs with weights: name, light-first rows."""
    random = np.random.default_rng(RANDOM_STATE)
    u, v, vertices = near_far.kronecker(scale, 16)
    for name in ("int32", "int64", "float64"):
        weight = random.integers(1, HEAVIEST + 1, len(u)).astype(name)
        if name == "int64":
            weight <<= 32  # stores hold what fits in 32 bits so
        if name == "float64":
            weight = random.random(len(u))
        yield f"Kronecker {scale}, {name}", near_far.shard_of(u, v, weight, vertices)
    u, v, vertices = near_far.grid(side)
    weight = random.integers(1, HEAVIEST + 1, len(u)).astype(np.int32)
    yield f"grid of {side} x {side}, int32", near_far.shard_of(u, v, weight, vertices)


def pinned(rows: Rows, threads: int) -> Rows:
    """The same rows, neighbours and weights in pinned memory as the device sees them."""
    room = PinnedRoom(threads)
    weights = rows.weights
    assert weights is not None
    held = [room(len(column), column.dtype) for column in (rows.neighbors, weights)]
    for there, here in zip(held, (rows.neighbors, weights), strict=True):
        there[:] = here
    return room.on_device(replace(rows, neighbors=held[0], weights=held[1]))


def compare(shard: Shard, searches: int, cpu: CpuDevice, threads: int) -> dict[str, Any]:
    """Times of all sides from the same roots."""
    rows = shard.out_light
    assert rows is not None
    there = pinned(rows, threads)
    sides: dict[str, Any] = {
        PINNED: CudaTierNearSearch(there, there, shard.tuples),
        RESIDENT: CudaSsspSearch(rows, rows, shard.tuples),
        CPU: cpu.sssp(shard),
    }
    roots = np.random.default_rng(RANDOM_STATE).integers(0, len(shard.tuples), searches).tolist()
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    for search in sides.values():
        search.run(roots[0])
    for root in roots:
        answers = set()
        for name, search in sides.items():
            tree = search.run(root)
            times[name].append(tree.elapsed_s)
            answers.add((tree.distance.tobytes(), tree.parent.tobytes()))
        if len(answers) > 1:
            raise SystemExit(f"the searches from {root} differ")
    median = {name: statistics.median(found) for name, found in times.items()}
    assert rows.weights is not None
    return {
        "rows": len(shard.tuples),
        "arcs": len(rows.neighbors),
        "weights": str(rows.weights.dtype),
        "pinned_bytes": rows.neighbors.nbytes + rows.weights.nbytes,
        "times_s": times,
        "median_s": median,
        "pinned_over_cpu": median[CPU] / median[PINNED],
        "resident_over_pinned": median[PINNED] / median[RESIDENT],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--side", type=int, default=3000)
    parser.add_argument("--searches", type=int, default=8)
    parser.add_argument("--threads", type=int, default=cores(), help="of the CPU [all cores]")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    cpu = CpuDevice(options.threads)
    for name, shard in cases(options.scale, options.side):
        figures = compare(shard, options.searches, cpu, options.threads)
        parameters = {"graph": name, "searches": options.searches, "threads": options.threads}
        record = {
            "benchmark": "gpu_pinned",
            "parameters": parameters,
            "device": gpu_graphs.device_facts(),
            "figures": figures,
        }
        if options.commit:
            record["source_commit"] = options.commit
        append_record(options.records, record)
        print(name)
        for key in ("median_s", "pinned_over_cpu", "resident_over_pinned"):
            print(f"  {key}: {figures[key]}")
    cpu.close()


if __name__ == "__main__":
    main()
