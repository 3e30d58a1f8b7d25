"""BFS and SSSP on one CUDA device: Graph500's graphs and search keys, every answer validated.

    python benchmarks/gpu.py [--scales 20,22,24,26] [--kernels bfs,sssp] [--searches 64]
                             [--energy-scales 26] [--records PATH]

Edges are generated and sorted on the device. A search is timed by events on its stream, from before
all initialisation until parents (original ids, in an array by internal id) and levels or distances
stand in device memory: the headline. Beside it stand searches that leave parents as internal ids,
and the headline with the scatter of the answer into the order of original ids. TEPS counts input
tuples between reached vertices, duplicates included and self-loops not; the record also has it by
unique edges. Kernel 1 is from edges in device memory to searchable rows.

Before each timed search all arcs are read, by the validation of the one before or for that purpose,
so that caches hold other things. Times of levels come from further searches that take them, arcs
from further searches that count them. Bytes and look-ups are modelled from these counts
(gpu_model.py) and compared with a copy within device memory and random look-ups, measured in the
same run. Energy is NVML's, over all searches repeated one after another for at least 10 s, at the
scales that are named; MTEPS/W is the harmonic mean TEPS of these over their average power. What
does not fit the device is recorded as such. Appends to records/gpu.jsonl.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import gpu_graphs
from gpu_measures import measured

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.build.rows import DeviceGraph
from ooc_graph.report.records import append_record

RECORDS = Path(__file__).parent / "records" / "gpu.jsonl"
WARM_SCALE = 18
HEADER = (
    "             |         GTEPS, harmonic mean        |     GTEPS of the headline      "
    "|  % of   ceilings |         |   seconds\n"
    "kernel scale | headline unique internal  original  | slowest 1st qu. median 3rd qu. best "
    "|  arcs  copy lookup | MTEPS/W | generate kernel 1"
)
SPREAD = ("minimum", "first_quartile", "median", "third_quartile", "maximum")


def line(record: dict[str, Any]) -> str:
    """The main figures of a record."""
    start = f"{record['kernel']:6} {record['scale']:5} |"
    if record["refused"]:
        return f"{start} does not fit: {record['refused']}"
    kinds = ("teps", "unique_teps", "internal_teps", "original_order_teps")
    means = " ".join(f"{record[kind]['harmonic_mean'] / 1e9:8.1f}" for kind in kinds)
    spread = " ".join(f"{record['teps'][name] / 1e9:7.1f}" for name in SPREAD)
    names = ("arcs_share", "share_of_copy", "share_of_lookup")
    percents = " ".join(f"{record[name] * 100:5.1f}" for name in names)
    watt = (record.get("energy") or {}).get("mteps_per_watt")
    energy = f"{watt:7,.0f}" if watt else f"{'-':>7}"
    return (
        f"{start} {means} | {spread} | {percents} | {energy} | "
        f"{record['generation_s']:.3f} {record['kernel1_s']:.3f}"
    )


def attempt(
    kronecker: Kronecker, kernel: str, searches: int, with_energy: bool
) -> tuple[dict[str, Any], str | None]:
    """Figures of one scale and kernel, as far as it comes, and why no farther."""
    figures: dict[str, Any] = {}
    try:
        made = partial(gpu_graphs.generate, kronecker, kernel == "sssp")
        edges, figures["generation_s"] = gpu_graphs.seconds(made)
        built = partial(gpu_graphs.build, kronecker, edges, kernel)
        graph, figures["kernel1_s"] = gpu_graphs.seconds(built)
        figures["build_peak_bytes"] = cupy.get_default_memory_pool().total_bytes()
        del edges, made, built
        gpu_graphs.free_memory()
        figures |= searched(kronecker, graph, kernel, searches, with_energy)
    except (MemoryError, MemoryBudgetError) as error:
        return figures, str(error).partition("\n")[0]
    return figures, None


def searched(
    kronecker: Kronecker, graph: DeviceGraph, kernel: str, searches: int, with_energy: bool
) -> dict[str, Any]:
    keys = kronecker.search_keys(searches, degree=(graph.internal_of >= 0).get())
    roots = graph.internal_of[cupy.asarray(keys)].get().tolist()
    return {
        "rows": len(graph.original_of),
        "arcs": len(gpu_graphs.rows_of(graph, kernel).neighbors),
        "roots": keys,
        **measured(graph, kernel, roots, with_energy=with_energy),
    }


def warm(kernel: str) -> None:
    """Compile what is compiled when first wanted before anything is timed."""
    small = Kronecker(WARM_SCALE)
    edges = gpu_graphs.generate(small, kernel == "sssp")
    searched(small, gpu_graphs.build(small, edges, kernel), kernel, 1, False)
    gpu_graphs.free_memory()


def scales_of(text: str) -> list[int]:
    return [int(scale) for scale in text.split(",") if scale]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scales", type=scales_of, default="20,22,24,26")
    parser.add_argument("--kernels", default="bfs,sssp")
    parser.add_argument("--searches", type=int, default=64)
    parser.add_argument("--energy-scales", type=scales_of, default="26")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    kernels = options.kernels.split(",")
    for kernel in kernels:
        warm(kernel)
    print(HEADER)
    for scale in options.scales:
        for kernel in kernels:
            kronecker, with_energy = Kronecker(scale), scale in options.energy_scales
            figures, refused = attempt(kronecker, kernel, options.searches, with_energy)
            gpu_graphs.free_memory()
            record = {
                "benchmark": "gpu",
                "kernel": kernel,
                "scale": scale,
                "edge_factor": kronecker.edge_factor,
                "device": gpu_graphs.device_facts(),
                "source_commit": options.commit,
                "refused": refused,
                **figures,
            }
            print(line(append_record(options.records, record)), flush=True)


if __name__ == "__main__":
    main()
