"""Plain searches to compare with: slow, obvious, and written apart from the product.

A graph is a list of rows; row v lists (neighbour, weight) of v's out-arcs, ids internal.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ooc_graph.errors import InputError

Graph = list[list[tuple[int, object]]]


def reverse(graph: Graph) -> Graph:
    into: Graph = [[] for _ in graph]
    for u, row in enumerate(graph):
        for v, w in row:
            into[v].append((u, w))
    return into


def bfs(graph: Graph, root: int) -> tuple[list[int], list[int]]:
    """Parents (-1 unreached) and levels; the parent is the smallest id one level up."""
    level = [-1] * len(graph)
    level[root] = 0
    queue = deque([root])
    while queue:
        u = queue.popleft()
        for v, _ in graph[u]:
            if level[v] < 0:
                level[v] = level[u] + 1
                queue.append(v)
    parent = [-1] * len(graph)
    for v, row in enumerate(reverse(graph)):
        if level[v] > 0:
            parent[v] = min(u for u, _ in row if level[u] == level[v] - 1)
    parent[root] = root
    return parent, level


def distances(graph: Graph, root: int, dtype: np.dtype) -> list:
    """Dijkstra in the dtype's own arithmetic; Python integers for integer weights."""
    zero = dtype.type(0) if dtype.kind == "f" else 0
    best: list = [None] * len(graph)
    heap = [(zero, root)]
    while heap:
        d, u = heapq.heappop(heap)
        if best[u] is not None:
            continue
        best[u] = d
        for v, w in graph[u]:
            if best[v] is None:
                heapq.heappush(heap, (add(d, w, dtype), v))
    return best


def add(d, w, dtype):
    with np.errstate(over="ignore"):  # infinite: too long
        return dtype.type(d) + dtype.type(w) if dtype.kind == "f" else int(d) + int(w)


def refused_by_both(search: Any, reference: Any, same: Callable, vertices: int) -> int:
    """Compare searches from all vertices; how many of them both refuse, with one message."""
    refused = 0
    for root in range(vertices):
        wanted, said = None, ""
        try:
            wanted = reference.run(root)
        except InputError as error:
            said = str(error)
        if wanted is not None:
            same(search.run(root), wanted)
            continue
        assert "exceeds the largest" in said
        with pytest.raises(InputError, match=re.escape(said)):
            search.run(root)
        refused += 1
    return refused


def sssp_parents(graph: Graph, root: int, best: list, dtype: np.dtype) -> list[int]:
    """Decision 7, word for word."""
    into = reverse(graph)
    parent = [-1] * len(graph)
    parent[root] = root
    stuck = []
    for v, row in enumerate(into):
        if v == root or best[v] is None:
            continue
        tight = [u for u, w in row if best[u] is not None and add(best[u], w, dtype) == best[v]]
        lower = [(best[u], u) for u in tight if best[u] < best[v]]
        if lower:
            parent[v] = min(lower)[1]
        else:
            stuck.append((v, tight))
    while stuck:
        ready = [
            (v, min(u for u in tight if parent[u] >= 0))
            for v, tight in stuck
            if any(parent[u] >= 0 for u in tight)
        ]
        assert ready, "a plateau without an entrance"
        for v, u in ready:
            parent[v] = u
        solved = {v for v, _ in ready}
        stuck = [(v, tight) for v, tight in stuck if v not in solved]
    return parent


def components(vertices: list[int], pairs: list[tuple[int, int]]) -> list[int]:
    """Smallest vertex that each one is connected to, whatever the direction of the pairs."""
    neighbors: dict[int, set[int]] = {v: set() for v in vertices}
    for u, v in pairs:
        neighbors[u].add(v)
        neighbors[v].add(u)
    label: dict[int, int] = {}
    for start in sorted(vertices):
        if start in label:
            continue
        label[start] = start
        stack = [start]
        while stack:
            for v in neighbors[stack.pop()]:
                if v not in label:
                    label[v] = start
                    stack.append(v)
    return [label[v] for v in vertices]


def pagerank(
    graph: Graph,
    alpha: float,
    iterations: int,
    jump: dict[int, float] | None,
    landing: dict[int, float] | None,
) -> list[float]:
    """PageRank in plain floats; chances are by vertex, None: all alike, or as ``jump``."""
    count = len(graph)
    alike = dict.fromkeys(range(count), 1 / count)
    jump = jump or alike
    landing = landing or jump
    totals = [math.fsum(float(w) for _, w in row) for row in graph]
    score = [1 / count] * count
    for _ in range(iterations):
        dangling = math.fsum(score[u] for u in range(count) if totals[u] == 0)
        arriving: list[list[float]] = [
            [(1 - alpha) * jump.get(v, 0), alpha * dangling * landing.get(v, 0)]
            for v in range(count)
        ]
        for u, row in enumerate(graph):
            for v, w in row:
                if totals[u]:
                    arriving[v].append(alpha * score[u] * float(w) / totals[u])
        score = [math.fsum(one) for one in arriving]
    return score
