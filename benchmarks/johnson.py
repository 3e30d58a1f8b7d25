"""Many sources at once: all pairs beside SciPy and networkit, a batch beside single searches.

    python benchmarks/johnson.py random [--vertices 8000] [--sources N] [--negative]
    python benchmarks/johnson.py kronecker [--scale 16] [--sources 1024]
    python benchmarks/johnson.py bfs [--scale 16] [--sources 1024]
    python benchmarks/johnson.py stored [--scale 16 | --vertices N [--negative]] [--shares ...]
    python benchmarks/johnson.py public [--scale 16 | --vertices N [--negative]] [--folder DIR]

``random``: directed, 16 arcs a vertex with ends and weights drawn at random, float64, all pairs or
the first ``--sources``. With ``--negative`` potentials make many weights negative; networkit's
APSP, which wants weights >= 0 and all sources, is left out then. Everybody is given its own form of
the graph, without the time that this takes, and writes all distances to memory of its own; as much
has been written to and freed just before, since memory that a virtual machine never touched costs
more than the search. Ours includes Bellman-Ford, reweighting, and dropping arcs; beside it stands
`ooc_graph.johnson`, which also brings answers into the order of ids. Processor time, of all
threads, tells more where the machine is busy otherwise. ``kronecker``: float32, our single searches
one after another, each on all threads, from the same sources. ``bfs``: the same graph without
weights; levels from all sources written to memory, and only counted (eccentricity, sum, how many),
beside our single BFS one after another, levels kept.

``stored``: the Kronecker graph, or with ``--vertices`` the random one, in a store, its page cache
warm, with memory for its vertices, the lanes of a batch, and a share of the bytes of the arcs that
the method looks at; beside the search in memory. Bytes are those read of the store, beside those of
plain passes over all out-arcs: as many as rows go on to improve in, for each batch, or source.
``public``: the same graphs through `ooc_graph.johnson` (`johnson_stored`).

Ours and the other take turns; answers are compared, single searches bit for bit, counts with sums
of levels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import johnson_stored
import numpy as np
from harness.graphs import (
    RANDOM_STATE,
    Arcs,
    both_sides,
    kronecker_in_memory,
    random_arcs,
    some_rows,
)
from harness.program import Program, load_average
from harness.timing import Turns, measure_of, medians, take_turns
from johnson_stored import OURS, stored_graph

import ooc_graph as og
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray


def ours(arcs: Arcs, sources: int, threads: int) -> Callable[[], Any]:
    sides, team = both_sides(arcs), Team(threads)
    return lambda: CpuJohnson(*sides, team).run(np.arange(sources))


def scipy(arcs: Arcs, sources: int, threads: int) -> Callable[[], Any]:  # noqa: ARG001
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import johnson  # noqa: PLC0415

    vertices, u, v, weight = arcs
    matrix = csr_array((weight, (u, v)), shape=(vertices, vertices))
    return lambda: johnson(matrix, indices=np.arange(sources))


def networkit(arcs: Arcs, sources: int, threads: int) -> Callable[[], Any]:  # noqa: ARG001
    import networkit  # noqa: PLC0415

    vertices, u, v, weight = arcs
    networkit.setNumberOfThreads(threads)
    graph = networkit.GraphFromCoo((weight, (u, v)), n=vertices, weighted=True, directed=True)

    def run() -> Any:
        searches = networkit.distance.APSP(graph)
        searches.run()
        return searches

    return run


def graph_of(arcs: Arcs) -> Any:
    """A graph that is built in memory; once, as calls keep what they loaded of the last one."""
    vertices, u, v, weight = arcs
    return og.from_edges(u, v, weight, directed=True, vertices=vertices)


def as_called(graph: Any, sources: int, **options: Any) -> Callable[[], Any]:
    """As users call it, with all cores."""
    return lambda: og.johnson(graph, np.arange(sources), **options).distance


PEERS = {"scipy": scipy, "networkit": networkit}


def all_pairs(program: Program, options: argparse.Namespace) -> None:
    options.vertices = options.vertices or 8000
    arcs = random_arcs(options.vertices, negative=options.negative)
    sources = min(options.sources or options.vertices, options.vertices)
    calls = {OURS: ours(arcs, sources, options.threads)}
    if options.threads == cores():
        calls["og.johnson"] = as_called(graph_of(arcs), sources, device="cpu")
    for name in options.peers:
        if name != "networkit" or (sources == options.vertices and not options.negative):
            calls[name] = PEERS[name](arcs, sources, options.threads)
    ours(random_arcs(300, negative=True), 300, options.threads)()
    mine: Any = None
    apart = 0.0

    def check(name: str, answer: Any) -> None:
        nonlocal mine, apart
        mine = answer if name == OURS else mine
        apart = max(apart, farthest(mine, answer))

    def touch(_: str) -> None:
        np.ones((sources, options.vertices))

    turns = take_turns(calls, options.repeats, before=touch, check=check)
    vertices, u, _, weight = arcs
    negative = int((weight < 0).sum())
    parameters = {"vertices": vertices, "arcs": len(u), "negative_arcs": negative}
    parameters["sources"] = sources
    record(program, "all_pairs", parameters, figures_of(turns) | {"largest_difference": apart})


def farthest(mine: AnyArray, theirs: Any) -> float:
    """Largest difference of two answers; networkit says the largest double if there is no path."""
    if not isinstance(theirs, np.ndarray):
        theirs = theirs.getDistances(asarray=True)
    reached = np.isfinite(mine)
    if not np.array_equal(reached, theirs < np.finfo(theirs.dtype).max):
        raise SystemExit("the answers differ in who reaches whom")
    return float(np.abs(np.subtract(mine, theirs, where=reached, out=np.zeros_like(mine))).max())


def beside_single(program: Program, options: argparse.Namespace) -> None:
    kernel, dtype = SINGLE[options.graph]
    shard = kronecker_in_memory(options.scale).load(ORDER_OF[kernel])
    sources, team = some_rows(len(shard.tuples), options.sources or 1024), Team(options.threads)
    rows = getattr(shard, f"out_{ORDER_OF[kernel]}")
    single = getattr(CpuDevice(options.threads), kernel)(shard)
    matrix, loop = np.ones((2, len(sources), len(shard.tuples)), dtype)

    def singly() -> AnyArray:
        for row, source in zip(loop, sources.tolist(), strict=True):
            row[:] = measure_of(single.run(source))
        return loop

    answers: dict[str, AnyArray] = {}
    calls: dict[str, Callable[[], Any]] = {"single": singly}
    if kernel == "bfs":
        search = CpuManyBfs(rows, rows, team)
        calls[OURS] = lambda: search.run(sources, matrix)
        calls["counted"] = lambda: search.tally(sources)
    else:
        calls[OURS] = lambda: CpuJohnson(rows, rows, team).run(sources, matrix)
    single.run(int(sources[0]))
    calls[OURS]()
    turns = take_turns(calls, options.repeats, check=answers.__setitem__)
    reached = loop >= 0
    if not np.array_equal(np.where(reached, matrix, -1), loop):
        raise SystemExit("the answers differ")
    if kernel == "bfs":
        sums = np.where(reached, loop, 0).sum(axis=1, dtype=np.int64)
        if not np.array_equal(answers["counted"][:, :2].T, [reached.sum(axis=1), sums]):
            raise SystemExit("the counts differ")
    parameters = {"vertices": len(shard.tuples), "arcs": len(rows.neighbors)}
    parameters |= {"scale": options.scale, "sources": len(sources)}
    name = "single_bfs" if kernel == "bfs" else "single_searches"
    record(program, name, parameters, figures_of(turns))


def within_memory(program: Program, options: argparse.Namespace) -> None:
    with program.scratch() as folder:
        for parameters, turns, more in johnson_stored.within_shares(options, folder):
            record(program, "stored", parameters, figures_of(turns) | more)


def public(program: Program, options: argparse.Namespace) -> None:
    with program.scratch() as folder:
        graph = stored_graph(options, folder / "g.zarr", negative=options.negative)
        search = CpuDevice(options.threads).apsp(graph.load("light", signed=True))
        measured = johnson_stored.measure(graph, search.run, options, device="cpu", room=np.ones)
    record(program, "public", *measured)


def figures_of(turns: Turns) -> dict[str, Any]:
    median = medians(turns.times_s)
    return {
        "times_s": turns.times_s,
        "processor_s": turns.cpu_s,
        "median_s": median,
        "median_processor_s": medians(turns.cpu_s),
        "ours_is_faster_by": {n: m / median[OURS] for n, m in median.items() if n != OURS},
    }


def record(
    program: Program, name: str, parameters: dict[str, Any], figures: dict[str, Any]
) -> None:
    parameters = parameters | {"threads": program.options.threads, "random_state": RANDOM_STATE}
    program.record(parameters, figures | load_average(), f"johnson_{name}")


WAYS = {
    "random": all_pairs,
    "kronecker": beside_single,
    "bfs": beside_single,
    "stored": within_memory,
    "public": public,
}
SINGLE = {"kronecker": ("sssp", np.float32), "bfs": ("bfs", np.int32)}
"""Kernels of single searches, and types of their answers."""


def main() -> None:
    program = Program(
        "johnson", __doc__, scale=16, vertices=None, sources=None, stored=None, repeats=3,
        threads=cores(), folder=None,
    )  # fmt: skip
    program.add("graph", choices=WAYS)
    program.add("--negative", action="store_true")
    program.add("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    program.add("--shares", type=float, nargs="*", default=[0.5, 0.25, 0.12])
    program.add("--lanes", type=int, default=64)
    options = program.parse()
    WAYS[options.graph](program, options)


if __name__ == "__main__":
    main()
