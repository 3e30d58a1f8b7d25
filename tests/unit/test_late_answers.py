"""Columns of an answer are made when they are read, and stay those of their own search."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.late import LateColumns
from ooc_graph.answers.scatter import TreeColumns
from ooc_graph.errors import UsageError
from ooc_graph.runtime import engine_cache

TREES = ("bfs", "sssp")
KERNELS = (*TREES, "components")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, og.Graph]:
    folder = tmp_path_factory.mktemp("graphs")
    dense = og.build(og.Kronecker(11), folder / "g.zarr", rows="both", device="cpu")
    u, v, w = og.Kronecker(9).block(0, 4096)
    sparse = og.build(
        (7 * u + 5, 7 * v + 5, w), folder / "s.zarr", rows="both", device="cpu", directed=True
    )
    return {"dense": dense, "sparse": sparse}


def searched(graph: og.Graph, kernel: str, number: int) -> Any:
    if kernel == "components":
        return og.components(graph, device="cpu")
    root = int(graph.original_of()[number])
    return getattr(og, kernel)(graph, root, device="cpu")


def read_at_once(graph: og.Graph, kernel: str, number: int) -> dict[str, bytes]:
    columns = searched(graph, kernel, number).columns
    return {name: column.tobytes() for name, column in columns.items()}


@pytest.mark.parametrize("ids", ["dense", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("between", ["search", "release", "search release search", "pickle"])
def test_an_answer_that_is_read_late_is_its_own(
    graphs: dict[str, og.Graph], kernel: str, between: str, ids: str
) -> None:
    graph = graphs[ids]
    right = read_at_once(graph, kernel, 3)
    if kernel in TREES:
        assert right != read_at_once(graph, kernel, 40)
    late = searched(graph, kernel, 3)
    columns = late.columns
    for event in between.split():
        if event == "search":
            searched(graph, kernel, 40)
        elif event == "release":
            engine_cache.release()
        else:
            columns = pickle.loads(pickle.dumps(columns))
    assert {name: column.tobytes() for name, column in columns.items()} == right


@pytest.mark.parametrize("ids", ["dense", "sparse"])
@pytest.mark.parametrize("kernel", TREES)
def test_a_column_that_nobody_reads_is_not_made(
    graphs: dict[str, og.Graph], kernel: str, ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    fill_all = TreeColumns.fill_all

    def noted(self: TreeColumns, name: str, *rest: Any) -> None:
        made.append(name)
        fill_all(self, name, *rest)

    monkeypatch.setattr(TreeColumns, "fill_all", noted)
    graph, measure = graphs[ids], "level" if kernel == "bfs" else "distance"
    result = searched(graph, kernel, 3)
    assert "parent" in result.columns
    assert made == []
    result.read(measure)
    result.read(measure)
    assert made == [measure]
    # The search's arrays are written to; ids without gaps are not made of these.
    searched(graph, kernel, 4)
    assert made[1:] == (["parent"] if ids == "dense" else ["parent", "vertex"])
    with pytest.raises(KeyError):
        result.columns["weight"]


def test_an_answer_that_is_gone_is_not_completed(
    graphs: dict[str, og.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched(graphs["dense"], "bfs", 3)
    gc.collect()
    monkeypatch.setattr(TreeColumns, "fill_all", lambda *_: pytest.fail("was made"))
    searched(graphs["dense"], "bfs", 4)


def test_an_answer_does_not_keep_the_graph(graphs: dict[str, og.Graph]) -> None:
    result = searched(graphs["dense"], "bfs", 3)
    assert isinstance(result.columns, LateColumns)
    ids = weakref.ref(result.columns._columns.ids.internal_of)  # type: ignore[union-attr]
    engine_cache.release()
    gc.collect()
    assert ids() is None
    assert len(result.vertex) == graphs["dense"].vertices


@pytest.mark.parametrize("ids", ["dense", "sparse"])
def test_nothing_is_kept_of_a_search_once_all_is_read(
    graphs: dict[str, og.Graph], ids: str
) -> None:
    result = searched(graphs[ids], "bfs", 3)
    assert isinstance(result.columns, LateColumns)
    needed = [name for name in result.names if name != "vertex" or ids == "sparse"]
    for left, name in reversed(list(enumerate(reversed(needed)))):
        assert result.columns._columns is not None
        result.read(name)
        assert (result.columns._columns is None) == (left == 0)
    assert result.vertex.tolist() == graphs[ids].original_ids().tolist()


@pytest.mark.parametrize("kernel", TREES)
def test_parents_that_are_in_order_take_no_more_memory(
    graphs: dict[str, og.Graph], kernel: str
) -> None:
    result = searched(graphs["dense"], kernel, 3)
    beside = weakref.ref(result.columns._columns._parent_ids)
    assert len(beside()) == graphs["dense"].rows  # type: ignore[arg-type]
    result.read("parent")
    gc.collect()
    assert beside() is None


def test_readers_and_searches_at_the_same_time(graphs: dict[str, og.Graph]) -> None:
    graph = graphs["dense"]
    right = [read_at_once(graph, "bfs", number) for number in range(8)]
    wrong: list[int] = []

    def read(result: Any, number: int) -> None:
        names = "level", "parent", "vertex"
        if any(result.read(name).tobytes() != right[number][name] for name in names):
            wrong.append(number)

    for _ in range(20):
        readers: list[threading.Thread] = []
        for number in range(8):
            result = searched(graph, "bfs", number)
            reader = threading.Thread(target=read, args=(result, number))
            reader.start()
            readers.append(reader)
        for reader in readers:
            reader.join()
    assert wrong == []


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_seconds_by_part(
    graphs: dict[str, og.Graph], kernel: str, is_stored: bool, tmp_path: Path
) -> None:
    graph = graphs["dense"]
    root = () if kernel == "components" else (int(graph.original_of()[3]),)
    out = tmp_path / "r.zarr" if is_stored else None
    begun = perf_counter()
    result = getattr(og, kernel)(graph, *root, device="cpu", out=out)
    elapsed_s = perf_counter() - begun
    seconds, last = result.seconds, "write" if is_stored else "order"
    assert list(seconds) == ["plan", "load", "search", last]
    assert seconds["search"] == result.elapsed_s
    assert all(part >= 0 for part in seconds.values())
    assert sum(seconds.values()) <= elapsed_s
    if is_stored:
        assert seconds["write"] > 0
        assert type(result).open(out).seconds == {}
    else:
        assert seconds["order"] == 0
        result.read(result.names[1])
        assert result.seconds["order"] > 0


@pytest.mark.parametrize("kernel", TREES)
@pytest.mark.parametrize("ids", ["dense", "sparse"])
def test_columns_go_to_arrays_that_are_given(
    graphs: dict[str, og.Graph], kernel: str, ids: str
) -> None:
    graph = graphs[ids]
    right, root = read_at_once(graph, kernel, 3), int(graph.original_of()[3])
    measure = "level" if kernel == "bfs" else "distance"
    dtype = {"level": np.int32, "distance": np.float32}[measure]
    given = {"parent": np.empty(graph.vertices, np.int64), measure: np.empty(graph.vertices, dtype)}
    search = getattr(og, kernel)
    result = search(graph, root, device="cpu", into=given)
    assert {name: array.tobytes() for name, array in given.items()} == {
        name: right[name] for name in given
    }
    assert result.parent is given["parent"]
    assert result.read(measure) is given[measure]
    assert result.vertex.tobytes() == right["vertex"]
    assert result.seconds["order"] > 0


def test_arrays_are_filled_though_another_search_came_before(graphs: dict[str, og.Graph]) -> None:
    graph = graphs["dense"]
    right = read_at_once(graph, "bfs", 3)
    late = searched(graph, "bfs", 3).columns
    searched(graph, "bfs", 40)
    given = {"parent": np.empty(graph.vertices, np.int64)}
    late.put_into(given)
    assert given["parent"].tobytes() == right["parent"]
    assert late["parent"] is given["parent"]


@pytest.mark.parametrize(
    ("into", "said"),
    [
        ([1], "give a dictionary of arrays by column, not list"),
        ({"distance": np.empty(2048)}, "no column 'distance': choose vertex, parent, level"),
        ({"level": np.empty(2048)}, r"\['level'\]: give a NumPy array of int32 \(2048,\), not flo"),
        ({"level": np.empty(7, np.int32)}, r"not int32 \(7,\)"),
        ({"level": np.empty(4096, np.int32)[::2]}, "C-contiguous"),
    ],
)
def test_arrays_that_cannot_be_given(graphs: dict[str, og.Graph], into: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        og.bfs(graphs["dense"], 3, into=into)


def test_arrays_and_a_store_are_not_given_together(
    graphs: dict[str, og.Graph], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        og.bfs(graphs["dense"], 3, into={}, out=tmp_path / "r.zarr")
    assert not (tmp_path / "r.zarr").exists()
