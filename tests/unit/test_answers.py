"""Search trees by internal id to columns by original id: in memory, stored, exported, as frames."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
import ooc_graph.answers.export as export_module
from ooc_graph.answers import scatter
from ooc_graph.answers.component_columns import ComponentColumns
from ooc_graph.answers.export import export
from ooc_graph.answers.result import (
    BfsResult,
    ComponentsResult,
    Result,
    SsspResult,
    TreeResult,
)
from ooc_graph.answers.scatter import Columns, Ids, Tree, TreeColumns
from ooc_graph.errors import DiskFullError, NotAStoreError, OutputExistsError, UsageError
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.stored import Stored
from ooc_graph.types import INT64_UNREACHED
from tests.unit.test_build_oracle import INT64_MAX, small_steps

MEASURES = {"bfs": ["int32"], "sssp": ["float32", "float64", "int64"]}
KINDS = [(kernel, dtype) for kernel, dtypes in MEASURES.items() for dtype in dtypes]


def made_up(
    kernel: str, dtype: str, size: int, seed: int, *, gapped: bool, wide: bool, lonely: bool
) -> tuple[Tree, Ids, dict[str, list[Any]]]:
    """A tree, the id tables, and the columns as a loop over the vertices has them."""
    rng = np.random.default_rng(seed)
    ids = np.sort(rng.choice(INT64_MAX, size, replace=False)) if gapped else np.arange(size) + 3
    ids[-1] = INT64_MAX if gapped else ids[-1]
    rows = int(rng.integers(0, size)) if lonely else int(rng.integers(1, size + 1))
    with_row = rng.permutation(size)[:rows]
    internal = np.full(size, -1)
    internal[with_row] = np.arange(rows)
    reached = rng.random(rows) < 0.7
    place = int(np.flatnonzero(internal < 0)[0]) if lonely else int(with_row[0])
    root = int(ids[place])
    parent = rng.integers(0, max(1, rows), rows)
    measure = measures(rng, dtype, rows)
    none = -1 if kernel == "bfs" else (INT64_UNREACHED if dtype == "int64" else np.inf)
    if lonely:
        reached[:] = False
    else:
        reached[0], parent[0], measure[0] = True, 0, 0
    measure[~reached] = none
    want: dict[str, list[Any]] = {"vertex": [], "parent": [], "measure": []}
    for position, vertex in enumerate(ids.tolist()):
        row = internal[position]
        found = row >= 0 and bool(reached[row])
        want["vertex"].append(vertex)
        want["parent"].append(int(ids[with_row[parent[row]]]) if found else -1)
        want["measure"].append(measure[row] if found else none)
    want["parent"][place], want["measure"][place] = root, 0
    id_type = np.uint64 if wide else np.uint32
    by_internal = parent.astype(id_type)
    by_internal[~reached] = np.iinfo(id_type).max
    tables = Ids(
        internal.astype(np.int64 if wide else np.int32),
        ids[with_row],
        None if gapped else 3,
        ids if gapped else None,
    )
    return Tree(kernel, root, place, by_internal, measure), tables, want


def measures(rng: np.random.Generator, dtype: str, rows: int) -> np.ndarray:
    if dtype == "int64":
        return rng.integers(0, INT64_MAX, rows)
    if dtype == "int32":
        return rng.integers(0, 9, rows).astype(np.int32)
    bits = rng.integers(0, 256, rows * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    return np.where(np.isfinite(bits), abs(bits), bits.dtype.type(0.1))


def write_result(path: Path, tree: Tree, ids: Ids) -> Result:
    return write(path, tree.kernel, TreeColumns(tree, ids))


def write(path: Path, kernel: str, columns: Columns) -> Result:
    with partial_store(path, "result", overwrite=False) as store:
        specs, entries = columns.write(store.folder)
        attributes = {"kernel": kernel, "graph_sha256": "ab" * 32, **columns.attributes}
        store.commit("result", attributes, specs, entries)
    return Result.open(path)


def in_memory(tree: Tree, ids: Ids) -> Result:
    kind = BfsResult if tree.kernel == "bfs" else SsspResult
    return kind(tree.root, 0.5, TreeColumns(tree, ids).in_memory())


def check_result(result: Result, want: dict[str, list[Any]], dtype: str) -> None:
    assert result.vertex.dtype == result.parent.dtype == np.int64
    assert result.vertex.tolist() == want["vertex"]
    assert result.parent.tolist() == want["parent"]
    measure = result.read(result.measure)
    assert measure.tobytes() == np.array(want["measure"], dtype).tobytes()
    assert result.reached.tolist() == [parent >= 0 for parent in want["parent"]]


@settings(deadline=None, max_examples=40)
@given(
    kind=st.sampled_from(KINDS),
    size=st.integers(1, 60),
    seed=st.integers(0, 1 << 20),
    gapped=st.booleans(),
    wide=st.booleans(),
    lonely=st.booleans(),
    piece=st.sampled_from([1, 7, 1000]),
    chunk=st.sampled_from([8, 40, 1 << 20]),
)
def test_columns_in_memory_and_stored(
    tmp_path_factory: pytest.TempPathFactory,
    kind: tuple[str, str],
    size: int,
    seed: int,
    gapped: bool,
    wide: bool,
    lonely: bool,
    piece: int,
    chunk: int,
) -> None:
    tree, ids, want = made_up(*kind, size, seed, gapped=gapped, wide=wide, lonely=lonely)
    with small_steps(chunk=chunk) as patch:
        patch.setattr(scatter, "_piece_size", lambda _: piece)
        check_result(in_memory(tree, ids), want, kind[1])
        result = write_result(tmp_path_factory.mktemp("answer") / "r.zarr", tree, ids)
        check_result(result, want, kind[1])
        assert isinstance(result, BfsResult if kind[0] == "bfs" else SsspResult)
        assert result.root == tree.root
        assert result.elapsed_s is None


@pytest.fixture(params=KINDS, ids="-".join)
def answer(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Result, Result, dict[str, list[Any]], str]:
    """The same answer stored in several chunks and in memory, what it is, and its dtype."""
    kernel, dtype = request.param
    tree, ids, want = made_up(kernel, dtype, 500, 6, gapped=True, wide=False, lonely=False)
    monkeypatch.setattr(scatter, "_piece_size", lambda _: 100)
    monkeypatch.setattr("ooc_graph.layout.names.CHUNK_BYTES", 1024)
    monkeypatch.setattr(export_module, "_ROWS", 90)
    return write_result(tmp_path / "r.zarr", tree, ids), in_memory(tree, ids), want, dtype


def test_attributes_say_what_unreached_is(answer: Any) -> None:
    stored, _, _, dtype = answer
    assert isinstance(stored.columns, Stored)
    said = stored.columns.attributes
    assert (said["root"], said["graph_sha256"]) == (stored.root, "ab" * 32)
    value = {"int32": -1, "int64": INT64_UNREACHED}.get(dtype, "+inf")
    assert said["unreached"] == value
    assert said["kernel"] == ("bfs" if dtype == "int32" else "sssp")
    measure = stored.read(stored.measure)[~stored.reached]
    assert len(measure) > 0
    assert (measure == float(value) if value == "+inf" else measure == value).all()


def test_frames(answer: Any) -> None:
    for result in answer[:2]:
        frame = result.to_frame()
        assert list(frame.columns) == ["vertex", "distance", "predecessor"]
        np.testing.assert_array_equal(frame["vertex"], result.vertex)
        np.testing.assert_array_equal(frame["distance"], result.read(result.measure))
        np.testing.assert_array_equal(frame["predecessor"], result.parent)
        assert frame["distance"].dtype == answer[3]
        lazy = result.to_dask_dataframe()
        pd.testing.assert_frame_equal(
            lazy.compute(scheduler="sync").reset_index(drop=True), frame, check_index_type=False
        )


def test_dask_arrays(answer: Any) -> None:
    stored, memory, _, _ = answer
    for name in stored.names:
        lazy = stored.to_dask_array(name)
        assert lazy.npartitions > 1
        assert (lazy.shape, lazy.dtype) == ((500,), stored.read(name).dtype)
        assert lazy.compute(scheduler="sync").tobytes() == stored.read(name).tobytes()
        here = memory.to_dask_array(name).compute(scheduler="sync")
        assert here.tobytes() == stored.read(name).tobytes()


def test_zarr(answer: Any) -> None:
    stored, memory, _, _ = answer
    group = stored.to_zarr()
    for name in stored.names:
        assert group[name][:].tobytes() == stored.read(name).tobytes()
    assert group.read_only
    with pytest.raises(UsageError, match="out=PATH"):
        memory.to_zarr()


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "npz"])
def test_exports_read_back_to_the_same_bits(answer: Any, tmp_path: Path, ending: str) -> None:
    for result in answer[:2]:
        path = tmp_path / f"r.{ending}"
        export(result, path, overwrite=True)
        table = read_export(path, answer[3])
        assert list(table) == ["vertex", "distance", "predecessor"]
        for name, column in (("distance", result.measure), ("predecessor", "parent")):
            assert result.read(name).tobytes() == result.read(column).tobytes()
        for name, column in table.items():
            assert column.dtype == result.read(name).dtype
            assert column.tobytes() == result.read(name).tobytes(), name
        assert sorted(p.name for p in tmp_path.iterdir()) == [f"r.{ending}", "r.zarr"]


def read_export(path: Path, dtype: str) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path) as columns:
            return {name: columns[name] for name in columns.files}
    if path.suffix == ".parquet":
        read = pq.read_table(path)
        return {name: read[name].to_numpy() for name in read.column_names}
    separator = "," if path.suffix == ".csv" else "\t"
    head, *lines = path.read_text().splitlines()
    rows = [line.split(separator) for line in lines]
    types = [np.dtype("int64"), np.dtype(dtype), np.dtype("int64")]
    columns_ = zip(head.split(separator), zip(*rows, strict=True), types, strict=True)
    return {
        name: np.array([kind.type(x) if kind.kind == "f" else int(x) for x in texts], kind)
        for name, texts, kind in columns_
    }


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "npz"])
def test_an_export_of_no_vertices_has_the_columns(tmp_path: Path, ending: str) -> None:
    none = np.empty(0, np.int64)
    attributes = {"kernel": "components", "components": 0, "graph_sha256": "ab" * 32}
    with partial_store(tmp_path / "r.zarr", "result", overwrite=False) as partial:
        specs = [ArraySpec(name, 0, none.dtype) for name in ("vertex", "component")]
        partial.commit("result", attributes, specs, [])
    path = tmp_path / f"r.{ending}"
    for result in (
        Result.open(tmp_path / "r.zarr"),
        ComponentsResult(None, 0.0, {"vertex": none, "component": none}),
    ):
        export(result, path, overwrite=True)
        if ending == "parquet":
            read = pq.read_table(path)
            assert (read.num_rows, read.column_names) == (0, ["vertex", "labels"])
        elif ending == "npz":
            assert [len(column) for column in np.load(path).values()] == [0, 0]
        else:
            assert path.read_text() == (
                "vertex,labels\n" if ending == "csv" else "vertex\tlabels\n"
            )


def test_export_refusals(tmp_path: Path) -> None:
    tree, ids, _ = made_up("bfs", "int32", 5, 1, gapped=False, wide=False, lonely=False)
    result = in_memory(tree, ids)
    not_opened: Any = str(tmp_path / "r.zarr")
    with pytest.raises(UsageError, match="an opened answer, not str"):
        export(not_opened, tmp_path / "r.csv")
    with pytest.raises(UsageError, match=r"file ending in \.parquet"):
        export(result, tmp_path / "r.xlsx")
    with pytest.raises(OutputExistsError, match="no such folder"):
        export(result, tmp_path / "none" / "r.csv")
    export(result, tmp_path / "r.csv")
    before = (tmp_path / "r.csv").read_bytes()
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        export(result, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.csv"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "npz"])
def test_an_export_that_fails_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    tree, ids, _ = made_up("bfs", "int32", 5, 1, gapped=False, wide=False, lonely=False)
    path = tmp_path / f"r.{ending}"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(DiskFullError, match="disk is full") as caught:
        export(in_memory(tree, ids), path, overwrite=True)
    assert caught.value.exit_code == 75
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(0, 99), st.booleans(), st.booleans(), st.sampled_from([1, 3, 7])
)
def test_components_by_original_id(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    seed: int,
    gapped: bool,
    wide: bool,
    piece: int,
) -> None:
    """In memory and stored: the smallest id of all that share a label, lonely ones their own."""
    lonely = seed % 2 == 0
    _, ids, _ = made_up("bfs", "int32", size, seed, gapped=gapped, wide=wide, lonely=lonely)
    rows = len(ids.original_of)
    rng = np.random.default_rng(seed)
    label = np.minimum(rng.integers(0, max(1, rows), rows), np.arange(rows))
    while (label[label] != label).any():
        label = label[label]
    originals = ids.original_ids(0, size).tolist()
    want = dict(zip(originals, originals, strict=True))
    for one in set(label.tolist()):
        members = ids.original_of[label == one].tolist()
        want |= dict.fromkeys(members, min(members))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter, "_piece_size", lambda _: piece)
        columns = ComponentColumns(label.astype(np.uint64 if wide else np.uint32), ids)
        in_place = columns.in_memory()
        stored = write(tmp_path_factory.mktemp("components") / "r.zarr", "components", columns)
    assert isinstance(stored, ComponentsResult)
    for result in (ComponentsResult(None, 0.5, in_place), stored):
        assert result.names == ("vertex", "component")
        assert dict(zip(result.vertex.tolist(), result.component.tolist(), strict=True)) == want
        assert result.vertex.tolist() == originals
        assert result.component.dtype == np.int64
        assert result.count == len(set(want.values()))
        frame = result.to_frame()
        assert list(frame.columns) == ["vertex", "labels"]
        assert frame["labels"].tolist() == list(want.values())


def test_components_as_dask_zarr_and_repr(tmp_path: Path) -> None:
    _, ids, _ = made_up("bfs", "int32", 9, 1, gapped=True, wide=False, lonely=False)
    label = np.zeros(len(ids.original_of), np.uint32)
    result = write(tmp_path / "r.zarr", "components", ComponentColumns(label, ids))
    assert isinstance(result, ComponentsResult)
    assert repr(result).startswith("<ComponentsResult: ")
    assert result.to_zarr()["component"][:].tolist() == result.component.tolist()
    frame = result.to_dask_dataframe().compute()
    assert frame["labels"].tolist() == result.component.tolist()
    with pytest.raises(UsageError, match="holds a result of components, not of bfs"):
        BfsResult.open(tmp_path / "r.zarr")
    with pytest.raises(UsageError, match="holds a result of components, not of a search"):
        TreeResult.open(tmp_path / "r.zarr")


def test_a_result_of_an_algorithm_of_later_versions(tmp_path: Path) -> None:
    with partial_store(tmp_path / "r.zarr", "result", overwrite=False) as store:
        store.commit("result", {"kernel": "coloring"}, [], [])
    with pytest.raises(NotAStoreError, match="result of coloring, unknown to this version"):
        Result.open(tmp_path / "r.zarr")


def test_opening_as_the_wrong_kind(tmp_path: Path) -> None:
    tree, ids, _ = made_up("bfs", "int32", 5, 1, gapped=False, wide=False, lonely=False)
    write_result(tmp_path / "r.zarr", tree, ids)
    assert BfsResult.open(tmp_path / "r.zarr").root == tree.root
    with pytest.raises(UsageError, match="holds a result of bfs, not of sssp"):
        SsspResult.open(tmp_path / "r.zarr")


def test_frames_without_pandas_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.from_edges(np.array([0, 1]), np.array([1, 2]))
    found = [og.bfs(graph, 0), og.multi_source_bfs(graph, [0])]
    monkeypatch.setitem(sys.modules, "pandas", None)
    for result in found:
        with pytest.raises(UsageError, match=r"ooc-graph\[tables\]"):
            result.to_frame()
    with pytest.raises(UsageError, match=r"ooc-graph\[tables\]"):
        found[0].to_dask_dataframe()
    for wrong in (None, b"g.zarr", 1):
        with pytest.raises(UsageError, match="graph: give a path"):
            og.bfs(wrong, 0)
