"""Random graphs as the product holds them in memory: rows by falling degree, dealt to shards."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from hypothesis import strategies as st

from ooc_graph.types import Dealing, Rows, Shard
from tests.oracles import Graph

WEIGHTS = ("float32", "float64", "int32", "int64")


@dataclass(frozen=True, eq=False)
class Arcs:
    """A graph after renumbering: arcs without duplicates and loops, tuples per vertex."""

    vertices: int
    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    tuples: np.ndarray
    directed: bool

    def lists(self) -> Graph:
        graph: Graph = [[] for _ in range(self.vertices)]
        rows = zip(self.source.tolist(), self.target.tolist(), self.weight, strict=True)
        for u, v, w in rows:
            graph[u].append((v, w))
        return graph

    def shards(self, count: int, ids: str = "uint32") -> list[Shard]:
        dealt = _DEALT.setdefault(self, {})
        if (count, ids) not in dealt:
            dealings = [Dealing(self.vertices, count, s) for s in range(count)]
            dealt[count, ids] = [self._shard(dealing, ids) for dealing in dealings]
        return dealt[count, ids]

    def _shard(self, dealing: Dealing, ids: str) -> Shard:
        mine = dealing.internal_of(np.arange(dealing.rows))
        tuples = self.tuples[mine].astype(np.uint32)
        hub, light = _rows(self.source, self.target, self.weight, mine, self.vertices, ids)
        if not self.directed:
            return Shard(dealing, False, tuples, hub, None, light, None)
        into_hub, into_light = _rows(
            self.target, self.source, self.weight, mine, self.vertices, ids
        )
        return Shard(dealing, True, tuples, hub, into_hub, light, into_light)


# Tests ask for the same shards again and again, and nobody writes to them.
_DEALT: WeakKeyDictionary[Arcs, dict[tuple[int, str], list[Shard]]] = WeakKeyDictionary()


def _rows(source, target, weight, mine, vertices, ids) -> tuple[Rows, Rows]:
    counts = np.bincount(source, minlength=vertices)[mine]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    local = np.full(vertices, -1)
    local[mine] = np.arange(len(mine))
    keep = local[source] >= 0
    row, v, w = local[source[keep]], target[keep], weight[keep]
    hub, light = np.lexsort((v, row)), np.lexsort((v, w, row))
    return Rows(offsets, v[hub].astype(ids)), Rows(offsets, v[light].astype(ids), w[light])


def arcs_of(source, target, weight, *, directed: bool) -> Arcs:
    """Renumber by falling tuple count, drop loops, keep the lightest duplicate."""
    source, target, weight = np.asarray(source), np.asarray(target), np.asarray(weight)
    keep = source != target
    source, target, weight = source[keep], target[keep], weight[keep]
    used, flat = np.unique(np.concatenate([source, target]), return_inverse=True)
    tuples = np.bincount(flat, minlength=len(used))
    order = np.argsort(-tuples, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    source, target = rank[flat[: len(source)]], rank[flat[len(source) :]]
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        weight = np.concatenate([weight, weight])
    by = np.lexsort((weight, target, source))
    source, target, weight = source[by], target[by], weight[by]
    first = np.ones(len(source), bool)
    first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
    kept = source[first], target[first], weight[first]
    return Arcs(len(used), *kept, tuples[order], directed)


@st.composite
def small_arcs(draw, dtype: str = "float32") -> Arcs:
    """Up to 40 vertices; weights with zeros, ties and values that rounding absorbs."""
    n = draw(st.integers(2, 40))
    count = draw(st.integers(1, 120))
    ends = st.lists(st.integers(0, n - 1), min_size=count, max_size=count)
    source, target = np.array(draw(ends)), np.array(draw(ends))
    if not (source != target).any():
        source[0], target[0] = 0, 1
    if dtype.startswith("float"):
        value = st.sampled_from([0.0, 1e-9, 0.1, 0.25, 0.3, 0.5, 1.0, 7.0, 1e6])
    else:
        value = st.sampled_from([0, 1, 1, 2, 3, 10, 255, 2**31 - 1])
    weight = np.array(draw(st.lists(value, min_size=count, max_size=count)), dtype)
    return arcs_of(source, target, weight, directed=draw(st.booleans()))


def skewed(vertices: int, edges: int, dtype: str, *, directed: bool, seed: int) -> Arcs:
    """Power-law ends, so that there are hubs, leaves and pieces apart; uniform weights."""
    random = np.random.default_rng(seed)
    source = (vertices * random.random(edges) ** 3).astype(np.int64)
    target = (vertices * random.random(edges) ** 2).astype(np.int64)
    return arcs_of(source, target, weights(random, edges, dtype), directed=directed)


def weights(random: np.random.Generator, edges: int, dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return random.random(edges).astype(dtype)
    return random.integers(0, 256, edges).astype(dtype)


def grid(side: int, dtype: str, seed: int = 1) -> Arcs:
    at = np.arange(side * side).reshape(side, side)
    source = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    target = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    random = np.random.default_rng(seed)
    return arcs_of(source, target, weights(random, len(source), dtype), directed=False)


def absorbing() -> tuple[Arcs, int]:
    """A graph and a root, behind a distance of 2^25: there a float32 swallows a weight of 1."""
    ends = np.arange(400)
    source, target = np.r_[0, ends[1:-1], ends[1:-9]], np.r_[1, ends[2:], ends[10:]]
    weight = np.ones(len(source), np.float32)
    weight[0] = 2.0**25
    arcs = arcs_of(source, target, weight, directed=False)
    root = int(np.flatnonzero(arcs.tuples == 1)[0])
    return arcs, root


# Scales: with each, the sum of two weights of 2^62 is just too long. For uint32 that is so only in
# the 32 bits that CUDA devices sum in at first.
TOO_LONG = {"int64": 1.0, "uint32": 2.0**-31, "float32": 2.0**65, "float64": 2.0**961}


def too_far_at_first(dtype: str) -> Arcs:
    """A graph in which sums overflow on some ways, but on no shortest one of any root."""
    scale = TOO_LONG[dtype]
    big, less, light = 2**62, 2**61, 2**52
    source = [10, 5, 6, 6, 7, 7, 7, 8, 8, 9]
    target = [7, 6, 11, 9, 5, 8, 9, 6, 7, 10]
    weight = np.array([light, light, 1, 1, big, light, less, 1, big, less])
    return arcs_of(source, target, (weight * scale).astype(dtype), directed=True)


FAR_SEEDS = range(40)
"""With some, a search is wrong that takes an unreached vertex for one that cannot be reached."""


def far_arcs(dtype: str, seed: int) -> Arcs:
    """A small directed graph in which many sums are too long, and many others nearly so."""
    random = np.random.default_rng(seed)
    vertices = int(random.integers(5, 40))
    count = int(random.integers(vertices, 4 * vertices))
    source, target = random.integers(0, vertices, (2, count))
    source[0], target[0] = 0, 1
    weight = random.choice([2**62, 2**62 - 2**40, 2**61, 2**60, 2**52, 2**40, 2**32], count)
    return arcs_of(source, target, (weight * TOO_LONG[dtype]).astype(dtype), directed=True)


def metric(vertices: int, *, density: float, seed: int = 1) -> Arcs:
    """Directed, among points in a square: many pairs have an arc, and most arcs are needed."""
    random = np.random.default_rng(seed)
    at = random.random((vertices, 2))
    source, target = np.nonzero(random.random((vertices, vertices)) < density)
    apart = np.hypot(*(at[source] - at[target]).T)
    return arcs_of(source, target, (apart * 10**4).astype(np.int64) + 1, directed=True)
