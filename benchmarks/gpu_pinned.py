"""SSSP by near-far with rows in pinned host memory, beside rows on the device, and the CPU.

    python benchmarks/gpu_pinned.py [--scale 22] [--side 3000] [--searches 8] [--threads N]

A Kronecker graph with weights of each type that stores have, and a grid with integers. All sides
have the same rows and take the roots in turn; the answers are compared byte for byte. Times are of
the searches alone, until parents and distances stand in the device's memory, or in the host's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from harness.device import DeviceProgram
from harness.graphs import grid_ends, kronecker_ends, light_shard, random_roots
from harness.timing import alternate, medians

from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.pinned.near_far import CudaTierNearSearch
from ooc_graph.kernels.cuda.runtime.pinned import PinnedAllocator
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.threads import cores
from ooc_graph.types import Rows, Shard

RANDOM_STATE = 5
HEAVIEST = 1000
PINNED, RESIDENT, CPU = "pinned", "resident", "CPU"


def cases(scale: int, side: int) -> Iterator[tuple[str, Shard]]:
    """Graphs with weights: name, light-first rows."""
    random = np.random.default_rng(RANDOM_STATE)
    u, v, vertices = kronecker_ends(scale, 16)
    for name in ("int32", "int64", "float64"):
        weight = random.integers(1, HEAVIEST + 1, len(u)).astype(name)
        if name == "int64":
            weight <<= 32  # stores hold what fits in 32 bits so
        if name == "float64":
            weight = random.random(len(u))
        yield f"Kronecker {scale}, {name}", light_shard(u, v, weight, vertices=vertices)
    u, v, vertices = grid_ends(side)
    weight = random.integers(1, HEAVIEST + 1, len(u)).astype(np.int32)
    yield f"grid of {side} x {side}, int32", light_shard(u, v, weight, vertices=vertices)


def pinned(rows: Rows, threads: int) -> Rows:
    """The same rows, neighbours and weights in pinned memory as the device sees them."""
    room, columns = PinnedAllocator(threads), (rows.neighbors, rows.weights)
    held = [room(len(column), column.dtype) for column in columns]
    for there, here in zip(held, columns, strict=True):
        there[:] = here
    return room.on_device(replace(rows, neighbors=held[0], weights=held[1]))


def compare(shard: Shard, searches: int, cpu: CpuDevice, threads: int) -> dict[str, Any]:
    rows = shard.out_light
    there = pinned(rows, threads)
    sides: dict[str, Any] = {
        PINNED: CudaTierNearSearch(there, there, shard.tuples),
        RESIDENT: CudaSsspSearch(rows, rows, shard.tuples),
        CPU: cpu.sssp(shard),
    }
    times = alternate(sides, random_roots(len(shard.tuples), searches, RANDOM_STATE))
    median = medians(times)
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
    program = DeviceProgram("gpu_pinned", __doc__, scale=22, searches=8, threads=cores())
    program.add("--side", type=int, default=3000)
    options = program.parse()
    cpu = CpuDevice(options.threads)
    for name, shard in cases(options.scale, options.side):
        figures = compare(shard, options.searches, cpu, options.threads)
        program.record({"graph": name, **program.given("searches", "threads")}, figures)
    cpu.close()


if __name__ == "__main__":
    main()
