"""The compiled loops that bring answers into the order of original ids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

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


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("is_dense", [True, False])
def test_any_number_of_threads_gives_the_same_columns(threads: int, is_dense: bool) -> None:
    random = np.random.default_rng(7)
    vertices, rows = 100_001, 60_000
    internal_of = np.full(vertices, -1, np.int32)
    at = random.choice(vertices, rows, replace=False)
    internal_of[at] = random.permutation(rows)
    originals = None if is_dense else np.sort(random.choice(1 << 40, vertices, replace=False))
    original_of = np.empty(rows, np.int64)
    original_of[internal_of[at]] = at + 5 if originals is None else originals[at]
    ids = Ids(internal_of, original_of, 5 if is_dense else None, originals)
    parent = random.integers(0, rows, rows).astype(np.uint32)
    level = random.integers(0, 9, rows).astype(np.int32)
    root = int(at[0])
    tree = Tree("bfs", ids.original_at(root), root, parent, level)
    one = TreeColumns(tree, ids).in_memory()
    several = TreeColumns(tree, ids).in_memory(threads)
    assert list(one) == list(several) == ["vertex", "parent", "level"]
    for name, column in one.items():
        assert_array_equal(several[name], column)
    assert_array_equal(one["vertex"], ids.original_ids(0, vertices))
