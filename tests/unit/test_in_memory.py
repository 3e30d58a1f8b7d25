"""Graphs in memory: the bytes of a store that is built and loaded, and searched like one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import (
    InputError,
    MemoryBudgetError,
    NegativeWeightError,
    UnknownVertexError,
    UsageError,
)
from ooc_graph.shards import in_memory, memory_sort, memory_vertices
from ooc_graph.types import Rows
from tests.unit.test_build_oracle import (
    UNHURRIED,
    ListSource,
    build_here,
    expected_store,
    random_source,
    small_steps,
    sources,
)

ORDERS = {None: "both", "hub": "hub", "light": "light", "both": "both"}
SIZES = st.fixed_dictionaries(
    {
        "bucket": st.sampled_from([1, 3, 10, 100000]),
        "strip": st.sampled_from([1, 4, 100000]),
        "block": st.sampled_from([1, 3, 1000]),
        "unit": st.sampled_from([1, 5, 1000]),
        "span": st.sampled_from([1, 1 << 16]),
    }
)


def built_in_memory(
    source: ListSource, rows: str | None, threads: int = 3, **sizes: int
) -> in_memory.MemoryGraph:
    """The graph, with forced sizes of buckets, strips, blocks, units and of tables of ids."""
    orders = ("hub", "light") if source.weighted and rows in {None, "both"} else (rows or "hub",)
    with pytest.MonkeyPatch.context() as patch:
        if bucket := sizes.get("bucket"):
            patch.setattr(in_memory, "BUCKET_ARCS", bucket)
            patch.setattr(in_memory, "MOST_BUCKETS", 1 << 30)
        patch.setattr(memory_sort, "STRIP_ARCS", sizes.get("strip", memory_sort.STRIP_ARCS))
        block = sizes.get("block", memory_vertices.BLOCK_EDGES)
        patch.setattr(in_memory, "BLOCK_EDGES", block)
        patch.setattr(memory_vertices, "BLOCK_EDGES", block)
        patch.setattr(memory_vertices, "UNIT_EDGES", sizes.get("unit", 1 << 20))
        if sizes.get("span") == 1:
            patch.setattr(memory_vertices, "_LEAST_SPAN", 1)
            patch.setattr(memory_vertices, "_SPAN_PER_TUPLE", 0)
        return in_memory.build_in_memory(source, orders, threads)


def check_arrays(graph: og.Graph, source: ListSource, orders: list[str]) -> None:
    """All arrays by the oracle of NumPy sorts."""
    want = expected_store(source, orders, 1)
    held = graph.stored
    assert isinstance(held, in_memory.MemoryArrays)
    assert set(held.arrays) == set(want.arrays)
    for name, array in want.arrays.items():
        np.testing.assert_array_equal(held.read(name), array, err_msg=name)
    said = graph.attributes
    assert (said["vertices"], said["rows"], said["arcs"]) == (want.vertices, want.rows, want.arcs)
    assert (said["edges"], said["self_loops"]) == (source.edges, want.loops)


def check_same_bytes(mine: og.Graph, stored: og.Graph) -> None:
    """The very bytes of a store of one shard, and the attributes that a search reads."""
    for name, value in mine.attributes.items():
        assert stored.attributes[name] == value, name
    for name in mine.stored.arrays:  # type: ignore[attr-defined]
        assert same_bytes(mine.stored.read(name), stored.stored.read(name)), name


def check_rows(ours: Rows | None, theirs: Rows | None) -> None:
    if ours is None or theirs is None:
        assert ours is theirs
        return
    assert same_bytes(ours.offsets, theirs.offsets)
    assert same_bytes(ours.neighbors, theirs.neighbors)
    if ours.weights is None or theirs.weights is None:
        assert ours.weights is theirs.weights
    else:
        assert same_bytes(ours.weights, theirs.weights)


def same_bytes(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def arrays_only(source: ListSource) -> bool:
    """Vertices that no edge names are said by a range, not listed, in memory."""
    return source.listed is None and len(source.u) > 0


@UNHURRIED
@given(
    source=sources().filter(arrays_only),
    sizes=SIZES,
    rows=st.sampled_from([None, "hub", "light", "both"]),
    threads=st.integers(1, 3),
)
def test_memory_holds_the_sorted_graph(
    source: ListSource, sizes: dict[str, int], rows: str | None, threads: int
) -> None:
    if not source.weighted:
        rows = None
    graph = built_in_memory(source, rows, threads, **sizes)
    check_arrays(graph, source, graph.attributes["row_orders"])
    with tempfile.TemporaryDirectory() as folder, small_steps():
        build_here(source, Path(folder) / "g.zarr", rows=rows)
        check_same_bytes(graph, og.open(Path(folder) / "g.zarr"))


@settings(UNHURRIED, max_examples=8)
@given(
    seed=st.integers(0, 1 << 30),
    vertices=st.sampled_from([1023, 1025, 5000, 20000]),
    weight=st.sampled_from([None, "int64", "float32", "float64"]),
    directed=st.booleans(),
    gapped=st.booleans(),
    bucket=st.sampled_from([2000, 20000]),
    strip=st.sampled_from([500, 5000]),
)
def test_many_buckets(
    seed: int,
    vertices: int,
    weight: str | None,
    directed: bool,
    gapped: bool,
    bucket: int,
    strip: int,
) -> None:
    source = random_source(
        seed, vertices=vertices, edges=30000, weight=weight, directed=directed, gapped=gapped
    )
    sizes = {"bucket": bucket, "strip": strip, "block": 1000, "unit": 7000}
    graph = built_in_memory(source, None, **sizes)
    check_arrays(graph, source, graph.attributes["row_orders"])
    with tempfile.TemporaryDirectory() as folder, small_steps():
        build_here(source, Path(folder) / "g.zarr", shards=4)
        stored = og.open(Path(folder) / "g.zarr")
        check_rows(graph.load("hub").out_hub, stored.load("hub").out_hub)
        check_rows(graph.load("hub").into_hub, stored.load("hub").into_hub)


@pytest.mark.parametrize("rows", [None, "hub"])
def test_a_row_longer_than_a_bucket(rows: str | None) -> None:
    rng = np.random.default_rng(3)
    star = np.concatenate([np.zeros(5000, np.int64), rng.integers(0, 3000, 2000)])
    source = ListSource(star, rng.integers(1, 3000, 7000), rng.integers(-3, 4, 7000) / 2)
    graph = built_in_memory(source, rows, bucket=64, strip=16)
    check_arrays(graph, source, ["hub", "light"] if rows is None else ["hub"])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("crowded", [False, True])
def test_long_rows_by_weight(dtype: str, crowded: bool) -> None:
    """Weights that their first digits tell apart, and weights that they do not."""
    rng = np.random.default_rng(11)
    u, v = rng.integers(0, 7, 6000), rng.integers(7, 3000, 6000)
    bits = rng.integers(0, 1 << (28 if dtype == "float32" else 60), 6000)
    if crowded:
        bits[1:] = (1 << 20) + rng.integers(0, 64, 5999)
    w = bits if dtype == "int64" else bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    source = ListSource(u, v, w)
    for strip in (100, 100000):
        check_arrays(built_in_memory(source, None, strip=strip), source, ["hub", "light"])


def test_kronecker_is_made_in_memory(tmp_path: Path) -> None:
    edges = og.Kronecker(12)
    graph = og.from_edges(edges)
    check_same_bytes(graph, og.build(edges, tmp_path / "g.zarr"))
    plain = og.from_edges(og.Kronecker(12, weighted=False))
    assert plain.weighted is False
    check_rows(plain.load("hub").out_hub, graph.load("hub").out_hub)


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.int32, np.uint64, np.uint8])
@pytest.mark.parametrize("vertices", [None, 200])
def test_ids_of_any_integer_type(dtype: Any, vertices: int | None) -> None:
    rng = np.random.default_rng(5)
    u, v = rng.integers(0, 150, (2, 500)).astype(dtype)
    graph = og.from_edges(u, v, vertices=vertices, directed=True)
    id_range = None if vertices is None else (0, vertices)
    wide = ListSource(u.astype(np.int64), v.astype(np.int64), directed=True, id_range=id_range)
    check_arrays(graph, wide, ["hub"])


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("rows", [None, "light"])
def test_searches_agree_with_those_of_a_store(
    tmp_path: Path, directed: bool, rows: str | None
) -> None:
    source = random_source(9, vertices=3000, edges=9000, weight="float32", directed=directed)
    assert source.w is not None
    u, v, w = source.u, source.v, np.abs(source.w)
    graph = og.from_edges(u, v, w, directed=directed, rows=rows)
    held = {n: a.copy() for n, a in graph.stored.arrays.items()}  # type: ignore[attr-defined]
    stored = og.build((u, v, w), tmp_path / "g.zarr", directed=directed, rows=rows)
    for method in ("rows", "edges"):
        how = {"method": method}
        mine, theirs = og.bfs(graph, int(u[0]), **how), og.bfs(stored, int(u[0]), **how)
        for name in ("vertex", "parent", "level"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
        near, far = og.sssp(graph, int(u[0]), **how), og.sssp(stored, int(u[0]), **how)
        for name in ("vertex", "parent", "distance"):
            np.testing.assert_array_equal(getattr(near, name), getattr(far, name))
    parts, others = og.components(graph), og.components(stored)
    np.testing.assert_array_equal(parts.component, others.component)
    assert all(same_bytes(graph.stored.read(name), array) for name, array in held.items())
    og.validate(og.sssp(graph, int(u[0])), (u, v, w), directed=directed)


def test_two_graphs_are_not_confused(tmp_path: Path) -> None:
    u, v = np.array([1, 2]), np.array([2, 3])
    chain, star = og.from_edges(u, v), og.from_edges(np.array([1, 1]), np.array([2, 3]))
    assert og.bfs(chain, 1).level.tolist() == [0, 1, 2]
    assert og.bfs(star, 1).level.tolist() == [0, 1, 1]
    assert og.bfs(chain, 3).level.tolist() == [2, 1, 0]
    again = og.from_edges(u, v)
    assert chain.identity != again.identity
    assert chain.content_sha256 == again.content_sha256 != star.content_sha256
    og.bfs(chain, 1, out=tmp_path / "a.zarr")
    og.bfs(again, 1, out=tmp_path / "b.zarr")
    manifests = [(tmp_path / name / "manifest.json").read_bytes() for name in ("a.zarr", "b.zarr")]
    assert manifests[0] == manifests[1]


def test_lonely_vertices() -> None:
    graph = og.from_edges(np.array([4, 4]), np.array([4, 4]), vertices=6)
    assert (graph.vertices, graph.rows, graph.arcs) == (6, 0, 0)
    assert og.bfs(graph, 4).level.tolist() == [-1, -1, -1, -1, 0, -1]
    assert og.components(graph).count == 6
    named = og.from_edges(np.array([4, 9]), np.array([4, 1 << 60]))
    assert named.original_ids().tolist() == [4, 9, 1 << 60]
    assert og.bfs(named, 9).level.tolist() == [-1, 0, 1]
    with pytest.raises(UnknownVertexError, match="vertex 5"):
        og.bfs(named, 5)


def test_people_are_told_of_memory_and_not_of_a_path() -> None:
    graph = og.from_edges([0, 1], [1, 2])
    assert repr(graph) == "<Graph in memory: undirected, 3 vertices, 2 edges>"
    assert ">in memory</td>" in graph._repr_html_()
    there = "the graph in memory with 3 vertices and 2 edges"
    for search in (lambda: og.bfs(graph, 7), lambda: og.multi_source_bfs(graph, [7])):
        with pytest.raises(UnknownVertexError, match=f"vertex 7 is not in {there}"):
            search()
    with pytest.raises(UsageError, match=f"{there}: holds no weights"):
        og.sssp(graph, 0)


def test_a_graph_is_made_of_no_path() -> None:
    with pytest.raises(UsageError, match=r"ooc_graph\.open\('x\.zarr'\)"):
        og.Graph("x.zarr")  # type: ignore[arg-type]


def test_refusals() -> None:
    u, v = np.array([0, 1]), np.array([1, 5])
    with pytest.raises(InputError, match=r"edge 1 joins 1 and 5 \(the vertices .* 0 to 4\)"):
        og.from_edges(u, v, vertices=5)
    with pytest.raises(InputError, match="source id -1 in row 0"):
        og.from_edges(u - 1, v)
    with pytest.raises(InputError, match="no edges"):
        og.from_edges(u[:0], v[:0])
    with pytest.raises(UsageError, match="at least 1"):
        og.from_edges(u, v, vertices=0)
    for count in (3.5, "9"):
        with pytest.raises(UsageError, match="give an integer"):
            og.from_edges(u, v, vertices=count)  # type: ignore[arg-type]
    for count in (1 << 60, 1 << 70):
        with pytest.raises(MemoryBudgetError, match="may be used"):
            og.from_edges(u, v, vertices=count)
    with pytest.raises(UsageError, match="two vectors"):
        og.from_edges()
    with pytest.raises(InputError, match=r"shape \(2,\)"):
        og.from_edges(u)
    with pytest.raises(UsageError, match="stands alone"):
        og.from_edges(og.Kronecker(4), directed=True)
    with pytest.raises(UsageError, match="no weights"):
        og.from_edges(u, v, rows="both")
    with pytest.raises(InputError, match="weight nan in row 1"):
        og.from_edges(u, v, np.array([1, np.nan]))
    with pytest.raises(NegativeWeightError):
        og.sssp(og.from_edges(u, v, np.array([1, -1])), 0)


def test_a_cluster_is_refused() -> None:
    graph = og.from_edges(np.array([0]), np.array([1]))
    client: Any = object()
    for search in (og.components, lambda g, client: og.bfs(g, 0, client=client)):
        with pytest.raises(UsageError, match="in this process alone"):
            search(graph, client=client)
    with pytest.raises(UsageError, match="needs a Dask client"):
        og.bfs(graph, 0, exchange="scheduler")
