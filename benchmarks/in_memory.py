"""Edges in memory to a searchable graph in memory: ours, SciPy and networkit on the same arrays.

    python benchmarks/in_memory.py [--scale 22] [--repeats 3] [--unweighted] [--no-peers]

Ours makes both directions of the Kronecker tuples, without duplicates and self-loops, renumbered,
in both row orders (hub order alone without weights). SciPy makes a CSR array of both directions,
adding duplicates up; networkit's `GraphFromCoo` keeps them. All get int64 ids, float32 weights
(networkit float64) and the number of vertices, and take turns; compiling is not in the times.
"""

from __future__ import annotations

import importlib.util
import resource
import statistics
from functools import partial
from typing import Any

import numpy as np
from harness.program import Program, load_average
from harness.timing import take_turns, timed

import ooc_graph as og
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray

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


def columns_of(edges: og.Kronecker) -> Columns:
    u, v, w = edges.block(0, edges.edges)
    return u, v, w if edges.weighted else None


def main() -> None:
    program = Program("in_memory", __doc__, scale=22, repeats=3)
    program.add("--unweighted", action="store_true")
    program.add("--no-peers", action="store_true")
    options = program.parse()
    peers = {} if options.no_peers else {"scipy": scipy, "networkit": networkit}
    installed = {name: peer for name, peer in peers.items() if importlib.util.find_spec(name)}
    libraries = {"ooc-graph": ours, **installed}
    small = og.Kronecker(10, weighted=not options.unweighted)
    edges = og.Kronecker(options.scale, weighted=not options.unweighted)
    columns = columns_of(edges)
    for library in libraries.values():
        library(columns_of(small), small.vertices)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = timed(lambda: ours(columns, edges.vertices))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    first_in_process = {"elapsed_s": first.elapsed_s, "cpu_s": first.cpu_s, **load_average()}
    del first
    calls = {name: partial(one, columns, edges.vertices) for name, one in libraries.items()}
    loads: dict[str, list[dict[str, float]]] = {name: [] for name in calls}
    turns = take_turns(
        calls, options.repeats, check=lambda name, _: loads[name].append(load_average())
    )
    figures: dict[str, dict[str, Any]] = {}
    for name, busy in loads.items():
        wall_s, cpu_s = turns.times_s[name], turns.cpu_s[name]
        taken = zip(wall_s, cpu_s, busy, strict=True)
        figures[name] = {
            "median_edges_per_s": edges.edges / statistics.median(wall_s),
            "median_edges_per_cpu_s": edges.edges / statistics.median(cpu_s),
            "runs": [{"elapsed_s": wall, "cpu_s": cpu, **load} for wall, cpu, load in taken],
        }
    figures["ooc-graph"] |= {"first_in_process": first_in_process, "peak_rise_bytes": peak}
    parameters = program.given("scale") | {"edge_factor": 16, "weighted": edges.weighted}
    program.record(parameters | {"threads": cores()}, figures)


if __name__ == "__main__":
    main()
