"""Edges in objects of other libraries: the same graph of any kind has the same bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.edges import open_source
from ooc_graph.errors import InputError, UsageError
from tests.unit.test_readers_text import read_all

RANDOM = np.random.default_rng(76)
ROWS, EDGES = 30, 120
U, V = RANDOM.integers(0, ROWS, (2, EDGES))
# A path through all vertices: none is isolated. Some weights are 0.
U[:ROWS], V[:ROWS] = np.arange(ROWS), (np.arange(ROWS) + 1) % ROWS
PAIRS, FIRST = np.unique(np.sort(np.stack([U, V]), axis=0), axis=1, return_index=True)
U, V = PAIRS
W = RANDOM.integers(0, 9, len(U)) / 2


class OnDevice:
    """A vector of CuPy, or a matrix: what NumPy refuses to convert."""

    def __init__(self, values: Any) -> None:
        self._values = values
        self.__cuda_array_interface__ = {"version": 3}

    def __array__(self, *_: Any, **__: Any) -> None:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self) -> Any:
        return self._values


class Exported:
    """A frame of a library that exports Arrow data."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class DeviceFrame:
    """A frame as cuDF has it: no iteration over columns, no implicit conversion."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = frame.columns
        self.iloc = frame.iloc

    def to_arrow(self) -> Any:
        raise AssertionError("columns are copied one by one")


def frame() -> Any:
    return pytest.importorskip("pandas").DataFrame({"src": U, "dst": V, "cost": W})


def table() -> Any:
    return pytest.importorskip("pyarrow").table({"note": ["x"] * len(U), "u": U, "v": V, "w": W})


def chunked() -> Any:
    arrow = pytest.importorskip("pyarrow")
    return arrow.concat_tables([table()[:7], table()[7:]])


def sparse(name: str) -> Callable[[], Any]:
    def made() -> Any:
        kinds = pytest.importorskip("scipy.sparse")
        return getattr(kinds, name)(kinds.coo_array((W, (U, V)), shape=(ROWS, ROWS)))

    return made


def networkx(kind: str = "Graph", ids: np.ndarray | None = None) -> Callable[[], Any]:
    def made() -> Any:
        library = pytest.importorskip("networkx")
        graph = getattr(library, kind)()
        names = np.arange(ROWS) if ids is None else ids
        graph.add_nodes_from(names.tolist())
        graph.add_weighted_edges_from(zip(names[U].tolist(), names[V].tolist(), W, strict=True))
        return graph

    return made


def igraph(directed: bool) -> Callable[[], Any]:
    def made() -> Any:
        library = pytest.importorskip("igraph")
        ends = list(zip(U.tolist(), V.tolist(), strict=True))
        return library.Graph(ROWS, ends, directed=directed, edge_attrs={"weight": W.tolist()})

    return made


def dask_frame() -> Any:
    pytest.importorskip("pyarrow")
    return pytest.importorskip("dask.dataframe").from_pandas(frame(), npartitions=3)


TRIPLES = list(zip(U.tolist(), V.tolist(), W.tolist(), strict=True))
KINDS: dict[str, Callable[[], Any]] = {
    "vectors": lambda: (U, V, W),
    "device vectors": lambda: tuple(map(OnDevice, (U, V, W))),
    "series": lambda: tuple(frame()[name] for name in ("src", "dst", "cost")),
    "arrow vectors": lambda: tuple(chunked()[name] for name in "uvw"),
    "triples": lambda: TRIPLES,
    "frame": frame,
    "device frame": lambda: DeviceFrame(frame()),
    "table": table,
    "chunked table": chunked,
    "batch": lambda: table().combine_chunks().to_batches()[0],
    "exported": lambda: Exported(chunked()),
    "csr_matrix": sparse("csr_matrix"),
    "csc_array": sparse("csc_array"),
    "coo_array": sparse("coo_array"),
    "dask": dask_frame,
}
EITHER = {"networkx": (networkx(), networkx("DiGraph")), "igraph": (igraph(False), igraph(True))}
ALL = [*KINDS, *EITHER]


def of_kind(kind: str, directed: bool) -> Any:
    return EITHER[kind][directed]() if kind in EITHER else KINDS[kind]()


def same_arrays(mine: og.Graph, other: og.Graph) -> None:
    assert mine.stored.arrays.keys() == other.stored.arrays.keys()  # type: ignore[attr-defined]
    for name in mine.stored.arrays:  # type: ignore[attr-defined]
        ours, theirs = mine.stored.read(name), other.stored.read(name)
        assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes()), name


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ALL)
def test_every_kind_gives_the_same_graph(kind: str, directed: bool) -> None:
    given = of_kind(kind, directed)
    # Graphs know themselves whether they are directed.
    options = {} if kind in EITHER else {"directed": directed}
    found = og.from_edges(given, **options)
    assert (found.directed, found.weight_dtype) == (directed, np.float64)
    same_arrays(found, og.from_edges(U, V, W, directed=directed))


def files_of(store: Path) -> dict[str, bytes]:
    """All files but those that say what the edges were read from."""
    files = {str(file.relative_to(store)): file for file in store.rglob("*") if file.is_file()}
    del files["manifest.json"], files["zarr.json"]
    return {name: file.read_bytes() for name, file in files.items()}


def test_every_kind_gives_the_same_store(tmp_path: Path) -> None:
    stores, said = {}, {}
    for kind in ALL:
        given, path = of_kind(kind, False), tmp_path / f"{kind}.zarr"
        graph = og.build(given, path, client=False, device="cpu")
        stores[kind] = files_of(path)
        said[kind] = {k: v for k, v in graph.attributes.items() if k != "source"}
    assert len(stores["vectors"]) > 20
    assert [kind for kind in ALL if stores[kind] != stores["vectors"]] == []
    assert [kind for kind in ALL if said[kind] != said["vectors"]] == []


def test_vertices_without_edges() -> None:
    dense = og.from_edges(U, V, W, vertices=ROWS + 5)
    kinds = pytest.importorskip("scipy.sparse")
    matrix = kinds.coo_array((W, (U, V)), shape=(ROWS + 5, ROWS + 5))
    same_arrays(og.from_edges(matrix), dense)
    with pytest.raises(UsageError, match="these edges come with their vertices"):
        og.from_edges(matrix, vertices=ROWS + 5)
    for step in (1, 7, 1 << 40):
        ids = step * np.arange(ROWS + 5)
        graph = og.from_edges(networkx(ids=ids)())
        assert graph.original_ids().tolist() == ids.tolist()
        found = og.sssp(graph, 0)
        np.testing.assert_array_equal(found.distance, og.sssp(dense, 0).distance)


def test_listed_vertices_are_stored_and_checked(tmp_path: Path) -> None:
    graph = networkx(ids=7 * np.arange(ROWS))()
    graph.add_node(999)
    options: dict[str, Any] = {"client": False, "device": "cpu"}
    stored, held = og.build(graph, tmp_path / "g.zarr", **options), og.from_edges(graph)
    assert stored.vertices == held.vertices == ROWS + 1
    for name in ("internal_of", "original_of", "originals"):
        np.testing.assert_array_equal(stored.stored.read(name), held.stored.read(name))
    (tmp_path / "e.v").write_text("1\n2\n5\n")
    (tmp_path / "e.e").write_text("1 2\n")
    assert og.from_edges(tmp_path / "e.e").original_ids().tolist() == [1, 2, 5]
    (tmp_path / "e.e").write_text("1 3\n")
    with pytest.raises(InputError, match="names vertex 3, which the vertex file does not list"):
        og.from_edges(tmp_path / "e.e")


@pytest.mark.parametrize("kind", ["networkx", "igraph", "sparse"])
def test_graphs_without_edges(kind: str, tmp_path: Path) -> None:
    graph = {
        "networkx": lambda: pytest.importorskip("networkx").empty_graph(3),
        "igraph": lambda: pytest.importorskip("igraph").Graph(3),
        "sparse": lambda: pytest.importorskip("scipy.sparse").csr_matrix((3, 3)),
    }[kind]()
    for made in (
        og.from_edges(graph),
        og.build(graph, tmp_path / "g.zarr", client=False, device="cpu"),
    ):
        assert og.bfs(made, 1, client=False, device="cpu").level.tolist() == [-1, 0, -1]


def test_columns_are_chosen() -> None:
    pandas = pytest.importorskip("pandas")
    three = pandas.DataFrame({"a": [1, 2], "b": [2, 3], "c": [4, 5], "w": [0.5, 1.5]})
    named = {"source": "b", "target": "c", "weight": "a"}
    expected = [(2, 4, 1), (3, 5, 2)]
    assert read_all(open_source(three, **named)) == expected
    assert read_all(open_source(three, columns=("b", 2), weight=0)) == expected
    held = og.from_edges(three, target="c", source="b", weight=False)
    assert (held.original_ids().tolist(), held.weight_dtype) == ([2, 3, 4, 5], None)
    with pytest.raises(InputError, match="which columns are source and target"):
        open_source(three)
    with pytest.raises(UsageError, match="DataFrame: no column 'x'; there are a, b, c, w"):
        open_source(three, source="a", target="x")
    for half in ({"source": "a"}, {"source": "a", "target": "b", "columns": ("a", "b")}):
        with pytest.raises(UsageError, match="name both columns, or neither"):
            open_source(three, **half)
    # Columns that pandas numbers have no names: the third is the weight, as in a file.
    unnamed = pandas.DataFrame([[1, 2, 0.5], [2, 3, 1.5]]).astype({0: int, 1: int})
    assert read_all(open_source(unnamed)) == [(1, 2, 0.5), (2, 3, 1.5)]


def test_weights_of_graphs() -> None:
    library = pytest.importorskip("networkx")
    graph = library.MultiGraph([(0, 1, {"cost": 3}), (0, 1, {"cost": 2}), (1, 2, {})])
    assert not open_source(graph).weighted
    # An edge without the attribute weighs 1, as in networkx.
    held = og.from_edges(graph, weight="cost")
    assert (held.weight_dtype, og.sssp(held, 0).distance.tolist()) == (np.int32, [0, 2, 3])
    for weight, said in (("speed", "no edge has the attribute 'speed'"), (0, "name an attribute")):
        with pytest.raises(UsageError, match=said):
            open_source(graph, weight=weight)
    other = pytest.importorskip("igraph").Graph([(0, 1), (1, 2)], edge_attrs={"cost": [3, 2]})
    assert read_all(open_source(other, weight="cost")) == [(0, 1, 3), (1, 2, 2)]
    with pytest.raises(UsageError, match="no edge has the attribute 'weight'"):
        open_source(other, weight=True)


def test_entries_of_matrices() -> None:
    kinds = pytest.importorskip("scipy.sparse")
    twice = kinds.coo_array(([1, 2, 0], ([0, 0, 1], [1, 1, 2])), shape=(3, 3))
    assert read_all(open_source(twice)) == [(0, 1, 3), (1, 2, 0)]
    assert twice.nnz == 3
    assert read_all(open_source(twice.astype(bool))) == [(0, 1, None), (1, 2, None)]
    assert not open_source(twice, weight=False).weighted
    with pytest.raises(UsageError, match="the entries are the weights"):
        open_source(twice, weight="x")
    with pytest.raises(InputError, match=r"shape \(2, 3\)"):
        open_source(kinds.csr_array((2, 3)))


def test_graphs_keep_their_direction() -> None:
    for made in EITHER.values():
        assert not open_source(made[1](), directed=False).directed
        with pytest.raises(UsageError, match="the graph is undirected"):
            open_source(made[0](), directed=True)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            lambda: pytest.importorskip("networkx").Graph([("a", "b")]),
            r"node 'a' is no integer \(.*networkx\.convert_node_labels_to_integers",
        ),
        (lambda: pytest.importorskip("networkx").Graph([(-1, 2)]), "id -1"),
        (lambda: pytest.importorskip("networkx").Graph(), "a graph without vertices"),
        (lambda: frame().astype({"src": str}), "column 'src' has dtype .*pandas.factorize"),
        (lambda: frame().astype({"src": "Int64"}).shift(1), "column 'src' has no value in row 0"),
        (lambda: frame()[:0], "no edges"),
        (lambda: table().slice(0, 0), "no edges"),
        (lambda: [(1, 2), (2, 3, 4)], "expected pairs"),
        (lambda: [("a", "b")], "expected pairs"),
        (lambda: [(1.5, 2)], "source ids have dtype float64"),
        (lambda: [(1, 2), (3, 1 << 70)], "target ids have dtype object"),
    ],
)
def test_objects_that_are_refused(made: Callable[[], Any], said: str) -> None:
    given = made()
    with pytest.raises(InputError, match=said):
        read_all(open_source(given))


def test_options_that_objects_do_not_have() -> None:
    for options, said in (({"columns": (0, 1)}, "columns"), ({"header": True}, "header")):
        with pytest.raises(UsageError, match=said):
            open_source(TRIPLES, **options)
    with pytest.raises(UsageError, match="vector of sources is given twice"):
        og.from_edges(U, V, source=U)
    same_arrays(og.from_edges(source=U, target=V, weight=W), og.from_edges(U, V, W))


def test_arrow_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    given = table()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'ooc-graph\[tables\]'"):
        open_source(given)


def test_no_library_is_imported() -> None:
    program = (
        "import sys, ooc_graph as og; og.open_source([(1, 2)]); "
        "print({'pandas', 'pyarrow', 'networkx', 'igraph', 'cupy'} & {*sys.modules})"
    )
    call = [sys.executable, "-c", program]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["e.txt", "e.npy"])
def test_files_in_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    rows = np.stack([U, V, (2 * W).astype(int)]).T
    np.save(path, rows) if name == "e.npy" else np.savetxt(path, rows, "%d")
    same_arrays(og.from_edges(path), og.from_edges(U, V, (2 * W).astype(int)))


def test_isolated_nodes_of_a_build_on_workers(tmp_path: Path) -> None:
    library = pytest.importorskip("networkx")
    graph = library.Graph([(0, 5)])
    graph.add_nodes_from([9, 20])
    with og.local_cluster(1) as client:
        there = og.build(graph, tmp_path / "there.zarr", client=client)
    here = og.build(graph, tmp_path / "here.zarr", client=False)
    assert there.original_ids().tolist() == [0, 5, 9, 20]
    assert there.content_sha256 == here.content_sha256


def test_negative_nodes_and_missing_weights() -> None:
    library = pytest.importorskip("networkx")
    graph = library.Graph([(0, 1)])
    graph.add_node(-1)
    with pytest.raises(InputError, match="-1"):
        og.from_edges(graph)
    other = pytest.importorskip("igraph").Graph(3, [(0, 1), (1, 2)])
    other.es["weight"] = [2.5, None]
    assert og.sssp(og.from_edges(other), 0).distance.tolist() == [0, 2.5, 3.5]
