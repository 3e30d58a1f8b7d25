"""Edges per second of the Kronecker generator: one thread and all, with and without weights.

    python benchmarks/generator.py [--scale 22] [--edges 16777216] [--repeats 5]

Into buffers that are there already (what a build does), and `Kronecker.block`, which allocates; the
best and the median of the repeats. A busy machine halves the figures.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from harness.program import Program, load_average
from harness.timing import rates

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.threads import cores

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


def measure(kronecker: Kronecker, edges: int, repeats: int) -> dict[str, dict[str, float]]:
    figures = {}
    for threads in sorted({1, 2, cores()}):
        fill = partial(fill_buffers, kronecker, edges, threads)
        cases: dict[str, Callable[[], Any]] = {
            "buffers, weights": partial(fill, weighted=True),
            "buffers, no weights": partial(fill, weighted=False),
            "block()": lambda t=threads: [kronecker.block(0, edges, threads=t)].clear(),
        }
        for case, task in cases.items():
            figures[f"{threads} threads, {case}"] = rates(task, edges, "edges", repeats)
    return figures


def main() -> None:
    program = Program("generator", __doc__, scale=22, repeats=5)
    program.add("--edges", type=int, default=1 << 24)
    options = program.parse()
    kronecker = Kronecker(options.scale)
    edges = min(options.edges, kronecker.edges)
    parameters = program.given("scale", "repeats") | {"edges": edges, "block_edges": BLOCK_EDGES}
    parameters |= load_average()
    program.record(parameters, measure(kronecker, edges, options.repeats))


if __name__ == "__main__":
    main()
