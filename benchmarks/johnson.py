"""Many sources at once: all pairs beside SciPy and networkit, a batch beside single searches.

    python benchmarks/johnson.py random [--vertices 8000] [--sources N] [--negative]
    python benchmarks/johnson.py kronecker [--scale 16] [--sources 1024]
    python benchmarks/johnson.py bfs [--scale 16] [--sources 1024]
    python benchmarks/johnson.py stored [--scale 16 | --vertices N [--negative]] [--shares ...]
    python benchmarks/johnson.py public [--scale 16 | --vertices N [--negative]] [--out FOLDER]

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
import os
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import johnson_public
import numpy as np

import ooc_graph as og
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.layout.names import APSP
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.strategies.many import tiers as many_tiers
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


def graph_of(arcs: Arcs) -> Any:
    """A graph that is built in memory; once, as calls keep what they loaded of the last one."""
    vertices, u, v, weight = arcs
    return og.from_edges(u, v, weight, directed=True, vertices=vertices)


def as_called(graph: Any, sources: int, **options: Any) -> Callable[[], Any]:
    """As users call it, with all cores."""
    return lambda: og.johnson(graph, np.arange(sources), **options).distance


PEERS = {"scipy": scipy, "networkit": networkit}


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds that passed, seconds of processors, and the answer."""
    start, used = perf_counter(), process_time()
    answer = call()
    return perf_counter() - start, process_time() - used, answer


def all_pairs(options: argparse.Namespace) -> None:
    options.vertices = options.vertices or 8000
    arcs = random_arcs(options.vertices, negative=options.negative)
    sources = min(options.sources or options.vertices, options.vertices)
    calls = {"ooc-graph": ours(arcs, sources, options.threads)}
    if options.threads == cores():
        calls["og.johnson"] = as_called(graph_of(arcs), sources, device="cpu")
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


def beyond_memory(options: argparse.Namespace) -> None:
    with TemporaryDirectory() as folder:
        graph = stored_graph(options, Path(folder) / "g.zarr")
        method = many_tiers.methods_of(graph, APSP)[0]
        device = CpuDevice(options.threads)
        whole = device.apsp(graph.load("light", signed=True))
        random = np.random.default_rng(RANDOM_STATE)
        sources = random.choice(graph.rows, options.sources or 64, replace=False)
        wanted = whole.run(sources)
        facts = many_tiers.known_facts(graph, APSP, method)
        least = many_tiers.least_within(graph, APSP, method)
        pass_bytes = facts.sides[0].arcs * facts.arc_bytes
        plain = pass_bytes * plain_passes(graph, method, sources, options.lanes, device)
        for share in options.shares:
            budget = least + int(share * facts.arcs * facts.arc_bytes)
            held = many_tiers.load_within(graph, APSP, method, budget, device)
            answers: dict[str, AnyArray] = {}
            calls: dict[str, Callable[[], Any]] = {
                "ooc-graph": partial(held.search.run, sources, lanes=options.lanes),
                "in memory": partial(whole.run, sources),
            }
            times: dict[str, list[float]] = {name: [] for name in calls}
            used: dict[str, list[float]] = {name: [] for name in calls}
            before = held.moved
            for _ in range(options.repeats):
                for name, call in calls.items():
                    elapsed_s, processor_s, answers[name] = timed(call)
                    times[name].append(elapsed_s)
                    used[name].append(processor_s)
                    if answers[name].tobytes() != wanted.tobytes():
                        raise SystemExit("the answers differ")
            read = held.moved.since(before).bytes // options.repeats
            print(
                f"{share}: {method}, {held.plan.rule}, {read:,} bytes, 1/{plain / max(read, 1):.1f}"
            )
            parameters = {
                "vertices": graph.rows,
                "arcs": facts.sides[0].arcs,
                "negative": graph.has_negative_weights,
                "sources": len(sources),
                "share": share,
                "lanes": options.lanes,
            }
            moved = {
                "method": method,
                "heads": str(held.plan.rule),
                "share_of_arcs_in_memory": held.plan.head_arcs / held.plan.facts.arcs,
                "bytes_read": read,
                "bytes_of_plain_passes": plain,
            }
            record(options, "stored", parameters, figures_of(times, used, len(sources)) | moved)
            held.close()


def public(options: argparse.Namespace) -> None:
    with TemporaryDirectory(dir=options.out, prefix="johnson-public-") as name:
        folder = Path(name)
        graph = stored_graph(options, folder / "g.zarr")
        random = np.random.default_rng(RANDOM_STATE)
        count = min(options.sources or 1024, graph.rows)
        sources = random.choice(graph.rows, count, replace=False)
        search = CpuDevice(options.threads).apsp(graph.load("light", signed=True))
        calls = johnson_public.PublicCalls(
            graph,
            search.run,
            sources,
            stored=options.stored or count,
            device="cpu",
            out=folder / "d.zarr",
            room=np.ones,
        )
        figures = johnson_public.measure(calls, options.repeats)
    scale = None if options.vertices else options.scale
    parameters = johnson_public.parameters_of(graph, scale, count, options.stored or count)
    record(options, "public", parameters, figures)


def stored_graph(options: argparse.Namespace, path: Path) -> Any:
    if options.vertices is None:
        return og.build(og.Kronecker(options.scale, weighted=True), path)
    _, u, v, weight = random_arcs(options.vertices, negative=options.negative)
    return og.build((u, v, weight), path, directed=True)


def plain_passes(graph: Any, method: str, sources: AnyArray, lanes: int, device: CpuDevice) -> int:
    """Passes until nothing improves, over all batches or sources; some of these, scaled up."""
    budget = many_tiers.least_within(graph, APSP, many_tiers.BATCHES)
    everything = budget + 2 * graph.resident_bytes("light")
    within = many_tiers.BATCHES, everything, device
    held = many_tiers.load_within(graph, APSP, *within)
    each = lanes if method == many_tiers.BATCHES else 1
    parts = [sources[begin : begin + each] for begin in range(0, len(sources), each)]
    for part in parts[:4]:
        held.search.run(part, lanes=each)
    passes = held.search.passes * len(parts) // len(parts[:4])
    held.close()
    return int(passes)


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
            "source_commit": options.commit,
            "parameters": parameters | {"threads": options.threads, "random_state": RANDOM_STATE},
            "figures": figures | {"load_average": os.getloadavg()[0]},
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", choices=["random", "kronecker", "bfs", "stored", "public"])
    parser.add_argument("--vertices", type=int, help="of the random graph [8000]")
    parser.add_argument("--negative", action="store_true")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--sources", type=int, help="of all, or of 1,024")
    parser.add_argument("--stored", type=int, help="of them, with distances written [all]")
    parser.add_argument("--out", type=Path, help="folder for what is written [a temporary one]")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.5, 0.25, 0.12])
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--commit", help="commit of the sources, where git does not know it")
    options = parser.parse_args()
    ways = {
        "random": all_pairs,
        "kronecker": single_searches,
        "bfs": single_bfs,
        "stored": beyond_memory,
        "public": public,
    }
    ways[options.graph](options)


if __name__ == "__main__":
    main()
