"""Many sources at once: all pairs beside SciPy, and of a graph in a store.

    python benchmarks/johnson.py random [--vertices 8000] [--sources N] [--negative]
    python benchmarks/johnson.py stored [--scale 16 | --vertices N [--negative]] [--shares ...]
    python benchmarks/johnson.py public [--scale 16 | --vertices N [--negative]] [--folder DIR]

``random``: directed, 16 arcs a vertex with ends and weights drawn at random, float64, all pairs or
the first ``--sources``. With ``--negative`` potentials make many weights negative. Both are given
their own form of the graph, without the time that this takes, and write all distances to memory of
their own; as much has been written to and freed just before, since memory that a virtual machine
never touched costs more than the search. Ours includes Bellman-Ford, reweighting, and dropping
arcs; beside it stands `ooc_graph.johnson`, which also brings answers into the order of ids.
Processor time, of all threads, tells more where the machine is busy otherwise. Ours and the other
take turns; answers are compared. Other libraries, and our single searches, from some sources:
peers.py.

``stored``: the Kronecker graph, or with ``--vertices`` the random one, in a store, its page cache
warm, with memory for its vertices, the lanes of a batch, and a share of the bytes of the arcs that
the method looks at; beside the search in memory. Bytes are those read of the store, beside those of
plain passes over all out-arcs: as many as rows go on to improve in, for each batch, or source.
``public``: the same graphs through `ooc_graph.johnson` (`johnson_stored`).
"""

import argparse
from collections.abc import Callable
from typing import Any

import johnson_stored
import numpy as np
from harness.graphs import RANDOM_STATE, Arcs, both_sides, random_arcs
from harness.program import Program, load_average
from harness.timing import Turns, medians, take_turns
from johnson_stored import OURS, stored_graph

import ooc_graph as og
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray


def ours(arcs: Arcs, sources: int, threads: int) -> Callable[[], Any]:
    sides, team = both_sides(arcs), Team(threads)
    return lambda: CpuJohnson(*sides, team).run(np.arange(sources))


def scipy(arcs: Arcs, sources: int) -> Callable[[], Any]:
    from scipy.sparse import csr_array  # noqa: PLC0415
    from scipy.sparse.csgraph import johnson  # noqa: PLC0415

    vertices, u, v, weight = arcs
    matrix = csr_array((weight, (u, v)), shape=(vertices, vertices))
    return lambda: johnson(matrix, indices=np.arange(sources))


def graph_of(arcs: Arcs) -> Any:
    """A graph that is built in memory; once, as calls keep what they loaded of the last one."""
    vertices, u, v, weight = arcs
    return og.from_edges(u, v, weight, directed=True, vertices=vertices)


def as_called(graph: Any, sources: int, **options: Any) -> Callable[[], Any]:
    """As users call it, with all cores."""
    return lambda: og.johnson(graph, np.arange(sources), **options).distance


def all_pairs(program: Program, options: argparse.Namespace) -> None:
    options.vertices = options.vertices or 8000
    arcs = random_arcs(options.vertices, negative=options.negative)
    sources = min(options.sources or options.vertices, options.vertices)
    calls = {OURS: ours(arcs, sources, options.threads)}
    if options.threads == cores():
        calls["og.johnson"] = as_called(graph_of(arcs), sources, device="cpu")
    if not options.no_peers:
        calls["scipy"] = scipy(arcs, sources)
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


def farthest(mine: AnyArray, theirs: AnyArray) -> float:
    """Largest difference of two answers."""
    reached = np.isfinite(mine)
    if not np.array_equal(reached, np.isfinite(theirs)):
        raise SystemExit("the answers differ in who reaches whom")
    return float(np.abs(np.subtract(mine, theirs, where=reached, out=np.zeros_like(mine))).max())


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


WAYS = {"random": all_pairs, "stored": within_memory, "public": public}


def main() -> None:
    program = Program(
        "johnson", __doc__, scale=16, vertices=None, sources=None, stored=None, repeats=3,
        threads=cores(), folder=None,
    )  # fmt: skip
    program.add("graph", choices=WAYS)
    program.add("--negative", action="store_true")
    program.add("--no-peers", action="store_true")
    program.add("--shares", type=float, nargs="*", default=[0.5, 0.25, 0.12])
    program.add("--lanes", type=int, default=64)
    options = program.parse()
    WAYS[options.graph](program, options)


if __name__ == "__main__":
    main()
