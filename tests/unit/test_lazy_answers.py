"""Columns of an answer are made when they are asked for, and stay those of their own search."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ooc_graph as og
from ooc_graph.answers import scatter
from ooc_graph.answers.scatter import LazyColumns
from ooc_graph.kernels.cpu.original_order import order_measures, order_parents
from ooc_graph.runtime import engine_cache
from tests.unit.test_tier_memory import Scarce

KERNELS = ("bfs", "sssp")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "g.zarr"
    return og.build(og.Kronecker(11), path, rows="both", device="cpu")


def lazy_of(result: Any) -> LazyColumns:
    assert isinstance(result.columns, LazyColumns)
    return result.columns


def read_at_once(graph: og.Graph, kernel: str, root: int) -> dict[str, bytes]:
    result = getattr(og, kernel)(graph, root, device="cpu")
    return {name: column.tobytes() for name, column in result.columns.items()}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("between", ["a search", "a release", "both", "pickled"])
def test_an_answer_that_is_read_late_is_its_own(graph: og.Graph, kernel: str, between: str) -> None:
    first, second = graph.original_of()[[3, 40]].tolist()
    right = read_at_once(graph, kernel, first)
    assert right != read_at_once(graph, kernel, second)
    late = getattr(og, kernel)(graph, first, device="cpu")
    if between in ("a search", "both"):
        getattr(og, kernel)(graph, second, device="cpu")
    if between in ("a release", "both"):
        engine_cache.release()
        getattr(og, kernel)(graph, second, device="cpu")
    columns = pickle.loads(pickle.dumps(late.columns)) if between == "pickled" else late.columns
    assert {name: column.tobytes() for name, column in columns.items()} == right
    assert lazy_of(late)._columns is None


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_is_made_that_nobody_asks_for(graph: og.Graph, kernel: str) -> None:
    result = getattr(og, kernel)(graph, int(graph.original_of()[3]), device="cpu")
    measure = "level" if kernel == "bfs" else "distance"
    assert lazy_of(result)._left == {"vertex", "parent", measure}
    result.read(measure)
    assert lazy_of(result)._left == {"vertex", "parent"}
    # A search writes to its arrays, which the ids of vertices are not made of.
    getattr(og, kernel)(graph, int(graph.original_of()[4]), device="cpu")
    assert lazy_of(result)._left == {"vertex"}
    with pytest.raises(KeyError):
        lazy_of(result)["weight"]


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


@pytest.mark.parametrize("kernel", KERNELS)
def test_reading_allocates_nothing_that_may_be_refused(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is refused with the search, where a plan with less can follow."""
    root = int(graph.original_of()[3])
    right = read_at_once(graph, kernel, root)
    late = getattr(og, kernel)(graph, root, device="cpu")
    monkeypatch.setattr(scatter, "np", scarce := Scarce())
    assert {name: column.tobytes() for name, column in late.columns.items()} == right
    assert not scarce.places
