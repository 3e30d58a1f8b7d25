"""Graphs searched from many sources at once, and what the CPU finds there."""

from __future__ import annotations

from functools import cache

import numpy as np

from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.types import AnyArray, IntArray, Rows
from tests.gpu.comparison import graph, light_sides

TEAM = Team(4)
SHAPES = [
    *(f"kronecker {scale}" for scale in (4, 9, 13)),
    *("skewed", "skewed, directed", "sparse, directed", "path", "path, directed", "star"),
    *("pieces", "grid", "one edge", "zero weights", "equal weights", "plateaus, directed"),
    *("absorbed weights", "grid of plateaus"),
]
MANY, FEW = 300, 5


def sides(name: str, weights: str) -> tuple[Rows, Rows]:
    out, into, _ = light_sides(graph(name, weights))
    return out, into


def shifted(rows: Rows, by: AnyArray, *, into: bool) -> Rows:
    """Rows whose weights ``by`` has made negative, in part; light first again."""
    assert rows.weights is not None
    row = np.repeat(np.arange(len(by)), np.diff(rows.offsets.astype(np.int64)))
    source, target = (rows.neighbors, row) if into else (row, rows.neighbors)
    weights = ((rows.weights + by[source]) - by[target]).astype(rows.weights.dtype)
    order = np.lexsort((rows.neighbors, weights, row))
    return Rows(rows.offsets, rows.neighbors[order], weights[order])


def negative_sides(name: str, weights: str) -> tuple[Rows, Rows]:
    out, into = sides(name, weights)
    random = np.random.default_rng(2)
    by = random.integers(0, 64, len(out.offsets) - 1)
    if weights.startswith("float"):
        # Exact in both types, so that no cycle becomes negative.
        by = by / 64
    return shifted(out, by, into=False), shifted(into, by, into=True)


def some(rows: Rows, count: int) -> IntArray:
    vertices = len(rows.offsets) - 1
    chosen = np.random.default_rng(3).permutation(vertices)[: count - 2]
    return np.concatenate([[0, vertices - 1], chosen]).astype(np.int64)


@cache
def right(name: str, weights: str, count: int) -> tuple[IntArray, AnyArray]:
    out, into = sides(name, weights)
    sources = some(out, count)
    return sources, CpuJohnson(out, into, TEAM).run(sources)
