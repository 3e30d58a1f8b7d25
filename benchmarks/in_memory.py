"""Edges in memory to a searchable graph in memory: ours, SciPy and networkit on the same arrays.

    python benchmarks/in_memory.py [--scale 22] [--repeats 3] [--unweighted] [--no-peers]

Ours takes the Kronecker tuples as they are generated and makes both directions, without duplicates
and self-loops, renumbered, in both row orders (hub order alone without weights). SciPy makes a CSR
array of both directions, adding duplicates up; networkit's `GraphFromCoo` keeps them. All get
int64 ids, float32 weights (networkit float64) and the number of vertices; nobody is asked for more
than that. Libraries take turns; compiling and generating is not in the times. Appends to
records/in_memory.jsonl.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.report.records import append_record
from ooc_graph.types import AnyArray

RECORDS = Path(__file__).parent / "records" / "in_memory.jsonl"
Columns = tuple[AnyArray, AnyArray, AnyArray | None]


def ours(columns: Columns, vertices: int) -> object:
    return og.from_edges(*columns, vertices=vertices)


def scipy(columns: Columns, vertices: int) -> object:
    from scipy.sparse import coo_array  # noqa: PLC0415

    u, v, w = columns
    values = np.ones(len(u), np.float32) if w is None else w
    ends = np.concatenate([u, v]), np.concatenate([v, u])
    matrix = coo_array((np.concatenate([values, values]), ends), shape=(vertices, vertices)).tocsr()
    matrix.sum_duplicates()
    return matrix


def networkit(columns: Columns, vertices: int) -> object:
    from networkit import GraphFromCoo  # noqa: PLC0415

    u, v, w = columns
    given: Any = (u, v) if w is None else (w.astype(np.float64), (u, v))
    return GraphFromCoo(given, n=vertices, weighted=w is not None, directed=False)


def one(library: Callable[[Columns, int], object], columns: Columns, vertices: int) -> Any:
    begun, used = perf_counter(), process_time()
    built = library(columns, vertices)
    elapsed = perf_counter() - begun
    del built
    return {
        "elapsed_s": elapsed,
        "cpu_s": process_time() - used,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--unweighted", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    peers = {} if options.no_peers else {"scipy": scipy, "networkit": networkit}
    installed = {name: peer for name, peer in peers.items() if importlib.util.find_spec(name)}
    libraries = {"ooc-graph": ours, **installed}
    small = og.Kronecker(10, weighted=not options.unweighted)
    edges = og.Kronecker(options.scale, weighted=not options.unweighted)
    columns = columns_of(edges)
    for library in libraries.values():
        one(library, columns_of(small), small.vertices)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    first = one(ours, columns, edges.vertices)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    runs: dict[str, list[Any]] = {name: [] for name in libraries}
    for _ in range(options.repeats):
        for name, library in libraries.items():
            runs[name].append(one(library, columns, edges.vertices))
    figures = {name: figures_of(found, edges.edges) for name, found in runs.items()}
    figures["ooc-graph"] |= {"first_in_process": first, "peak_rise_bytes": peak}
    for name, row in figures.items():
        print(
            f"scale {options.scale} {name:10} {row['median_edges_per_s'] / 1e6:6.2f} M edges/s, "
            f"{row['median_edges_per_cpu_s'] / 1e6:6.2f} M edges a CPU second"
        )
    parameters = {
        "scale": options.scale,
        "edge_factor": 16,
        "weighted": edges.weighted,
        "threads": len(os.sched_getaffinity(0)),
    }
    append_record(
        options.records, {"benchmark": "in_memory", "parameters": parameters, "figures": figures}
    )


def columns_of(edges: og.Kronecker) -> Columns:
    u, v, w = edges.block(0, edges.edges)
    return u, v, w if edges.weighted else None


def figures_of(runs: list[Any], edges: int) -> dict[str, Any]:
    return {
        "median_edges_per_s": statistics.median(edges / run["elapsed_s"] for run in runs),
        "median_edges_per_cpu_s": statistics.median(edges / run["cpu_s"] for run in runs),
        "runs": runs,
    }


if __name__ == "__main__":
    main()
