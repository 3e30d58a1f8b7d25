"""Blocked Floyd-Warshall on one CUDA device beside batches of searches: all pairs of one graph.

    python benchmarks/gpu_floyd.py [--vertices 1000 2000 4000 8000] [--densities 1 0.1 0.01]

The graphs are those of floyd_warshall.py. Both begin with rows on the device and leave distances
there as integers of 64 bits; they take turns, and their answers are compared. Beside them stands
how many minima of a sum the matrix takes in a second, and how many the device can, from registers
alone: of int32, and of fp32, which has no instruction for a sum and its minimum.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cupy
import numpy as np
from floyd_warshall import add_graphs, graphs
from harness.device import DeviceProgram, distances, free_memory, timed
from harness.graphs import Arcs
from harness.timing import least, repeated, take_turns

from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows

LONG_S = 0.4
"""What takes longer is not done again."""
WARMED = 2000
"""In smaller graphs the first searches, which load kernels, are not timed."""
PEAK = Path(__file__).with_name("gpu_floyd_peak.cu")
TYPES = {"int32": "int", "fp32": "float"}
"""Whose minima of sums are measured: the closing has the first, others' figures the second."""


def most_minima(value: str) -> float:
    """Minima of sums a second, from registers, of a C type."""
    kernel = cupy.RawKernel(PEAK.read_text(), "least", options=(f"-DVALUE={value}",))
    blocks, loops = 132 * 16, 4096
    out = cupy.empty(blocks * 256, np.int32)
    found = repeated(lambda: kernel((blocks,), (256,), (loops, 3, out)), 4, timed)
    return float(blocks * 256 * loops * 32 / min(one.elapsed_s for one in found))


def sides_of(arcs: Arcs) -> tuple[DeviceRows, DeviceRows]:
    """Rows on the device of arcs in host memory."""
    vertices, *columns = arcs
    u, v, weight = map(cupy.asarray, columns)
    return rows_of(vertices, u, v, weight), rows_of(vertices, v, u, weight)


def rows_of(vertices: int, row: Any, neighbor: Any, weight: Any) -> DeviceRows:
    order = cupy.argsort(row << 32 | weight)
    ends = cupy.zeros(vertices + 1, np.uint64)
    ends[1:] = cupy.cumsum(cupy.bincount(row, minlength=vertices))
    return DeviceRows(ends, neighbor[order].astype(np.uint32), weight[order])


def all_pairs(sides: Any, vertices: int, *, closing: bool) -> tuple[Any, CudaManySearch]:
    search = CudaManySearch(*sides)
    cuda_floyd.SURE_ROWS = vertices if closing else 0
    search.expect(vertices, vertices if closing else 0)
    return distances(search, np.arange(vertices)), search


def measure(vertices: int, sides: Any, repeats: int, most: dict[str, float]) -> dict[str, Any]:
    """Both ways in turn, and the closing alone."""
    all_pairs(sides, vertices, closing=True)
    if vertices <= WARMED:
        all_pairs(sides, vertices, closing=False)
    found: dict[str, Any] = {}

    def check(name: str, done: Any) -> None:
        found[name] = done
        if name == "closed":
            (batches, searched), (closed, search) = found.pop("batches"), found.pop("closed")
            if not bool((batches == closed).all()) or not search.has_matrix:
                raise SystemExit("the answers differ, or a path was too long")
            found["core"], found["needed"] = search.core, len(searched.core.weight)

    calls = {
        "batches": lambda: all_pairs(sides, vertices, closing=False),
        "closed": lambda: all_pairs(sides, vertices, closing=True),
        "closing": lambda: cuda_floyd.close(found["core"]),
    }
    turns = take_turns(calls, repeats, check=check, clock=timed, long_s=LONG_S)
    best, rows = least(turns.times_s), found["core"].rows
    rate = rows**3 / best["closing"]
    return {
        "times_s": turns.times_s,
        "least_s": best,
        "faster_by": best["batches"] / best["closed"],
        "minima_per_s": rate,
        "minima_per_s_from_registers": most,
        "share_of_registers": {name: rate / peak for name, peak in most.items()},
        "needed_share": found["needed"] / rows**2,
    }


def main() -> None:
    program = DeviceProgram("floyd_warshall", __doc__, repeats=3)
    add_graphs(program, [1000, 2000, 4000, 8000], ["random", "metric"])
    options = program.parse()
    most = {name: most_minima(value) for name, value in TYPES.items()}
    # Where large graphs alone are asked for, kernels are loaded by a small one.
    for _, arcs in graphs([WARMED // 4], [1], ["random"]):
        all_pairs(sides_of(arcs), arcs[0], closing=False)
    for parameters, arcs in graphs(options.vertices, options.densities, options.kinds):
        figures = measure(arcs[0], sides_of(arcs), options.repeats, most)
        program.record(parameters, figures, "gpu_floyd_warshall")
        free_memory()


if __name__ == "__main__":
    main()
