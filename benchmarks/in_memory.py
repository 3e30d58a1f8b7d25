"""Edges in memory to a searchable graph in memory: ours, SciPy and networkit on the same arrays.

    python benchmarks/in_memory.py [--scale 22] [--repeats 3] [--unweighted] [--no-peers]

Ours makes both directions of the Kronecker tuples, without duplicates and self-loops, renumbered,
in both row orders (hub order alone without weights). The others are made as peers.py makes them:
SciPy's CSR array of both directions adds duplicates up, networkit's graph keeps them. All get int64
ids, float32 weights and the number of vertices, and take turns; compiling is not in the times.
"""

import resource
import statistics
from functools import partial
from typing import Any

from harness.program import Program, load_average
from harness.timing import take_turns, timed
from peers_adapters import Networkit, Peer, Scipy
from peers_graphs import Edges

import ooc_graph as og
from ooc_graph.threads import cores

OURS = "ooc-graph"


def ours(edges: Edges) -> object:
    return og.from_edges(edges.u, edges.v, edges.w, vertices=edges.vertices)


def others(kind: type[Peer], edges: Edges) -> object:
    library = kind()
    library.make(edges)
    return library


def edges_of(scale: int, *, weighted: bool) -> Edges:
    source = og.Kronecker(scale)
    u, v, w = source.block(0, source.edges)
    return Edges(source.vertices, False, u, v, w if weighted else None)


def main() -> None:
    program = Program("in_memory", __doc__, scale=22, repeats=3)
    program.add("--unweighted", action="store_true")
    program.add("--no-peers", action="store_true")
    options = program.parse()
    kinds = [] if options.no_peers else [kind for kind in (Scipy, Networkit) if kind.installed()]
    libraries = {OURS: ours, **{kind.name: partial(others, kind) for kind in kinds}}
    weighted = not options.unweighted
    small, edges = edges_of(10, weighted=weighted), edges_of(options.scale, weighted=weighted)
    for library in libraries.values():
        library(small)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = timed(lambda: ours(edges))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    first_in_process = {"elapsed_s": first.elapsed_s, "cpu_s": first.cpu_s, **load_average()}
    del first
    calls = {name: partial(one, edges) for name, one in libraries.items()}
    loads: dict[str, list[dict[str, float]]] = {name: [] for name in calls}
    turns = take_turns(
        calls, options.repeats, check=lambda name, _: loads[name].append(load_average())
    )
    figures: dict[str, dict[str, Any]] = {}
    for name, busy in loads.items():
        wall_s, cpu_s = turns.times_s[name], turns.cpu_s[name]
        taken = zip(wall_s, cpu_s, busy, strict=True)
        figures[name] = {
            "median_edges_per_s": len(edges.u) / statistics.median(wall_s),
            "median_edges_per_cpu_s": len(edges.u) / statistics.median(cpu_s),
            "runs": [{"elapsed_s": wall, "cpu_s": cpu, **load} for wall, cpu, load in taken],
        }
    figures[OURS] |= {"first_in_process": first_in_process, "peak_rise_bytes": peak}
    parameters = program.given("scale") | {"edge_factor": 16, "weighted": weighted}
    program.record(parameters | {"threads": cores()}, figures)


if __name__ == "__main__":
    main()
