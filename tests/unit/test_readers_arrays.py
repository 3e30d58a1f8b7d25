"""NumPy arrays and files, Parquet, Dask collections."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges import open_source
from ooc_graph.errors import InputError, UsageError
from tests.unit.test_readers_text import read_all

PAIRS = np.array([[1, 2], [3, 4], [5, 6], [7, 8], [2**63 - 1, 0]])
PLAIN = [(int(u), int(v), None) for u, v in PAIRS]
WEIGHTS = np.array([0.5, 1.5, -2.5, 3.5, 4.5], dtype=np.float32)
WEIGHTED = [(u, v, float(w)) for (u, v, _), w in zip(PLAIN, WEIGHTS, strict=True)]


def test_arrays_in_memory() -> None:
    for given in (PAIRS, PAIRS.T, np.asfortranarray(PAIRS), (PAIRS[:, 0], PAIRS[:, 1])):
        source = open_source(given)
        assert (source.edges, source.directed, source.rereadable) == (5, False, True)
        assert read_all(source, 2, 1) == PLAIN
    source = pickle.loads(pickle.dumps(open_source((*PAIRS.T, WEIGHTS), directed=True)))
    assert (source.weight_dtype, source.directed) == (np.float32, True)
    assert read_all(source, 3, 2) == WEIGHTED
    assert read_all(open_source((*PAIRS.T, WEIGHTS), weight=False)) == PLAIN
    three = np.array([[1, 2, 3]])
    assert read_all(open_source(three)) == [(1, 2, 3)]
    assert open_source(three, weight_type="float64").weight_dtype == np.float64
    assert open_source(PAIRS).describe() == open_source(PAIRS.copy()).describe()
    assert open_source(PAIRS).describe() != open_source(PAIRS[::-1]).describe()
    with pytest.raises(UsageError, match="weights in an array come with the edges"):
        open_source(PAIRS, weight=WEIGHTS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([[1.0, 2.0]]), "source ids have dtype float64"),
        (np.array([[0, 1], [1, -2], [2, 2]]), "target id -2 in row 1"),
        (np.array([[0, 2**63]], dtype=np.uint64), "target id 9223372036854775808 in row 0"),
        (np.zeros((3, 4), dtype=int), "shape"),
        (np.zeros((0, 2), dtype=int), "no edges"),
        (np.ma.array([[0, 1], [1, 2], [2, 3]], mask=[[0, 0], [0, 1], [0, 0]]), "value in row 1"),
        ((np.arange(2), np.arange(2), np.ma.array([1, 2], mask=[0, 1])), "no value in row 1"),
        ((np.arange(3), np.arange(2)), "one length"),
        ((np.arange(2), np.arange(2), np.array([1.0, np.nan])), "weight nan in row 1"),
        ((np.arange(2), np.arange(2), np.array([1.0, np.inf])), "weight inf in row 1"),
        ((np.arange(2), np.arange(2), np.array(["a", "b"])), "weights have dtype"),
    ],
)
def test_arrays_that_are_refused(given, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_all(open_source(given))


def test_weights_that_do_not_fit_the_type() -> None:
    ids = np.arange(2)
    for weights, kind in (([0.5, 1.0], "int"), ([1e300, 1.0], "float32"), ([2.0**63, 1], "int")):
        with pytest.raises(InputError, match="is not a finite"):
            read_all(open_source((ids, ids, np.array(weights)), weight_type=kind))
    whole = (ids, ids, np.array([3.0, -4.0]))
    assert read_all(open_source(whole, weight_type="int")) == [(0, 0, 3), (1, 1, -4)]


@pytest.mark.parametrize("make", [lambda a: a, lambda a: a.T, np.asfortranarray])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64, ">i8"])
def test_npy(tmp_path: Path, make, dtype) -> None:
    pairs = PAIRS[:4].astype(dtype)
    np.save(tmp_path / "g.npy", make(pairs))
    source = open_source(tmp_path / "g.npy")
    assert source.rereadable
    assert read_all(source, 3, 2) == PLAIN[:4]


def test_npy_with_weights_and_several_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1, 2, 9]]))
    np.save(tmp_path / "b.npy", np.array([[3, 4, 8], [5, 6, 7], [7, 8, 6]]))
    source = open_source([tmp_path / "a.npy", tmp_path / "b.npy"])
    assert read_all(source, 1, 1) == [(1, 2, 9), (3, 4, 8), (5, 6, 7), (7, 8, 6)]
    assert read_all(open_source(tmp_path / "a.npy", weight=False)) == [(1, 2, None)]


def test_npy_faults(tmp_path: Path) -> None:
    path = tmp_path / "g.npy"
    np.save(path, np.array([{}, {}], dtype=object))
    with pytest.raises(InputError, match="dtype object"):
        open_source(path)
    np.save(path, PAIRS)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="the file is shorter"):
        open_source(path)
    path.write_bytes(b"x")
    with pytest.raises(InputError, match="cannot be read as an array"):
        open_source(path)
    np.save(path, np.array([[1, -2]]))
    with pytest.raises(InputError, match=r"g\.npy: target id -2 in row 0"):
        read_all(open_source(path))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path: Path, save) -> None:
    path = tmp_path / "g.npz"
    save(path, src=PAIRS[:, 0], dst=PAIRS[:, 1], weight=WEIGHTS)
    assert read_all(open_source(path), 2, 2) == WEIGHTED
    save(path, row=PAIRS[:, 0], col=PAIRS[:, 1], shape=np.array([9, 9]))
    assert read_all(open_source(path), 3, 2) == PLAIN
    save(path, PAIRS)
    assert read_all(open_source(path), 3, 2) == PLAIN
    save(path, a=PAIRS, b=PAIRS)
    with pytest.raises(InputError, match="no arrays source and target; there are a, b"):
        open_source(path)
    save(path, source=PAIRS[:, 0], target=PAIRS[:2, 1])
    with pytest.raises(InputError, match="one length"):
        open_source(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"\.npz"):
        open_source(path)
    workbook = tmp_path / "edges.xlsx"
    with zipfile.ZipFile(workbook, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(InputError, match=r"an archive without .* save the sheet as \.csv"):
        open_source(workbook)


def parquet(path: Path, columns: dict, **options) -> Path:
    arrow = pytest.importorskip("pyarrow")
    tables = pytest.importorskip("pyarrow.parquet")
    tables.write_table(arrow.table(columns), path, **options)
    return path


def test_parquet(tmp_path: Path) -> None:
    columns = {"note": ["x"] * 5, "dst": PAIRS[:, 1], "src": PAIRS[:, 0], "weight": WEIGHTS}
    path = parquet(tmp_path / "g.parquet", columns, row_group_size=2)
    source = pickle.loads(pickle.dumps(open_source(path)))
    assert (source.edges, source.weight_dtype) == (5, np.float32)
    assert len(source.units(1)) == 3
    assert len(source.units(4)) == 2
    assert read_all(source, 1, 1) == read_all(source, 100, 3) == WEIGHTED
    swapped = open_source(path, columns=("dst", 2), weight=False)
    assert read_all(swapped, 2) == [(v, u, None) for u, v, _ in PLAIN]
    with pytest.raises(InputError, match="column 'note' has type string"):
        open_source(path, columns=("note", "dst"))
    with pytest.raises(UsageError, match="no column 'x'"):
        open_source(path, weight="x")


def test_parquet_is_built_by_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    count = 3000
    columns = dict(zip(("source", "target"), random.integers(0, 400, (2, count)), strict=True))
    columns["weight"] = random.random(count)
    path = parquet(tmp_path / "g.parquet", columns, row_group_size=700)
    source = open_source(path, directed=True)
    assert [(unit.start, unit.stop) for unit in source.units(1000)] == [
        (0, 1400),
        (1400, 2800),
        (2800, 3000),
    ]
    answers = []
    for given in (source, open_source(tuple(columns.values()), directed=True)):
        graph = og.build(given, tmp_path / "g.zarr", overwrite=True, client=False)
        answers.append(og.sssp(graph, int(columns["source"][0]), client=False))
    for name in answers[0].names:
        np.testing.assert_array_equal(answers[0].read(name), answers[1].read(name))
    assert answers[0].reached.sum() > 300


def test_parquet_with_empty_row_groups(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    tables = pytest.importorskip("pyarrow.parquet")
    rows = arrow.table({"a": [1, 2, 3], "b": [4, 5, 6]})
    with tables.ParquetWriter(tmp_path / "g.parquet", rows.schema) as writer:
        for some in (rows[:0], rows[:2], rows[:0], rows[2:], rows[:0]):
            writer.write_table(some)
    source = open_source(tmp_path / "g.parquet")
    assert source.edges == 3
    for edges_per_unit in (1, 3, 100):
        assert read_all(source, edges_per_unit) == [(1, 4, None), (2, 5, None), (3, 6, None)]


def test_parquet_folder(tmp_path: Path) -> None:
    parquet(tmp_path / "b.parquet", {"a": [3], "b": [4]})
    parquet(tmp_path / "a.parquet", {"a": [1], "b": [2]})
    (tmp_path / "_metadata").write_bytes(b"x")
    assert read_all(open_source(tmp_path)) == [(1, 2, None), (3, 4, None)]
    parquet(tmp_path / "c.parquet", {"a": [3]})
    with pytest.raises(InputError, match=r"c\.parquet: differs from the first file"):
        open_source(tmp_path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, None], "b": [2, 3]}, "column 'a' has no value in row 1"),
        ({"a": [1, -1], "b": [2, 3]}, "source id -1 in row 1"),
        ({"a": [1.0], "b": [2]}, "column 'a' has type double"),
        ({"a": [1], "b": [2], "weight": [float("nan")]}, "weight nan in row 0"),
        ({"a": [1], "b": [2], "weight": ["x"]}, "weights have dtype"),
    ],
)
def test_parquet_faults(tmp_path: Path, columns: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_all(open_source(parquet(tmp_path / "g.parquet", columns)))


def test_parquet_that_is_none(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "g.parquet"
    path.write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="is no Parquet file"):
        open_source(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch) -> None:
    path = parquet(tmp_path / "g.parquet", {"a": [1], "b": [2]})
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'ooc-graph\[tables\]'"):
        open_source(path)


def test_dask_array() -> None:
    da = pytest.importorskip("dask.array")
    array = da.from_array(PAIRS, chunks=(2, 1))
    source = pickle.loads(pickle.dumps(open_source(array)))
    assert len(source.units(1)) == 3
    assert read_all(source, 1, 1) == PLAIN
    with pytest.raises(InputError, match="dtype float64"):
        open_source(array.astype(float))
    with pytest.raises(InputError, match="no edges"):
        read_all(open_source(array[:0]))


def test_dask_frame() -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    dd = pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame({"w": WEIGHTS, "dst": PAIRS[:, 1], "src": PAIRS[:, 0]})
    source = open_source(dd.from_pandas(frame, npartitions=2))
    assert source.weight_dtype == np.float32
    assert read_all(pickle.loads(pickle.dumps(source)), 1, 2) == WEIGHTED
    plain = open_source(dd.from_pandas(frame, npartitions=1), weight=False, columns=("dst", "src"))
    assert read_all(plain) == [(v, u, None) for u, v, _ in PLAIN]
    with pytest.raises(InputError, match="column 'w' has dtype float32"):
        open_source(dd.from_pandas(frame, npartitions=1), columns=("w", "src"), weight=False)


def test_what_is_no_source() -> None:
    with pytest.raises(UsageError, match="cannot read edges from dict"):
        open_source({})
    with pytest.raises(InputError, match="no edges in the list"):
        open_source([])
