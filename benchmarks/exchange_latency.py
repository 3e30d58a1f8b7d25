"""Cost of a superstep of the scheduler exchange, on worker processes of this machine.

    python benchmarks/exchange_latency.py [--workers 2 4] [--empty-only]

One rank a worker and eight; an empty Share, a Route of nothing, and 1 and 8 MB from every worker to
every other. The first supersteps, in which connections are made, do not count. Each is measured
through shared memory and through Dask's connections in turn; `ratio` is that of the medians.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from distributed import Client
from harness.program import Program, load_average
from harness.timing import timed

import ooc_graph as og
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.doors import Door
from ooc_graph.exchange.interface import Question, Route, Share
from ooc_graph.exchange.scheduler import run
from ooc_graph.kernels.cpu import peers
from ooc_graph.kernels.cpu.peers import MOST_FAILURES
from ooc_graph.types import DEAL_BLOCK

WARM_UP = 10


def question_of(kind: str, shards: int, pair_bytes: int) -> Question:
    """What a rank asks, of so many bytes from each worker to each other.

    The payload of a Share is that of a worker's ranks together; a Route has int64 targets.
    """
    words = pair_bytes // 8
    if kind == "Route":
        return Route((np.arange(words * shards) % shards) * DEAL_BLOCK)
    return Share((0,), (np.zeros(words, dtype=np.int64),) if words else ())


def clocked(question: Question, supersteps: int) -> Generator[Question, Any, list[float]]:
    times = []
    for _ in range(supersteps):
        began_s = time.perf_counter()
        yield question
        times.append(time.perf_counter() - began_s)
    return times


def make(
    kind: str, shards: int, pair_bytes: int, supersteps: int, ranks: Sequence[int]
) -> nullcontext[tuple[dict[int, Any], Any]]:
    question = question_of(kind, shards, pair_bytes)
    nothing = SimpleNamespace(merge=len)
    return nullcontext(({rank: clocked(question, supersteps) for rank in ranks}, nothing))


def share_memory(works: bool) -> None:
    """Have this worker share memory with others, and search together, or do without."""
    Door.works = works
    peers.MOST_FAILURES = MOST_FAILURES if works else 0


def measure(
    client: Client, workers: list[str], shards: int, kind: str, pair_bytes: int
) -> dict[str, float]:
    supersteps = WARM_UP + (200 if pair_bytes == 0 else 30)
    factory = partial(make, kind, shards, pair_bytes, supersteps)
    whole_s, _, (results, stats) = timed(lambda: run(client, factory, shards, workers=workers))
    times = np.array(results[0][WARM_UP:]) * 1e3
    return {
        "median_ms": round(float(np.median(times)), 3),
        "p95_ms": round(float(np.quantile(times, 0.95)), 3),
        "least_ms": round(float(times.min()), 3),
        "outside_supersteps_ms": round((whole_s - sum(results[0])) * 1e3, 1),
        "bytes_sent": stats.bytes_sent,
    }


def compared(client: Client, workers: list[str], *, empty_only: bool) -> dict[str, Any]:
    found: dict[str, tuple[int, str, int]] = {}
    for kind, ranks in product(("Share", "Route"), (1, 8)):
        case = ranks * len(workers), kind, 0
        found[f"empty {kind}, {ranks} rank{'s'[: ranks - 1]} a worker"] = case
    for kind, mega in product(("Share", "Route"), () if empty_only else (1, 8)):
        found[f"{kind} {mega} MB a pair"] = len(workers), kind, mega << 20
    figures: dict[str, Any] = {}
    for (name, case), by in product(found.items(), ("shared memory", "Dask's connections")):
        client.run(share_memory, by == "shared memory")
        figures[f"{name}, {by}"] = measured = measure(client, workers, *case)
        if by != "shared memory":
            first = figures[f"{name}, shared memory"]
            measured["ratio"] = round(measured["median_ms"] / first["median_ms"], 2)
    return figures


def main() -> None:
    program = Program("exchange_latency", __doc__)
    program.add("--workers", type=int, nargs="+", default=[2, 4])
    program.add("--empty-only", action="store_true")
    options = program.parse()
    for count in options.workers:
        with og.local_cluster(count) as client:
            workers = Cluster.of(client).look()
            found = compared(client, sorted(workers), empty_only=options.empty_only)
        threads = min(worker.threads for worker in workers.values())
        parameters = {"workers": count, "threads_per_worker": threads, "warm_up": WARM_UP}
        program.record(parameters, found, **load_average())


if __name__ == "__main__":
    main()
