"""Many sources at once: all pairs beside SciPy and networkit, a batch beside single searches.

    python benchmarks/johnson.py random [--vertices 8000] [--sources N] [--negative]
    python benchmarks/johnson.py kronecker [--scale 16] [--sources 1024]
    python benchmarks/johnson.py bfs [--scale 16] [--sources 1024]
    python benchmarks/johnson.py stored [--scale 16 | --vertices N [--negative]] [--shares ...]
    python benchmarks/johnson.py public [--scale 16 | --vertices N [--negative]] [--folder DIR]

``random``: directed, 16 arcs a vertex with ends and weights drawn at random, float64, all pairs or
the first ``--sources``. With ``--negative`` potentials shift the weights, so that many are
negative; networkit's APSP, which wants weights >= 0 and all sources, is left out then. Everybody
is given its own form of the graph, without the time that this takes, and writes all distances to
memory of its own; as much has been written to and freed just before, since memory that a virtual
machine never touched costs more than the search. Ours includes Bellman-Ford, reweighting, and
dropping arcs; beside it stands `ooc_graph.johnson`, which also finds what is asked for and brings
answers into the order of ids. Processor time, of all threads, is recorded beside the time that
passed: it tells more where the machine is busy otherwise. ``kronecker``:
float32, our single searches one after another, each on all threads, from the same sources.
``bfs``: the same graph without weights; levels from all sources written to memory, and only
counted (eccentricity, sum, how many), beside our single BFS one after another, levels kept.

``stored``: the Kronecker graph, or with ``--vertices`` the random one, in a store, its page cache
warm, with memory for its vertices, the lanes of a batch, and a share of the bytes of the arcs that
the method looks at; beside the search in memory. Bytes are those read of the store, beside those of
plain passes, each over all out-arcs: as many as rows go on to improve in, once for a batch, or
for a source where these are searched from one by one.

``public``: the same graphs through `ooc_graph.johnson`, in memory, with ``out=`` and with
``reduce=``, beside the class of kernels (`johnson_public`).

Ours and the other take turns; answers are compared, single searches bit for bit, counts with sums
of levels. Appends to records/johnson.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import johnson_public
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
from harness.timing import Turns, measure_of, medians, same_bytes, take_turns

import ooc_graph as og
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.layout.names import APSP
from ooc_graph.memory.cpu.plan import least_bytes
from ooc_graph.strategies.many import tiers as many_tiers
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, Rows

OURS = "ooc-graph"


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

    turns = take_turns(
        calls,
        options.repeats,
        before=lambda _: np.ones((sources, options.vertices)),
        check=check,
    )
    vertices, u, _, weight = arcs
    parameters = {
        "vertices": vertices,
        "arcs": len(u),
        "negative_arcs": int((weight < 0).sum()),
        "sources": sources,
    }
    record(program, "all_pairs", parameters, figures_of(turns) | {"largest_difference": apart})


def farthest(mine: AnyArray, theirs: Any) -> float:
    """Largest difference of two answers; of networkit's, in every 100th row."""
    if isinstance(theirs, np.ndarray):
        here, there = mine, theirs
    else:
        sampled = range(0, len(mine), 100)
        here = mine[::100]
        there = np.array([[theirs.getDistance(u, v) for v in range(len(mine))] for u in sampled])
    reached = np.isfinite(here)
    # networkit says the largest double where there is no way.
    if not np.array_equal(reached, there < np.finfo(there.dtype).max):
        raise SystemExit("the answers differ in who reaches whom")
    return float(np.abs(np.subtract(here, there, where=reached, out=np.zeros_like(here))).max())


def single_searches(program: Program, options: argparse.Namespace) -> None:
    shard = kronecker_in_memory(options.scale).load("light")
    sources = some_rows(len(shard.tuples), options.sources or 1024)
    rows, team = shard.out_light, Team(options.threads)
    single = CpuDevice(options.threads).sssp(shard)

    def one_by_one() -> AnyArray:
        answer = np.empty((len(sources), len(shard.tuples)), np.float32)
        return singly(single, sources, answer)

    calls = {OURS: lambda: CpuJohnson(rows, rows, team).run(sources), "single": one_by_one}
    single.run(int(sources[0]))
    calls[OURS]()
    turns = take_turns(calls, options.repeats, check=same_bytes())
    record(program, "single_searches", sizes(options, rows, sources), figures_of(turns))


def singly(search: Any, sources: AnyArray, answer: AnyArray) -> AnyArray:
    """Levels or distances from one source after another, into an answer."""
    for row, source in zip(answer, sources.tolist(), strict=True):
        row[:] = measure_of(search.run(source))
    return answer


def sizes(options: argparse.Namespace, rows: Rows, sources: AnyArray) -> dict[str, Any]:
    return {
        "scale": options.scale,
        "vertices": len(rows.offsets) - 1,
        "arcs": len(rows.neighbors),
        "sources": len(sources),
    }


def single_bfs(program: Program, options: argparse.Namespace) -> None:
    shard = kronecker_in_memory(options.scale).load("hub")
    sources = some_rows(len(shard.tuples), options.sources or 1024)
    rows = shard.out_hub
    single = CpuDevice(options.threads).bfs(shard)
    search = CpuManyBfs(rows, rows, Team(options.threads))
    matrix, loop = np.ones((2, len(sources), search.vertices), np.int32)
    answers: dict[str, AnyArray] = {}
    calls: dict[str, Callable[[], Any]] = {
        OURS: lambda: search.run(sources, matrix),
        "counted": lambda: search.tally(sources),
        "single": lambda: singly(single, sources, loop),
    }
    single.run(int(sources[0]))
    search.run(sources[:1])
    turns = take_turns(calls, options.repeats, check=answers.__setitem__)
    reached = loop >= 0
    sums = np.where(reached, loop, 0).sum(axis=1, dtype=np.int64)
    if not np.array_equal(np.where(reached, matrix, -1), loop):
        raise SystemExit("the levels differ")
    if not np.array_equal(answers["counted"][:, :2].T, [reached.sum(axis=1), sums]):
        raise SystemExit("the counts differ")
    record(program, "single_bfs", sizes(options, rows, sources), figures_of(turns))


def beyond_memory(program: Program, options: argparse.Namespace) -> None:
    with program.scratch() as folder:
        graph = stored_graph(options, folder / "g.zarr", negative=options.negative)
        method = many_tiers.methods_of(graph, APSP)[0]
        device = CpuDevice(options.threads)
        whole = device.apsp(graph.load("light", signed=True))
        sources = some_rows(graph.rows, options.sources or 64)
        same = same_bytes()
        same("in memory", whole.run(sources))
        facts = many_tiers.known_facts(graph, APSP, method)
        least = least_bytes(facts)
        pass_bytes = facts.sides[0].arcs * facts.arc_bytes
        plain = pass_bytes * plain_passes(graph, method, sources, options.lanes, device)
        for share in options.shares:
            budget = least + int(share * facts.arcs * facts.arc_bytes)
            held = many_tiers.load_within(graph, APSP, method, budget, device)
            calls: dict[str, Callable[[], Any]] = {
                OURS: partial(held.search.run, sources, batch_size=options.lanes),
                "in memory": partial(whole.run, sources),
            }
            before = held.io_stats
            turns = take_turns(calls, options.repeats, check=same)
            parameters = {
                "vertices": graph.rows,
                "arcs": facts.sides[0].arcs,
                "negative": graph.has_negative_weights,
                "sources": len(sources),
                "share": share,
                "lanes": options.lanes,
            }
            io_stats = {
                "method": method,
                "heads": str(held.plan.rule),
                "share_of_arcs_in_memory": held.plan.head_arcs / held.plan.facts.arcs,
                "bytes_read": held.io_stats.since(before).bytes // options.repeats,
                "bytes_of_plain_passes": plain,
            }
            record(program, "stored", parameters, figures_of(turns) | io_stats)
            held.close()


def public(program: Program, options: argparse.Namespace) -> None:
    with program.scratch() as folder:
        graph = stored_graph(options, folder / "g.zarr", negative=options.negative)
        search = CpuDevice(options.threads).apsp(graph.load("light", signed=True))
        measured = johnson_public.measure(graph, search.run, options, device="cpu", room=np.ones)
    record(program, "public", *measured)


def stored_graph(options: argparse.Namespace, path: Path, *, negative: bool) -> Any:
    if options.vertices is None:
        return og.build(og.Kronecker(options.scale, weighted=True), path)
    _, u, v, weight = random_arcs(options.vertices, negative=negative)
    return og.build((u, v, weight), path, directed=True)


def plain_passes(graph: Any, method: str, sources: AnyArray, lanes: int, device: CpuDevice) -> int:
    """Passes until nothing improves, over all batches or sources; some of these, scaled up."""
    budget = least_bytes(many_tiers.known_facts(graph, APSP, many_tiers.BATCHES))
    everything = budget + 2 * graph.resident_bytes("light")
    within = many_tiers.BATCHES, everything, device
    held = many_tiers.load_within(graph, APSP, *within)
    each = lanes if method == many_tiers.BATCHES else 1
    parts = [sources[begin : begin + each] for begin in range(0, len(sources), each)]
    for part in parts[:4]:
        held.search.run(part, batch_size=each)
    passes = held.search.passes * len(parts) // len(parts[:4])
    held.close()
    return int(passes)


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
    "kronecker": single_searches,
    "bfs": single_bfs,
    "stored": beyond_memory,
    "public": public,
}


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
