"""PageRank in memory against networkit and SciPy, and out of core within a limit.

    python benchmarks/pagerank.py [--scale 20] [--repeats 3] [--store G.zarr]
    python benchmarks/pagerank.py --scale 24 --limit 1GiB [--store G.zarr]
    python benchmarks/pagerank.py --validate [--scale 20] [--store G.zarr]

Kronecker without weights, undirected, alpha 0.85, a fixed number of iterations. In memory the three
take turns on the same arcs, by row number; only the iterations count. SciPy's are those of
networkx's ``pagerank``, whose own graphs are too large for this: products of a vector and a CSR
matrix of float64. networkit runs as many iterations with its smallest tolerance. Differences are
from SciPy's scores; the personalised ones are of jumps to ten vertices.

With ``--limit`` one call of the API within that memory, its answer written, in a process of its own
that has ranked a small graph before. The chunks of the store are dropped from the page cache first.
With ``--validate`` calls that rank and calls that validate take turns, to a tolerance of 1e-6 in
all and by the number of iterations; the ratio is of their medians.
``--store`` is a graph of that scale that is there already; else it is built.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import drop_from_cache, in_own_process
from harness.program import Program, load_average
from harness.timing import timed

import ooc_graph as og
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.pagerank import SCALE
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.model.resources import parse_bytes
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.threads import cores
from ooc_graph.traverse.pagerank import Isolated, Problem, pagerank
from ooc_graph.types import AnyArray

ALPHA = 0.85
OURS, NETWORKIT, SCIPY = "ooc-graph", "networkit", "SciPy, as networkx"
Rank = Callable[..., tuple[float, AnyArray]]
"""Called with iterations, and, except networkit's, with rows that are jumped to."""


def ours(graph: og.Graph) -> Rank:
    device = CpuDevice(cores())
    rank = device.pagerank_rank(graph.load("hub"))

    def run(iterations: int, jump: Sequence[int] = ()) -> tuple[float, AnyArray]:
        chances = (tuple(jump), (1 / len(jump),) * len(jump)) if jump else None
        problem = Problem(ALPHA, iterations, None, chances, chances)
        listed, shared = problem.listed(), device.pagerank_shared(graph.rows)
        alone = Isolated(0, Problem(ALPHA, iterations).listed())
        coroutine = pagerank(rank, shared, problem, graph.rows, listed, alone)
        elapsed_s, _, (found,) = timed(lambda: run_in_process({0: coroutine}, shared))
        return elapsed_s, found.score / SCALE

    return run


def scipy_as_networkx(graph: og.Graph) -> Rank:
    rows = graph.load("hub").out_hub
    assert rows is not None
    offsets, count = rows.offsets.astype(np.int64), graph.rows
    neighbors = rows.neighbors.astype(np.int32)
    share = np.repeat(1 / np.diff(offsets), np.diff(offsets))
    matrix = import_module("scipy.sparse").csr_array((share, neighbors, offsets), (count, count))

    def run(iterations: int, jump: Sequence[int] = ()) -> tuple[float, AnyArray]:
        chances = np.zeros(count)
        chances[list(jump) or slice(None)] = 1 / (len(jump) or count)

        def power() -> AnyArray:
            score = np.full(count, 1 / count)
            for _ in range(iterations):
                last, score = score, ALPHA * (score @ matrix) + (1 - ALPHA) * chances
                # Its test whether to stop.
                np.abs(score - last).sum()
            return score

        elapsed_s, _, score = timed(power)
        return elapsed_s, score

    return run


def networkit(graph: og.Graph) -> Rank:
    nk = import_module("networkit")
    rows = graph.load("hub").out_hub
    assert rows is not None
    source = np.repeat(np.arange(graph.rows), np.diff(rows.offsets.astype(np.int64)))
    target = rows.neighbors.astype(np.int64)
    once = source < target
    other = nk.GraphFromCoo((source[once], target[once]), n=graph.rows, directed=False)

    def run(iterations: int) -> tuple[float, AnyArray]:
        search = nk.centrality.PageRank(other, damp=ALPHA, tol=np.finfo(float).tiny)
        search.maxIterations = iterations
        elapsed_s = timed(search.run).elapsed_s
        assert search.numberOfIterations() == iterations, search.numberOfIterations()
        return elapsed_s, np.array(search.scores())

    return run


def in_memory(program: Program, graph: og.Graph, iterations: int) -> None:
    runs = {OURS: ours(graph), SCIPY: scipy_as_networkx(graph), NETWORKIT: networkit(graph)}
    scores = {name: run(iterations)[1] for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    loads = []
    for _ in range(program.options.repeats):
        for name, run in runs.items():
            loads.append(load_average()["load_average"])
            times[name].append(run(iterations)[0])
    medians = {name: statistics.median(found) for name, found in times.items()}
    wanted = scores[SCIPY]
    figures: dict[str, Any] = {
        name: {
            "median_s": medians[name],
            "runs_s": times[name],
            "arcs_per_s": graph.arcs * iterations / medians[name],
            "times_faster_are_we": medians[name] / medians[OURS],
            "largest_relative_difference": float(np.max(np.abs(scores[name] / wanted - 1))),
        }
        for name in runs
    }
    figures["load_averages"] = loads
    jump = np.linspace(0, graph.rows - 1, 10).astype(int).tolist()
    personal, other = (runs[name](iterations, jump)[1] for name in (OURS, SCIPY))
    figures["personalised"] = {
        "largest_relative_difference": float(np.max(np.abs(personal / other - 1))),
        "sum_of_differences": float(np.abs(personal - other).sum()),
    }
    parameters = program.given("scale") | {"iterations": iterations, "threads": cores()}
    program.record(parameters | {"arcs": graph.arcs, "rows": graph.rows}, figures)


def child(store: Path, limit: int, iterations: int, scratch: Path) -> dict[str, Any]:
    """Figures of one call within a limit."""
    graph, out = og.open(store), scratch / "r.zarr"
    tiny = og.build(og.Kronecker(8, weighted=False), scratch / "small.zarr")
    og.pagerank(tiny, iterations=2, out=out)
    drop_from_cache(store.rglob("c/*"))
    given: dict[str, Any] = {"memory_limit": limit, "iterations": iterations, "out": out}
    with MemoryWatch(interval_s=0.02) as watch:
        took = timed(lambda: og.pagerank(graph, overwrite=True, **given))
    return {
        "elapsed_s": took.elapsed_s,
        "cpu_s": took.cpu_s,
        "seconds": dict(took.result.seconds),
        "bytes": dict(took.result.tier_bytes),
        "resident_before": watch.baseline_bytes,
        "resident_peak": watch.peak_bytes,
        "plan": og.plan(graph, "pagerank", memory_limit=limit),
        **load_average(),
    }


def validated(program: Program, graph: og.Graph, iterations: int) -> None:
    ways: dict[str, dict[str, Any]] = {
        "to a tolerance": {"tol": 1e-6 / graph.vertices},
        "by a number of iterations": {"iterations": iterations},
    }
    figures: dict[str, Any] = {}
    for name, asked in ways.items():
        ranking, validating = list[float](), list[float]()
        for _ in range(1 + program.options.repeats):
            ranked = timed(partial(og.pagerank, graph, weight=False, client=False, **asked))
            checked = timed(partial(og.validate, graph, ranked.result, client=False))
            ranking.append(ranked.elapsed_s)
            validating.append(checked.elapsed_s)
        medians = [statistics.median(found[1:]) for found in (ranking, validating)]
        figures[name] = {
            "iterations": ranked.result.asked.iterations,
            "error_bound": checked.result[0].error_bound,
            "ranking_s": ranking[1:],
            "validating_s": validating[1:],
            "validating_takes_times_as_long": medians[1] / medians[0],
        }
    parameters = program.given("scale", "repeats") | {"threads": cores(), "arcs": graph.arcs}
    program.record(parameters, figures | load_average(), "pagerank-validation")


def main() -> None:
    program = Program("pagerank", __doc__, scale=20, repeats=3, folder=None)
    program.add("--iterations", type=int, default=20, help="of each run")
    program.add("--store", type=Path, help="a graph of that scale")
    program.add("--limit", help="host memory, such as 1GiB; by default all rows are in memory")
    program.add("--validate", action="store_true", help="the answers, instead of comparing speed")
    options = program.parse()
    with program.scratch() as scratch:
        store = options.store
        if store is None:
            store = scratch / "g.zarr"
            og.build(og.Kronecker(options.scale, weighted=False), store, device="cpu")
        if options.validate:
            validated(program, og.open(store), options.iterations)
            return
        if options.limit is None:
            in_memory(program, og.open(store), options.iterations)
            return
        limit = parse_bytes(options.limit)
        figures = in_own_process(child, store, limit, options.iterations, scratch)
        parameters = program.given("scale", "iterations") | {"threads": cores()}
        program.record(parameters | {"limit_bytes": limit}, figures, "pagerank-limit")


if __name__ == "__main__":
    main()
