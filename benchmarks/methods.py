"""Rows against grouped edges: searches of both from the same sources in turn, and their memory.

    python benchmarks/methods.py [--scale 20] [--searches 16] [--threads N] [--data DIR]

On Graph500's graph of the scale and, where the shared data is there, on the road network of New
York. Both methods hold the graph at once; each source is searched by both, the first of them in
turn, and every pair of answers is compared byte for byte. One search of each goes before. Times
are of the search alone; ratio = median time by edges / median time by rows. Bytes: rows as stored
(offsets, neighbours, weights; a search copies heads besides), edges with their table. Appends to
records/methods.jsonl.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness.graphs import ROAD_NY, data_folder
from harness.program import Program, load_average
from harness.timing import alternate, arcs_of, medians, timed

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import id_dtype
from ooc_graph.session.machine import cores
from ooc_graph.session.orders import ORDER_OF
from ooc_graph.shards.edge_list import load_edges
from ooc_graph.types import AnyArray

KERNELS = ("bfs", "sssp")


def compare(
    program: Program, name: str, graph: og.Graph, originals: AnyArray, threads: int
) -> None:
    """Search a graph by both methods from original ids."""
    roots = [int(root) for root in graph.internal_of()[originals] if root >= 0]
    for kernel in KERNELS:
        parameters = {"graph": name, "kernel": kernel, "searches": len(roots), "threads": threads}
        program.record(parameters, figures_of(graph, kernel, roots, threads))


def figures_of(graph: og.Graph, kernel: str, roots: list[int], threads: int) -> dict[str, Any]:
    device = CpuDevice(threads)
    rows_load_s, _, rows = timed(lambda: getattr(device, kernel)(graph.load(ORDER_OF[kernel])))
    edges_load_s, _, edges = timed(lambda: load_edges(graph, weighted=kernel == "sssp"))
    by_edges = getattr(device, f"edges_{kernel}")(edges, id_dtype(graph.rows))
    searches = {"rows": rows, "edges": by_edges}
    read: dict[str, list[int]] = {method: [] for method in searches}
    times = alternate(searches, roots, lambda name, tree, _: read[name].append(arcs_of(tree)))
    device.close()
    median = medians(times)
    return {
        "times_s": times,
        "median_s": median,
        "ratio": median["edges"] / median["rows"],
        "read": read,
        "edges": len(edges.ends),
        "rows_bytes": graph.resident_bytes(ORDER_OF[kernel]),
        "edges_bytes": edges.edge_bytes + edges.table_bytes,
        "edges_table_bytes": edges.table_bytes,
        "load_s": {"rows": rows_load_s, "edges": edges_load_s},
        "passes": getattr(by_edges, "passes", None),
        **load_average(),
    }


def main() -> None:
    program = Program(
        "methods", __doc__, scale=20, searches=16, threads=cores(), data=data_folder()
    )
    options = program.parse()
    with program.scratch() as scratch:
        source = og.Kronecker(options.scale)
        graph = og.build(source, scratch / "kronecker.zarr")
        keys = source.search_keys(options.searches)
        compare(program, f"kronecker-{options.scale}", graph, keys, options.threads)
        if not (options.data / ROAD_NY).exists():
            print(f"no road network: {ROAD_NY} is not in the shared data (--data)")
            return
        road = og.build(options.data / ROAD_NY, scratch / "road.zarr")
        chosen = np.random.default_rng(1).choice(road.vertices, options.searches, replace=False)
        compare(program, "road-NY", road, chosen, options.threads)


if __name__ == "__main__":
    main()
