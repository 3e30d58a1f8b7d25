"""Blocked Floyd-Warshall on one CUDA device beside batches of searches: all pairs of one graph.

    python benchmarks/gpu_floyd.py [--vertices 1000 2000 4000 8000] [--densities 1 0.1 0.01]

Directed graphs on the device, with integer weights: ``random``, drawn from 1 to 10^6, and
``metric``, distances of random points in a square, of which all pairs or a share have an arc. Both
ways begin with rows on the device and nothing else, and leave all distances there as integers of
64 bits; they take turns, and their answers are compared. Beside them stands how many minima of a
sum the closing of the matrix takes in a second, and how many the device can, from registers alone:
of int32, which the closing has, and of fp32, which has no instruction for a sum and its minimum.

Appends to records/floyd_warshall.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import cupy
import gpu_graphs
import numpy as np

from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows
from ooc_graph.report.records import append_record

RECORDS = Path(__file__).parent / "records" / "floyd_warshall.jsonl"
RANDOM_STATE = 7
HEAVIEST = 10**6
LONG_S = 0.4
"""What takes longer is not done again."""
WARMED = 2000
"""In smaller graphs the first searches, which load kernels, are not timed."""
PEAK = Path(__file__).with_name("gpu_floyd_peak.cu")
TYPES = {"int32": "int", "fp32": "float"}
"""Whose minima of sums are measured: the closing has the first, others' figures the second."""


def timed(work: Any) -> tuple[float, Any]:
    cupy.cuda.Device().synchronize()
    begun = perf_counter()
    done = work()
    cupy.cuda.Device().synchronize()
    return perf_counter() - begun, done


def most_minima(value: str) -> float:
    """Minima of sums a second, from registers, of a C type."""
    kernel = cupy.RawKernel(PEAK.read_text(), "least", options=(f"-DVALUE={value}",))
    blocks, loops = 132 * 16, 4096
    out = cupy.empty(blocks * 256, np.int32)
    found = [timed(lambda: kernel((blocks,), (256,), (loops, 3, out)))[0] for _ in range(5)]
    return float(blocks * 256 * loops * 32 / min(found[1:]))


def rows_of(vertices: int, row: Any, neighbor: Any, weight: Any) -> DeviceRows:
    order = cupy.argsort(row.astype(np.int64) << 32 | weight)
    ends = cupy.zeros(vertices + 1, np.uint64)
    ends[1:] = cupy.cumsum(cupy.bincount(row, minlength=vertices))
    return DeviceRows(ends, neighbor[order].astype(np.uint32), weight[order])


def graphs(options: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Any]]:
    for vertices in options.vertices:
        for density in options.densities:
            for name in options.kinds:
                random = cupy.random.RandomState(RANDOM_STATE)
                if name == "random":
                    weight = random.randint(1, HEAVIEST + 1, (vertices, vertices), dtype=np.int32)
                else:
                    at = random.random_sample((2, vertices))
                    apart = cupy.hypot(*(at[:, :, None] - at[:, None, :]))
                    weight = (apart * HEAVIEST / 2).astype(np.int32) + np.int32(1)
                has_arc = random.random_sample((vertices, vertices)) < density
                cupy.fill_diagonal(has_arc, False)
                u, v = cupy.nonzero(has_arc)
                drawn = weight[u, v].astype(np.int64)
                sides = rows_of(vertices, u, v, drawn), rows_of(vertices, v, u, drawn)
                told = {"vertices": vertices, "kind": name, "density": density, "arcs": len(u)}
                del weight, has_arc, u, v, drawn
                yield told, sides


def all_pairs(sides: Any, vertices: int, *, closing: bool) -> tuple[Any, CudaManySearch]:
    search = CudaManySearch(*sides)
    cuda_floyd.SURE_ROWS = vertices if closing else 0
    search.expect(vertices, vertices if closing else 0)
    return search.run_on_device(np.arange(vertices)), search


def measure(
    told: dict[str, Any], sides: Any, repeats: int, most: dict[str, float]
) -> dict[str, Any]:
    """Both ways in turn, and the closing alone."""
    vertices = told["vertices"]
    times: dict[str, list[float]] = {"batches": [], "closed": [], "closing": []}
    all_pairs(sides, vertices, closing=True)
    if vertices <= WARMED:
        all_pairs(sides, vertices, closing=False)
    for turn in range(repeats):
        if turn and times["batches"][0] > LONG_S:
            break
        elapsed_s, (batches, searched) = timed(lambda: all_pairs(sides, vertices, closing=False))
        times["batches"].append(elapsed_s)
        elapsed_s, (closed, search) = timed(lambda: all_pairs(sides, vertices, closing=True))
        times["closed"].append(elapsed_s)
        if not bool((batches == closed).all()) or not search.is_closed:
            raise SystemExit(f"{told}: the answers differ, or a path was too long")
        core, needed = search.core, len(searched.core.weight)
        del batches, closed, search, searched
        elapsed_s, _ = timed(lambda core=core: cuda_floyd.close(core))
        times["closing"].append(elapsed_s)
    least = {name: min(found) for name, found in times.items()}
    rate = core.rows**3 / least["closing"]
    return {
        "times_s": times,
        "least_s": least,
        "faster_by": least["batches"] / least["closed"],
        "minima_per_s": rate,
        "minima_per_s_from_registers": most,
        "share_of_registers": {name: rate / peak for name, peak in most.items()},
        "needed_share": needed / core.rows**2,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vertices", type=int, nargs="*", default=[1000, 2000, 4000, 8000])
    parser.add_argument("--densities", type=float, nargs="*", default=[1, 0.1, 0.01])
    parser.add_argument("--kinds", nargs="*", default=["random", "metric"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    most = {name: most_minima(value) for name, value in TYPES.items()}
    for name, peak in most.items():
        print(f"{name}: {peak / 1e12:.2f} T minima of sums a second from registers", flush=True)
    # Where large graphs alone are asked for, kernels are loaded by a small one.
    small = argparse.Namespace(vertices=[WARMED // 4], densities=[1], kinds=["random"])
    for told, sides in graphs(small):
        all_pairs(sides, told["vertices"], closing=False)
    for told, sides in graphs(options):
        found = measure(told, sides, options.repeats, most)
        ms = {name: seconds * 1e3 for name, seconds in found["least_s"].items()}
        print(
            f"n {told['vertices']:5d} {told['kind']:6s} {told['density']:5g}: batches "
            f"{ms['batches']:8.2f} ms, Floyd-Warshall {ms['closed']:7.2f} ms "
            f"({found['faster_by']:5.2f} x), closing {ms['closing']:7.2f} ms, "
            f"{found['minima_per_s'] / 1e12:5.2f} T/s, "
            f"{found['share_of_registers']['fp32']:4.0%} of fp32's, "
            f"needed {found['needed_share']:.4f}",
            flush=True,
        )
        append_record(
            options.records,
            {
                "benchmark": "gpu_floyd_warshall",
                "parameters": told,
                "device": gpu_graphs.device_facts(),
                "source_commit": options.commit,
                "figures": found,
            },
        )
        cupy.get_default_memory_pool().free_all_blocks()


if __name__ == "__main__":
    main()
