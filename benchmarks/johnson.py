"""Many sources at once: all pairs beside SciPy and networkit, a batch beside single searches.

    python benchmarks/johnson.py random [--vertices 8000] [--sources N] [--negative]
    python benchmarks/johnson.py kronecker [--scale 16] [--sources 1024]
    python benchmarks/johnson.py bfs [--scale 16] [--sources 1024]

``random``: directed, 16 arcs a vertex with ends and weights drawn at random, float64, all pairs or
the first ``--sources``. With ``--negative`` potentials shift the weights, so that many are
negative; networkit's APSP, which wants weights >= 0 and all sources, is left out then. Everybody
is given its own form of the graph, without the time that this takes, and writes all distances to
memory of its own; as much has been written to and freed just before, since memory that a virtual
machine never touched costs more than the search. Ours includes Bellman-Ford, reweighting, and
dropping arcs. Processor time, of all threads, is recorded beside the time that passed: it
tells more where the machine is busy otherwise. ``kronecker``:
float32, our single searches one after another, each on all threads, from the same sources.
``bfs``: the same graph without weights; levels from all sources written to memory, and only
counted (eccentricity, sum, how many), beside our single BFS one after another, levels kept.

Ours and the other take turns; answers are compared, single searches bit for bit, counts with sums
of levels. Appends to records/johnson.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.kernels.many_bfs_search import CpuManyBfs
from ooc_graph.kernels.many_johnson import CpuJohnson
from ooc_graph.kernels.team import Team
from ooc_graph.report.records import append_record
from ooc_graph.session.machine import cores
from ooc_graph.types import AnyArray, Rows

RECORDS = Path(__file__).parent / "records" / "johnson.jsonl"
RANDOM_STATE = 7
DEGREE = 16
Arcs = tuple[int, AnyArray, AnyArray, AnyArray]


def random_arcs(vertices: int, *, negative: bool) -> Arcs:
    random = np.random.default_rng(RANDOM_STATE)
    key = np.unique(random.integers(0, vertices**2, vertices * DEGREE))
    u, v = key // vertices, key % vertices
    u, v = u[u != v], v[u != v]
    weight = random.random(len(u))
    if negative:
        by = random.random(vertices)
        weight += by[u] - by[v]
    return vertices, u, v, weight


def rows_of(vertices: int, row: AnyArray, neighbor: AnyArray, weight: AnyArray) -> Rows:
    order = np.lexsort((neighbor, weight, row))
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=vertices))])
    return Rows(ends.astype(np.uint64), neighbor[order].astype(np.uint32), weight[order])


def ours(arcs: Arcs, sources: int, threads: int) -> Callable[[], Any]:
    vertices, u, v, weight = arcs
    out, into = rows_of(vertices, u, v, weight), rows_of(vertices, v, u, weight)
    team = Team(threads)
    return lambda: CpuJohnson(out, into, team).run(np.arange(sources))


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


PEERS = {"scipy": scipy, "networkit": networkit}


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds that passed, seconds of processors, and the answer."""
    start, used = perf_counter(), process_time()
    answer = call()
    return perf_counter() - start, process_time() - used, answer


def all_pairs(options: argparse.Namespace) -> None:
    arcs = random_arcs(options.vertices, negative=options.negative)
    sources = min(options.sources or options.vertices, options.vertices)
    calls = {"ooc-graph": ours(arcs, sources, options.threads)}
    for name in options.peers:
        if name != "networkit" or (sources == options.vertices and not options.negative):
            calls[name] = PEERS[name](arcs, sources, options.threads)
    ours(random_arcs(300, negative=True), 300, options.threads)()
    times: dict[str, list[float]] = {name: [] for name in calls}
    used: dict[str, list[float]] = {name: [] for name in calls}
    apart = 0.0
    for _ in range(options.repeats):
        answers = {}
        for name, call in calls.items():
            np.ones((sources, options.vertices))
            elapsed_s, processor_s, answers[name] = timed(call)
            times[name].append(elapsed_s)
            used[name].append(processor_s)
        apart = max(apart, *(farthest(answers["ooc-graph"], a) for a in answers.values()))
        del answers
    figures = figures_of(times, used, sources) | {"largest_difference": apart}
    vertices, u, _, weight = arcs
    record(
        options,
        "all_pairs",
        {
            "vertices": vertices,
            "arcs": len(u),
            "negative_arcs": int((weight < 0).sum()),
            "sources": sources,
        },
        figures,
    )


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


def single_searches(options: argparse.Namespace) -> None:
    edges = og.Kronecker(options.scale, weighted=True)
    graph: Any = og.from_edges(*edges.block(0, edges.edges), vertices=edges.vertices)
    shard = graph.load("light")
    random = np.random.default_rng(RANDOM_STATE)
    sources = random.choice(len(shard.tuples), options.sources or 1024, replace=False)
    rows, team = shard.out_light, Team(options.threads)
    single = CpuDevice(options.threads).sssp(shard)
    answers: dict[str, AnyArray] = {}

    def together() -> None:
        answers["together"] = CpuJohnson(rows, rows, team).run(sources)

    def one_by_one() -> None:
        answers["single"] = np.empty((len(sources), len(shard.tuples)), np.float32)
        for row, source in zip(answers["single"], sources.tolist(), strict=True):
            row[:] = single.run(source).distance

    single.run(int(sources[0]))
    together()
    times: dict[str, list[float]] = {"ooc-graph": [], "single": []}
    used: dict[str, list[float]] = {"ooc-graph": [], "single": []}
    for _ in range(options.repeats):
        for name, call in (("ooc-graph", together), ("single", one_by_one)):
            elapsed_s, processor_s, _ = timed(call)
            times[name].append(elapsed_s)
            used[name].append(processor_s)
        if answers["together"].tobytes() != answers["single"].tobytes():
            raise SystemExit("the answers differ")
    parameters = {
        "scale": options.scale,
        "vertices": len(shard.tuples),
        "arcs": len(rows.neighbors),
        "sources": len(sources),
    }
    record(options, "single_searches", parameters, figures_of(times, used, len(sources)))


def single_bfs(options: argparse.Namespace) -> None:
    edges = og.Kronecker(options.scale)
    graph: Any = og.from_edges(*edges.block(0, edges.edges), vertices=edges.vertices)
    shard = graph.load("hub")
    random = np.random.default_rng(RANDOM_STATE)
    sources = random.choice(len(shard.tuples), options.sources or 1024, replace=False)
    rows = shard.out_hub
    single = CpuDevice(options.threads).bfs(shard)
    search = CpuManyBfs(rows, rows, Team(options.threads))
    matrix, loop = np.ones((2, len(sources), search.vertices), np.int32)
    counted: dict[str, AnyArray] = {}

    def one_by_one() -> None:
        for row, source in zip(loop, sources.tolist(), strict=True):
            row[:] = single.run(source).level

    calls: dict[str, Callable[[], Any]] = {
        "ooc-graph": lambda: search.run(sources, matrix),
        "counted": lambda: counted.update(tallies=search.tally(sources)),
        "single": one_by_one,
    }
    single.run(int(sources[0]))
    search.run(sources[:1])
    times: dict[str, list[float]] = {name: [] for name in calls}
    used: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.repeats):
        for name, call in calls.items():
            elapsed_s, processor_s, _ = timed(call)
            times[name].append(elapsed_s)
            used[name].append(processor_s)
    reached = loop >= 0
    sums = np.where(reached, loop, 0).sum(axis=1, dtype=np.int64)
    if not np.array_equal(np.where(reached, matrix, -1), loop):
        raise SystemExit("the levels differ")
    if not np.array_equal(counted["tallies"][:, :2].T, [reached.sum(axis=1), sums]):
        raise SystemExit("the counts differ")
    parameters = {
        "scale": options.scale,
        "vertices": search.vertices,
        "arcs": len(rows.neighbors),
        "sources": len(sources),
    }
    record(options, "single_bfs", parameters, figures_of(times, used, len(sources)))


def figures_of(
    times: dict[str, list[float]], used: dict[str, list[float]], sources: int
) -> dict[str, Any]:
    processor = {name: statistics.median(found) for name, found in used.items()}
    median = {name: statistics.median(found) for name, found in times.items()}
    mine = median["ooc-graph"]
    for name, found in times.items():
        print(
            f"{name:10s} median {median[name]:7.3f} s, least {min(found):7.3f} s, "
            f"{median[name] / sources * 1e6:7.1f} us a source, "
            f"{median[name] / mine:6.2f} times ours; processors {processor[name]:7.3f} s",
            flush=True,
        )
    return {
        "times_s": times,
        "processor_s": used,
        "median_s": median,
        "median_processor_s": processor,
        "ours_is_faster_by": {n: m / mine for n, m in median.items() if n != "ooc-graph"},
    }


def record(
    options: argparse.Namespace, name: str, parameters: dict[str, Any], figures: dict[str, Any]
) -> None:
    append_record(
        options.records,
        {
            "benchmark": f"johnson_{name}",
            "parameters": parameters | {"threads": options.threads, "random_state": RANDOM_STATE},
            "figures": figures | {"load_average": os.getloadavg()[0]},
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", choices=["random", "kronecker", "bfs"])
    parser.add_argument("--vertices", type=int, default=8000)
    parser.add_argument("--negative", action="store_true")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--sources", type=int, help="of all, or of 1,024")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    ways = {"random": all_pairs, "kronecker": single_searches, "bfs": single_bfs}
    ways[options.graph](options)


if __name__ == "__main__":
    main()
