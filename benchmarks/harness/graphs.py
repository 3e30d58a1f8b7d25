"""Graphs that benchmarks search: Graph500's, random ones, grids, and those of the shared data."""

import os
from pathlib import Path
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.types import AnyArray, IntArray, Rows, Shard

UNIT_EDGES, BLOCK_EDGES = 1 << 22, 1 << 18
ROAD_NY = "dimacs9-road/USA-road-d.NY.gr.gz"
ROAD_BAY = "dimacs9-topology/BAY.pace.gr.gz"
ROAD_ROME = "dimacs9-road/rome99.gr"
RANDOM_STATE = 7
DEGREE = 16
Ends = tuple[IntArray, IntArray, int]
Arcs = tuple[int, IntArray, IntArray, AnyArray]


def data_folder() -> Path:
    """Where the shared graphs are looked for: OOC_GRAPH_SHARED, else beside the repository."""
    named = os.environ.get("OOC_GRAPH_SHARED")
    shared = Path(named) if named else Path(__file__).resolve().parents[3] / "shared"
    return shared / "data"


def read_columns(source: EdgeSource) -> tuple[IntArray, IntArray, AnyArray | None]:
    """All edges of a source, as columns in memory."""
    blocks = [
        block for unit in source.units(UNIT_EDGES) for block in source.read(unit, BLOCK_EDGES)
    ]
    u = np.concatenate([block.source for block in blocks])
    v = np.concatenate([block.target for block in blocks])
    weights = [block.weight for block in blocks if block.weight is not None]
    return u, v, np.concatenate(weights) if weights else None


def kronecker_in_memory(scale: int) -> Any:
    """Graph500's graph, built in memory."""
    edges = og.Kronecker(scale)
    return og.from_edges(*edges.block(0, edges.edges), vertices=edges.vertices)


def internal_keys(graph: og.Graph, source: og.Kronecker, count: int) -> list[int]:
    """Internal ids of Graph500's search keys."""
    return [int(row) for row in graph.internal_of()[source.search_keys(count)]]


def kronecker_ends(scale: int, edge_factor: int) -> Ends:
    """Ends of Graph500's edges, and the number of vertices."""
    u, v, _ = og.Kronecker(scale, edge_factor=edge_factor).block(0, edge_factor << scale)
    return u, v, 1 << scale


def grid_ends(side: int) -> Ends:
    """Ends of the edges of a square grid, and the number of vertices."""
    at = np.arange(side * side).reshape(side, side)
    u = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    v = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    return u, v, side * side


def random_arcs(vertices: int, *, negative: bool) -> Arcs:
    """Arcs with ends and weights drawn at random; potentials make many weights negative."""
    random = np.random.default_rng(RANDOM_STATE)
    key = np.unique(random.integers(0, vertices**2, vertices * DEGREE))
    u, v = key // vertices, key % vertices
    u, v = u[u != v], v[u != v]
    weight = random.random(len(u))
    if negative:
        by = random.random(vertices)
        weight += by[u] - by[v]
    return vertices, u, v, weight


def light_first(vertices: int, row: IntArray, neighbor: IntArray, weight: AnyArray) -> Rows:
    """Rows of arcs, the lightest arcs first."""
    order = np.lexsort((neighbor, weight, row))
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=vertices))])
    return Rows(ends.astype(np.uint64), neighbor[order].astype(np.uint32), weight[order])


def both_sides(arcs: Arcs) -> tuple[Rows, Rows]:
    """Rows of arcs that lead away from each vertex, and of those that lead to it."""
    vertices, u, v, weight = arcs
    return light_first(vertices, u, v, weight), light_first(vertices, v, u, weight)


def light_shard(u: IntArray, v: IntArray, weight: AnyArray, **options: Any) -> Shard:
    """The light-first rows of a graph that is built in memory."""
    graph: Any = og.from_edges(u, v, weight, **options)
    shard: Shard = graph.load("light")
    return shard


def some_rows(rows: int, count: int) -> IntArray:
    """Internal ids drawn at random, each once."""
    return np.random.default_rng(RANDOM_STATE).choice(rows, min(count, rows), replace=False)


def random_roots(rows: int, count: int, random_state: int) -> list[int]:
    """Internal ids drawn at random."""
    return np.random.default_rng(random_state).integers(0, rows, count).tolist()
