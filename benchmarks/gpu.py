"""BFS and SSSP on one CUDA device: Graph500's graphs and search keys, every answer validated.

    python benchmarks/gpu.py [--scales 20,22,24,26] [--kernels bfs,sssp] [--searches 64]
                             [--energy-scales 26] [--records PATH]

Edges are generated and sorted on the device. A search is timed by events on its stream, from before
all initialisation until parents (original ids, in an array by internal id) and levels or distances
stand in device memory: the headline. Beside it stand searches that leave parents as internal ids,
and both with the answer brought into the order of original ids, where internal ids get their names
(`original_order_teps` and `named_order_teps`). TEPS counts input tuples between reached vertices,
duplicates included and self-loops not; the record also has it by unique edges. Kernel 1 is from
edges in device memory to searchable rows.

Before each timed search all arcs are read, so that caches hold other things. Times of levels, and
counts of arcs, come from further searches. Bytes and look-ups are modelled from these counts
(gpu_model.py) and compared with a copy within device memory and random look-ups, measured in the
same run. Energy is NVML's, over all searches repeated for at least 10 s; MTEPS/W is the harmonic
mean TEPS of these over their average power. What does not fit the device is recorded as such.
"""

from functools import partial
from typing import Any

import cupy
from gpu_measures import measured
from harness import device
from harness.device import DeviceGraph, DeviceProgram, free_memory, timed
from harness.program import KERNELS, scales_of

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import MemoryBudgetError

WARM_SCALE = 18


def attempt(kronecker: Kronecker, kernel: str, searches: int, with_energy: bool) -> dict[str, Any]:
    """Figures of one scale and kernel, as far as it comes, and why no farther."""
    figures: dict[str, Any] = {"refused": None}
    try:
        made = timed(lambda: list(device.edge_blocks(kronecker, kernel == "sssp")))
        figures["generation_s"] = made.elapsed_s
        edges = partial(iter, made.result)
        built = timed(partial(device.build, kronecker.vertices, edges, kernel))
        figures["kernel1_s"] = built.elapsed_s
        figures["build_peak_bytes"] = cupy.get_default_memory_pool().total_bytes()
        del made, edges
        free_memory()
        figures |= searched(kronecker, built.result, kernel, searches, with_energy)
    except (MemoryError, MemoryBudgetError) as error:
        figures["refused"] = str(error).partition("\n")[0]
    return figures


def searched(
    kronecker: Kronecker, graph: DeviceGraph, kernel: str, searches: int, with_energy: bool
) -> dict[str, Any]:
    keys, roots = device.search_roots(kronecker, graph.internal_of, searches)
    return {
        "rows": len(graph.original_of),
        "arcs": len(graph.rows.neighbors),
        "roots": keys,
        **measured(graph, kernel, roots, with_energy=with_energy),
    }


def warm(kernel: str) -> None:
    """Compile what is compiled when first wanted before anything is timed."""
    small = Kronecker(WARM_SCALE)
    searched(small, device.build_kronecker(small, kernel), kernel, 1, False)
    free_memory()


def main() -> None:
    program = DeviceProgram("gpu", __doc__, scales="20,22,24,26", kernels=KERNELS, searches=64)
    program.add("--energy-scales", type=scales_of, default="26")
    options = program.parse()
    for kernel in options.kernels:
        warm(kernel)
    for scale in options.scales:
        for kernel in options.kernels:
            kronecker, with_energy = Kronecker(scale), scale in options.energy_scales
            figures = attempt(kronecker, kernel, options.searches, with_energy)
            free_memory()
            parameters = {"kernel": kernel, "scale": scale, "edge_factor": kronecker.edge_factor}
            program.flat_record(parameters, figures)


if __name__ == "__main__":
    main()
