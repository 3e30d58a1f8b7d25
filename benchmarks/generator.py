"""Edges per second of the Kronecker generator: one thread and all, with and without weights.

    python benchmarks/generator.py [--scale 22] [--edges 16777216] [--repeats 5]

Into buffers that are there already (what a build does), and `Kronecker.block`, which allocates.
The best and the median of the repeats are printed and appended to the records, with the machine's
load average before, since a busy machine halves the figures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.report.records import append_record

RECORDS = Path(__file__).resolve().parent / "records" / "generator.jsonl"
BLOCK_EDGES = 1 << 18


def fill_buffers(kronecker: Kronecker, edges: int, threads: int, *, weighted: bool) -> None:
    """Make ``edges`` tuples in blocks, each thread over and over into its own buffers."""

    def work(part: int) -> None:
        ends = np.empty((2, BLOCK_EDGES), np.int64)
        weight = np.empty(BLOCK_EDGES, np.float32) if weighted else None
        for start in range(part * BLOCK_EDGES, edges, threads * BLOCK_EDGES):
            count = min(BLOCK_EDGES, edges - start)
            kronecker.generate_into(
                start, ends[0, :count], ends[1, :count], None if weight is None else weight[:count]
            )

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def rates(task: Callable[[], None], edges: int, repeats: int) -> dict[str, float]:
    """Best and median edges per second, after one run that compiles and warms up.

    Edges per second of CPU time stand beside them: other work on the machine hardly moves those.
    """
    task()
    elapsed_s, cpu_s = [], []
    for _ in range(repeats):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        task()
        elapsed_s.append(time.perf_counter() - begin)
        cpu_s.append(time.process_time() - begin_cpu)
    return {
        "best_edges_per_s": edges / min(elapsed_s),
        "median_edges_per_s": edges / statistics.median(elapsed_s),
        "median_edges_per_cpu_s": edges / statistics.median(cpu_s),
    }


def measure(kronecker: Kronecker, edges: int, repeats: int) -> dict[str, dict[str, float]]:
    """All cases, printed as they come."""
    figures = {}
    for threads in sorted({1, 2, len(os.sched_getaffinity(0))}):
        cases: dict[str, Callable[[], None]] = {
            "buffers, weights": lambda t=threads: fill_buffers(kronecker, edges, t, weighted=True),
            "buffers, no weights": lambda t=threads: fill_buffers(
                kronecker, edges, t, weighted=False
            ),
            "block()": lambda t=threads: [kronecker.block(0, edges, threads=t)].clear(),
        }
        for case, task in cases.items():
            name = f"{threads} threads, {case}"
            figures[name] = rates(task, edges, repeats)
            best, median, per_cpu = (rate / 1e6 for rate in figures[name].values())
            print(
                f"{name:32s} best {best:6.1f} M edges/s, median {median:6.1f}, "
                f"per second of CPU {per_cpu:6.1f}",
                flush=True,
            )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--edges", type=int, default=1 << 24)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    kronecker = Kronecker(options.scale)
    edges = min(options.edges, kronecker.edges)
    print(f"scale {options.scale}, {edges} edges a run, {options.repeats} runs")
    load_average = os.getloadavg()[0]
    figures = measure(kronecker, edges, options.repeats)
    append_record(
        RECORDS,
        {
            "benchmark": "generator",
            "parameters": {
                "scale": options.scale,
                "edges": edges,
                "repeats": options.repeats,
                "block_edges": BLOCK_EDGES,
                "load_average_before": load_average,
            },
            "figures": figures,
        },
    )


if __name__ == "__main__":
    main()
