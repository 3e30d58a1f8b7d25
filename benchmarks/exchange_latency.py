"""Cost of a superstep of the scheduler exchange, on worker processes of this machine.

    python benchmarks/exchange_latency.py [--workers 2 4] [--empty-only]

One rank a worker and eight ranks a worker; an empty Share, a Route of nothing, and 1 and 8 MB from
every worker to every other. The first supersteps of each run are not counted (connections are made
in them). Appends to records/exchange_latency.jsonl.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from distributed import Client
from harness.program import Program
from harness.timing import timed

import ooc_graph as og
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.interface import Question, Route, Share
from ooc_graph.exchange.scheduler import run
from ooc_graph.types import DEAL_BLOCK

WARM_UP = 10


class Nothing:
    def merge(self, payloads: Sequence[tuple[Any, ...]]) -> None:
        pass


def empty_share(_rank: int, _shards: int, _bytes: int) -> Share:
    return Share((0,))


def share(_rank: int, _shards: int, pair_bytes: int) -> Share:
    """A payload of ``pair_bytes`` a worker (its ranks' together); every worker gets it."""
    return Share((0,), (np.zeros(pair_bytes // 8, dtype=np.int64),))


def route(_rank: int, shards: int, pair_bytes: int) -> Route:
    """Int64 targets, ``pair_bytes`` for every rank."""
    each = pair_bytes // 8
    return Route((np.arange(each * shards) % shards) * DEAL_BLOCK)


def clocked(question: Question, supersteps: int) -> Generator[Question, Any, list[float]]:
    times = []
    for _ in range(supersteps):
        began_s = time.perf_counter()
        yield question
        times.append(time.perf_counter() - began_s)
    return times


def make(
    question_of: Callable[[int, int, int], Question],
    shards: int,
    pair_bytes: int,
    supersteps: int,
    ranks: Sequence[int],
) -> nullcontext[tuple[dict[int, Any], Nothing]]:
    return nullcontext(
        ({r: clocked(question_of(r, shards, pair_bytes), supersteps) for r in ranks}, Nothing())
    )


def measure(
    client: Client, workers: list[str], shards: int, question_of: Any, pair_bytes: int
) -> dict[str, float]:
    supersteps = WARM_UP + (200 if pair_bytes == 0 else 30)
    factory = partial(make, question_of, shards, pair_bytes, supersteps)
    whole_s, _, (results, stats) = timed(lambda: run(client, factory, shards, workers=workers))
    times = np.array(results[0][WARM_UP:]) * 1e3
    return {
        "median_ms": round(float(np.median(times)), 3),
        "p95_ms": round(float(np.quantile(times, 0.95)), 3),
        "least_ms": round(float(times.min()), 3),
        "outside_supersteps_ms": round((whole_s - sum(results[0])) * 1e3, 1),
        "bytes_sent": stats.bytes_sent,
    }


def figures(client: Client, workers: list[str], *, empty_only: bool) -> dict[str, dict[str, float]]:
    few, many = len(workers), 8 * len(workers)
    cases = {
        "empty Share, 1 rank a worker": (few, empty_share, 0),
        "empty Share, 8 ranks a worker": (many, empty_share, 0),
        "empty Route, 1 rank a worker": (few, route, 0),
        "empty Route, 8 ranks a worker": (many, route, 0),
        "Share 1 MB a pair": (few, share, 1 << 20),
        "Share 8 MB a pair": (few, share, 8 << 20),
        "Route 1 MB a pair": (few, route, 1 << 20),
        "Route 8 MB a pair": (few, route, 8 << 20),
    }
    return {
        name: measure(client, workers, *case)
        for name, case in cases.items()
        if case[2] == 0 or not empty_only
    }


def main() -> None:
    program = Program("exchange_latency", __doc__)
    program.add("--workers", type=int, nargs="+", default=[2, 4])
    program.add("--empty-only", action="store_true")
    options = program.parse()
    for count in options.workers:
        with og.local_cluster(count) as client:
            workers = Cluster.of(client).look()
            found = figures(client, sorted(workers), empty_only=options.empty_only)
        threads = min(worker.threads for worker in workers.values())
        parameters = {"workers": count, "threads_per_worker": threads, "warm_up": WARM_UP}
        program.record(parameters, found, load_average_1_min=os.getloadavg()[0])


if __name__ == "__main__":
    main()
