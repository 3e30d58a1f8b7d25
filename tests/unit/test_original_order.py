"""The compiled loops that bring answers into the order of original ids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ooc_graph.answers import scatter
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.kernels.cpu.original_order import order_measures, order_parents


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_orders_are_those_of_a_plain_loop(bits: int, dtype: str) -> None:
    random = np.random.default_rng(5)
    vertices, rows = 1000, 400
    internal_of = np.full(vertices, -1, f"int{bits}")
    internal_of[random.choice(vertices, rows, replace=False)] = random.permutation(rows)
    original_of = np.sort(random.choice(1 << 40, rows, replace=False))
    none = np.iinfo(f"uint{bits}").max
    parent = random.integers(0, rows, rows).astype(f"uint{bits}")
    parent[random.random(rows) < 0.3] = none
    measure = random.integers(0, 99, rows).astype(dtype)
    unreached = measure.dtype.type(-1)
    parents, measures = np.empty(vertices, np.int64), np.empty(vertices, dtype)
    order_parents(internal_of, parent, original_of, parents)
    order_measures(internal_of, measure, unreached, measures)
    for vertex, row in enumerate(internal_of.tolist()):
        reached = row >= 0 and parent[row] != none
        assert parents[vertex] == (original_of[parent[row]] if reached else -1)
        assert measures[vertex] == (measure[row] if row >= 0 else unreached)
    assert_array_equal(parents[internal_of < 0], -1)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("root_has_row", [True, False])
def test_columns_are_those_of_plain_numpy(
    threads: int,
    is_dense: bool,
    kernel: str,
    root_has_row: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scatter, "_THREAD_VERTICES", 1 << 10)
    random = np.random.default_rng(7)
    vertices, rows = 100_001, 60_000
    internal_of = np.full(vertices, -1, np.int32)
    at = random.permutation(vertices)[:rows]
    internal_of[at] = np.arange(rows)
    largest = (1 << 30, 1 << 40)[root_has_row]
    ascending = np.sort(random.choice(largest, vertices, replace=False))
    originals = np.arange(5, vertices + 5) if is_dense else ascending
    ids = Ids(internal_of, originals[at], 5 if is_dense else None, None if is_dense else originals)
    parent = random.integers(0, rows, rows).astype(np.uint32)
    unreached = random.random(rows) < 0.3
    parent[unreached] = np.iinfo(np.uint32).max
    none = -1 if kernel == "bfs" else np.inf
    measure = np.where(unreached, none, random.integers(0, 9, rows))
    measure = measure.astype(np.int32 if kernel == "bfs" else np.float32)
    isolated = int(np.flatnonzero(internal_of < 0)[0])
    root = int(at[0]) if root_has_row else isolated
    tree = Tree(kernel, int(originals[root]), root, parent, measure)

    expected_parent, expected = np.full(vertices, -1), np.full(vertices, none, measure.dtype)
    expected_parent[at] = np.where(unreached, -1, originals[at][np.where(unreached, 0, parent)])
    expected[at] = measure
    expected_parent[root], expected[root] = originals[root], 0
    columns = TreeColumns(tree, ids).in_memory(threads)
    name = "level" if kernel == "bfs" else "distance"
    assert list(columns) == ["vertex", "parent", name]
    assert_array_equal(columns["vertex"], originals)
    assert_array_equal(columns["parent"], expected_parent)
    assert_array_equal(columns[name], expected)
