"""Plain searches and a brute-force judge, written apart from the validator; checked by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from ooc_graph.types import INT64_UNREACHED, EdgeBlock
from ooc_graph.validate import BfsAnswer, SsspAnswer, VertexIndex


def arcs_of(edges, directed):
    """(u, v, w) of every arc, loops left out, as Python scalars of the weights' dtype."""
    weight = [None] * len(edges) if edges.weight is None else list(edges.weight)
    ends = edges.source.tolist(), edges.target.tolist()
    tuples = [t for t in zip(*ends, weight, strict=True) if t[0] != t[1]]
    return tuples if directed else tuples + [(v, u, w) for u, v, w in tuples]


def plain_bfs(ids, edges, root, *, directed):
    """Level of each id and any right parent."""
    level, parent, ring = {root: 0}, {root: root}, [root]
    arcs = arcs_of(edges, directed)
    while ring:
        found = [(u, v) for u, v, _ in arcs if u in ring and v not in level]
        for u, v in found:
            level[v], parent[v] = level[u] + 1, u
        ring = sorted({v for _, v in found})
    return BfsAnswer(
        root,
        np.array([parent.get(i, -1) for i in ids], dtype=np.int64),
        np.array([level.get(i, -1) for i in ids], dtype=np.int32),
        VertexIndex.ascending(np.array(ids, dtype=np.int64)),
    )


def plain_sssp(ids, edges, root, *, directed):
    """Bellman-Ford; parents as they were last lowered, so that zero weights make no cycle."""
    kind = edges.weight.dtype
    far = kind.type(INT64_UNREACHED if kind == np.int64 else np.inf)
    distance, parent = {root: kind.type(0)}, {root: root}
    arcs, changed = arcs_of(edges, directed), True
    while changed:
        changed = False
        for u, v, w in arcs:
            if u in distance and distance[u] + w < distance.get(v, far):
                distance[v], parent[v], changed = distance[u] + w, u, True
    return SsspAnswer(
        root,
        np.array([parent.get(i, -1) for i in ids], dtype=np.int64),
        np.array([distance.get(i, far) for i in ids], dtype=kind),
        VertexIndex.ascending(np.array(ids, dtype=np.int64)),
    )


def leads_home(ids, answer):
    """Whether the parents of every reached vertex lead to the root."""
    parent = dict(zip(ids, answer.parent.tolist(), strict=True))
    for start in ids:
        v, steps = start, 0
        while parent[v] not in (-1, v) and steps <= len(ids):
            v, steps = parent[v], steps + 1
        if parent[v] != -1 and v != answer.root:
            return False
    return True


def right_bfs(ids, edges, answer, *, directed):
    """Judge an answer by the definition: right levels, and parents one level up across an arc."""
    right = plain_bfs(ids, edges, answer.root, directed=directed)
    level = dict(zip(ids, right.level.tolist(), strict=True))
    joined = {(u, v) for u, v, _ in arcs_of(edges, directed)}
    if answer.level.tolist() != right.level.tolist():
        return False
    for v, p in zip(ids, answer.parent.tolist(), strict=True):
        if v == answer.root or level[v] == -1:
            fine = p == (answer.root if v == answer.root else -1)
        else:
            fine = (p, v) in joined and level[p] == level[v] - 1
        if not fine:
            return False
    return True


def right_sssp(ids, edges, answer, *, directed):
    """Judge an answer by the definition: right distances, parents on shortest paths, no cycle."""
    right = plain_sssp(ids, edges, answer.root, directed=directed)
    if not np.array_equal(answer.distance, right.distance):
        return False
    distance = dict(zip(ids, right.distance, strict=True))
    # Arcs of unreached vertices are on no path; an integer sum there would overflow.
    arcs = [arc for arc in arcs_of(edges, directed) if distance[arc[0]] != right.unreached]
    for v, p, known in zip(ids, answer.parent.tolist(), right.parent.tolist(), strict=True):
        if v == answer.root or known == -1:
            fine = p == known
        else:
            fine = any(a == p and b == v and distance[a] + w == distance[v] for a, b, w in arcs)
        if not fine:
            return False
    return leads_home(ids, answer)


@pytest.mark.parametrize("directed", [False, True])
def test_oracles_agree_with_scipy(directed):
    rng = np.random.default_rng(5)
    n, m = 30, 45
    edges = EdgeBlock(rng.integers(0, n, m), rng.integers(0, n, m), rng.integers(1, 9, m))
    pairs = np.unique(np.c_[edges.source, edges.target], axis=0)
    table = np.full((n, n), np.inf)
    np.minimum.at(table, (edges.source, edges.target), edges.weight)
    graph = coo_array((table[pairs[:, 0], pairs[:, 1]], pairs.T), shape=(n, n)).tocsr()
    for root in range(n):
        ids = list(range(n))
        far = dijkstra(graph, directed=directed, indices=root)
        ours = plain_sssp(ids, edges, root, directed=directed)
        assert np.array_equal(np.where(np.isinf(far), INT64_UNREACHED, far), ours.distance)
        hops = dijkstra(graph, directed=directed, indices=root, unweighted=True)
        level = plain_bfs(ids, edges, root, directed=directed).level
        assert np.array_equal(np.where(np.isinf(hops), -1, hops), level)
        assert leads_home(ids, ours)
