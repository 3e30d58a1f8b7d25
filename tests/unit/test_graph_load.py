"""Opening and loading built graphs, by this package and by a stranger with zarr and scipy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ooc_graph.errors import NegativeWeightError, UnknownVertexError, UsageError
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing, Rows, owner_of
from tests.unit.test_build_oracle import (
    INT64_MAX,
    WEIGHTS,
    ListSource,
    build_here,
    expected_store,
    random_source,
    small_steps,
)


def same_rows(rows: Rows | None, arrays: dict[str, np.ndarray], group: str, weighted: bool) -> None:
    assert rows is not None
    assert rows.offsets.dtype == np.uint64
    np.testing.assert_array_equal(rows.offsets, arrays[f"{group}/offsets"])
    np.testing.assert_array_equal(rows.neighbors, arrays[f"{group}/neighbors"])
    assert (rows.weights is not None) is weighted
    if weighted:
        np.testing.assert_array_equal(rows.weights, arrays[f"{group}/weights"])


@pytest.mark.parametrize("shards", [1, 2, 8])
@pytest.mark.parametrize("rows", ["hub", "light", "both"])
@pytest.mark.parametrize(("directed", "weight"), [(True, "float32"), (False, "int64")])
def test_rows_of_all_and_of_each_shard(
    tmp_path: Path, shards: int, rows: str, directed: bool, weight: str
) -> None:
    source = random_source(8, vertices=6000, edges=25_000, weight=weight, directed=directed)
    assert source.w is not None
    source.w[:] = abs(source.w)
    whole = expected_store(source, ["hub", "light"], 1).arrays
    # Shards as they are in the store, and joined to two.
    parts = {n: expected_store(source, ["hub", "light"], n).arrays for n in (shards, 2)[:shards]}
    # Chunk borders fall inside dealing blocks.
    with small_steps(chunk=5000):
        build_here(source, tmp_path / "g.zarr", rows=rows, shards=shards)
        graph = Graph.open(tmp_path / "g.zarr")
        for order in ("hub", *(["light"] if rows != "hub" else [])):
            shard = graph.load(order)
            assert shard.dealing == Dealing(graph.rows)
            np.testing.assert_array_equal(shard.tuples, whole["tuples"])
            out, into = (getattr(shard, f"{side}_{order}") for side in ("out", "into"))
            same_rows(out, whole, f"shards/00000/out/{order}", order == "light")
            assert (into is out) is not directed
            if directed:
                same_rows(into, whole, f"shards/00000/in/{order}", order == "light")
            for ranks, number in ((n, one) for n in parts for one in range(n)):
                shard = graph.load(order, number, shards=None if ranks == shards else ranks)
                assert shard.dealing == Dealing(graph.rows, ranks, number)
                mine = owner_of(np.arange(graph.rows), ranks) == number
                np.testing.assert_array_equal(shard.tuples, whole["tuples"][mine])
                out, group = getattr(shard, f"out_{order}"), f"shards/{number:05d}/out/{order}"
                same_rows(out, parts[ranks], group, order == "light")
        kept = {"hub": "hub", "light": "light", "both": "hub"}[rows]
        loaded = [graph.load("hub", number) for number in range(shards)]
        sides = [shard.out_hub for shard in loaded] + [s.into_hub for s in loaded if directed]
        in_memory = sum(r.offsets.nbytes + r.neighbors.nbytes for r in sides if r is not None)
        assert graph.resident_bytes("hub") == in_memory, kept
        assert graph.resident_bytes("hub", [0]) <= in_memory


@pytest.mark.parametrize("gapped", [False, True])
def test_ids_there_and_back(tmp_path: Path, gapped: bool) -> None:
    source = random_source(9, vertices=3000, edges=4000, weight=None, gapped=gapped)
    ids = np.unique(np.concatenate([source.u, source.v]))
    with small_steps(chunk=800):
        build_here(source, tmp_path / "g.zarr")
        graph = Graph.open(tmp_path / "g.zarr")
        np.testing.assert_array_equal(graph.original_ids(), ids)
        assert graph.vertices == len(ids)
        internal, original = graph.internal_of(), graph.original_of()
        for place in [0, 1, 57, len(ids) // 2, len(ids) - 1]:
            assert graph.position_of(int(ids[place])) == place
            assert graph.internal(int(ids[place])) == internal[place]
            if internal[place] >= 0:
                assert original[internal[place]] == ids[place]
        missing = {-1, int(ids[-1]) + 1, int(ids[0]) - 1, INT64_MAX}
        gaps = np.setdiff1d(ids[:-1] + 1, ids)[:3]
        for stranger in {*missing, *gaps.tolist()}:
            with pytest.raises(UnknownVertexError, match=f"vertex {stranger} is not"):
                graph.position_of(stranger)


def test_the_largest_ids(tmp_path: Path) -> None:
    source = ListSource(np.array([INT64_MAX, 0]), np.array([INT64_MAX - 1, INT64_MAX]))
    build_here(source, tmp_path / "g.zarr")
    graph = Graph.open(tmp_path / "g.zarr")
    np.testing.assert_array_equal(graph.original_ids(), [0, INT64_MAX - 1, INT64_MAX])
    assert graph.position_of(INT64_MAX) == 2
    np.testing.assert_array_equal(graph.original_of(), [INT64_MAX, 0, INT64_MAX - 1])


def test_isolated_vertices_have_no_internal_id(tmp_path: Path) -> None:
    source = ListSource(
        np.array([5, 9]), np.array([7, 9]), listed=np.array([12, 5, 7, 9]), directed=True
    )
    build_here(source, tmp_path / "g.zarr")
    graph = Graph.open(tmp_path / "g.zarr")
    assert [graph.internal(i) for i in (5, 7, 9, 12)] == [0, 1, -1, -1]
    assert (graph.vertices, graph.rows, graph.edges, graph.arcs) == (4, 2, 2, 1)
    assert "4 vertices" in repr(graph)
    assert "directed" in repr(graph)


def test_searches_that_the_rows_do_not_allow(tmp_path: Path) -> None:
    edges = np.array([1]), np.array([2])
    build_here(ListSource(*edges), tmp_path / "plain.zarr")
    build_here(ListSource(*edges, np.array([-0.5])), tmp_path / "negative.zarr")
    build_here(ListSource(*edges, np.array([-0.0])), tmp_path / "zero.zarr")
    with pytest.raises(UsageError, match="holds no weights"):
        Graph.open(tmp_path / "plain.zarr").load("light")
    with pytest.raises(NegativeWeightError, match=r"lightest -0\.5.*apsp"):
        Graph.open(tmp_path / "negative.zarr").load("light")
    assert Graph.open(tmp_path / "negative.zarr").load("hub").out_hub is not None
    assert Graph.open(tmp_path / "zero.zarr").load("light").out_light is not None


@pytest.mark.parametrize("weight", list(WEIGHTS))
def test_stranger_reads_store(tmp_path: Path, weight: str) -> None:
    """The README's ten lines, word for word; scipy's own matrix of the edges is the oracle."""
    source = random_source(10, vertices=2000, edges=9000, weight=weight, directed=True)
    assert source.w is not None
    build_here(source, tmp_path / "g.zarr", shards=2)
    ids, matrix = read_as_a_stranger(str(tmp_path / "g.zarr"))
    keep = source.u != source.v
    want: dict[tuple[int, int], Any] = {}
    for u, v, w in zip(source.u[keep], source.v[keep], source.w[keep], strict=True):
        want[u, v] = min(w, want.get((u, v), w))
    assert matrix.nnz == len(want)
    coo = matrix.tocoo()
    found = zip(ids[coo.row], ids[coo.col], coo.data, strict=True)
    assert {(u, v): w for u, v, w in found} == want


def read_as_a_stranger(path: str) -> tuple[Any, Any]:
    import numpy as np
    import scipy.sparse
    import zarr

    g = zarr.open_group(path, mode="r")
    about, ids = g.attrs["ooc_graph"], g["original_of"][:]
    n, shards = about["rows"], about["shards"]
    names = [f"shards/{s:05d}/out/light" for s in range(shards)]
    offsets, tails, weights = (
        [g[f"{name}/{array}"][:] for name in names] for array in ("offsets", "neighbors", "weights")
    )
    rows = [np.flatnonzero(np.arange(n) // 1024 % shards == s) for s in range(shards)]
    heads = [np.repeat(r, np.diff(o.astype(np.int64))) for r, o in zip(rows, offsets, strict=True)]
    arcs = (np.concatenate(weights), (np.concatenate(heads), np.concatenate(tails)))
    matrix = scipy.sparse.csr_array(arcs, shape=(n, n))
    return ids, matrix
