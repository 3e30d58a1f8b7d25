"""Graph500's choice of search keys on a Kronecker graph, bit for bit that of the reference 3.0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.edges.multiple_recursive import mrg_seed, mrg_skip
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cpu.build.degrees import insert_vertices, mark_touched
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, IntArray

BLOCK_EDGES = 1 << 17

Degree = Callable[[IntArray], AnyArray] | AnyArray


def choose_keys(graph: Any, count: int, degree: Degree | None, threads: int) -> IntArray:
    """Keys of a `ooc_graph.edges.kronecker.Kronecker`, as its `search_keys` says."""
    if count < 1:
        raise UsageError(f"count is {count}: give at least 1")
    roots, keys, drawn = _root_draws(graph), list[int](), 0
    while len(keys) < count:
        batch = np.fromiter(islice(roots, 16 * count), np.int64)
        forced = np.arange(drawn + 1, drawn + 1 + len(batch)) > graph.vertices
        usable = forced.copy()
        usable[~forced] = _touched(graph, batch[~forced], degree, threads)
        drawn += len(batch)
        for root, take, anyway in zip(batch.tolist(), usable, forced, strict=True):
            if len(keys) < count and (anyway or (take and root not in keys)):
                keys.append(root)
    return np.array(keys, np.int64)


def _root_draws(graph: Any) -> Iterator[int]:
    """Yield the reference's candidates for keys, without end."""
    state = mrg_skip(mrg_seed(graph.seeds), high=2)
    while True:
        total = 0.0
        for _ in range(2):
            state = mrg_skip(state, low=1)
            high = state[0] * 4.65661287524579692e-10
            state = mrg_skip(state, low=1)
            total += high + state[0] * 2.168404346990492787e-19
        yield int(total * graph.vertices) % graph.vertices


def _touched(
    graph: Any, vertices: IntArray, degree: Degree | None, threads: int
) -> NDArray[np.bool_]:
    """Whether each vertex has an edge other than self-loops, (k,)."""
    if len(vertices) == 0:
        return np.zeros(0, np.bool_)
    if degree is not None:
        found = degree(vertices) if callable(degree) else degree[vertices]
        return np.asarray(found).astype(np.bool_)
    # All edges are gone through once; threads have flags of their own, joined at the end.
    table = np.full(1 << (8 * len(vertices)).bit_length(), -1, np.int64)
    insert_vertices(vertices, table)
    touched = np.zeros((threads, len(table)), np.uint8)

    def mark(part: int, low: int, high: int) -> None:
        ends = np.empty((2, BLOCK_EDGES), np.int64)
        for start in range(low, high, BLOCK_EDGES):
            source, target = ends[:, : min(BLOCK_EDGES, high - start)]
            graph.generate_into(start, source, target)
            mark_touched(source, target, table, touched[part])

    in_parts(threads, graph.edges, mark)
    hit: NDArray[np.bool_] = np.isin(vertices, table[touched.any(axis=0)])
    return hit


def in_parts(parts: int, count: int, task: Callable[[int, int, int], None]) -> None:
    """Call ``task(part, low, high)`` for equal parts of a range, each on a thread.

    The first error is raised.
    """
    bounds = [count * part // parts for part in range(parts + 1)]
    if parts == 1:
        task(0, 0, count)
        return
    with Threads(parts) as pool:
        for _ in pool.map(task, range(parts), bounds[:-1], bounds[1:]):
            pass
