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

import argparse
import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import id_dtype
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.shards.edge_list import load_edges
from ooc_graph.types import AnyArray

RECORDS = Path(__file__).parent / "records" / "methods.jsonl"
ROAD = Path("data/dimacs9-road/USA-road-d.NY.gr.gz")
ORDER_OF = {"bfs": "hub", "sssp": "light"}


def shared_folder() -> Path:
    named = os.environ.get("OOC_GRAPH_SHARED")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared"


def answer(tree: Any) -> tuple[bytes, bytes]:
    measure = tree.level if hasattr(tree, "level") else tree.distance
    return tree.parent.tobytes(), measure.tobytes()


def read_arcs(tree: Any) -> int:
    """Arcs examined by rows, edges read by edges."""
    if hasattr(tree, "level_arcs"):
        return int(tree.level_arcs.sum())
    return sum(tree.phase_arcs.values())


def in_turn(searches: dict[str, Any], roots: list[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Seconds and arcs read of each method for each root; the answers must be the same."""
    times: dict[str, list[float]] = {method: [] for method in searches}
    read: dict[str, list[int]] = {method: [] for method in searches}
    names = list(searches)
    for search in searches.values():
        search.run(roots[0])
    for number, root in enumerate(roots):
        answers = []
        for method in names if number % 2 == 0 else names[::-1]:
            tree = searches[method].run(root)
            times[method].append(tree.elapsed_s)
            read[method].append(read_arcs(tree))
            answers.append(answer(tree))
        if answers[0] != answers[1]:
            raise SystemExit(f"the methods differ from internal id {root}")
    return times, read


def compare(name: str, graph: og.Graph, kernel: str, roots: list[int], threads: int) -> None:
    device, weighted = CpuDevice(threads), kernel == "sssp"
    begun = perf_counter()
    rows = getattr(device, kernel)(graph.load(ORDER_OF[kernel]))
    rows_load_s = perf_counter() - begun
    begun = perf_counter()
    edges = load_edges(graph, weighted=weighted)
    edges_load_s = perf_counter() - begun
    by_edges = getattr(device, f"edges_{kernel}")(edges, id_dtype(graph.rows))
    times, read = in_turn({"rows": rows, "edges": by_edges}, roots)
    device.close()
    medians = {method: float(np.median(values)) for method, values in times.items()}
    figures = {
        "times_s": times,
        "median_s": medians,
        "ratio": medians["edges"] / medians["rows"],
        "read": read,
        "edges": len(edges.ends),
        "rows_bytes": graph.resident_bytes(ORDER_OF[kernel]),
        "edges_bytes": edges.edge_bytes + edges.table_bytes,
        "edges_table_bytes": edges.table_bytes,
        "load_s": {"rows": rows_load_s, "edges": edges_load_s},
        "passes": getattr(by_edges, "passes", None),
        "load_average": os.getloadavg()[0],
    }
    print(
        f"{name} {kernel:4}: rows {medians['rows'] * 1e3:8.2f} ms "
        f"{figures['rows_bytes'] / 2**20:8.1f} MiB, edges {medians['edges'] * 1e3:8.2f} ms "
        f"{figures['edges_bytes'] / 2**20:8.1f} MiB, ratio {figures['ratio']:.2f}, "
        f"{np.mean(read['edges']) / max(1, len(edges.ends)):.2f} times every edge"
    )
    parameters = {"graph": name, "kernel": kernel, "searches": len(roots), "threads": threads}
    append_record(RECORDS, {"benchmark": "methods", "parameters": parameters, "figures": figures})


def roots_of(graph: og.Graph, originals: AnyArray) -> list[int]:
    return [int(root) for root in graph.internal_of()[originals] if root >= 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--searches", type=int, default=16)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--data", type=Path, default=shared_folder())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="method-benchmark-") as scratch:
        source = og.Kronecker(options.scale)
        graph = og.build(source, Path(scratch) / "kronecker.zarr")
        roots = roots_of(graph, source.search_keys(options.searches))
        for kernel in ("bfs", "sssp"):
            compare(f"kronecker-{options.scale}", graph, kernel, roots, options.threads)
        if not (options.data / ROAD).exists():
            print(f"no road network: {ROAD} is not in the shared data (--data)")
            return
        road = og.build(options.data / ROAD, Path(scratch) / "road.zarr")
        chosen = np.random.default_rng(1).choice(road.vertices, options.searches, replace=False)
        roots = roots_of(road, chosen)
        for kernel in ("bfs", "sssp"):
            compare("road-NY", road, kernel, roots, options.threads)


if __name__ == "__main__":
    main()
