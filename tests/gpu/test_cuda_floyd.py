"""All pairs at once on a CUDA device: the bytes of searches, and when it is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.kernels.cpu.many.johnson import CpuJohnson
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.types import AnyArray, Rows
from tests.gpu.many import TEAM, negative_sides, sides
from tests.said import Said
from tests.strategies import Arcs, metric

SMALL = ["path", "path, directed", "one edge", "kronecker 4", "kronecker 9"]
LARGER = ["dense, directed", "zero weights", "grid of plateaus"]


def pairs_of(arcs: Arcs) -> tuple[Rows, Rows]:
    shard = arcs.shards(1)[0]
    assert shard.out_light is not None
    assert shard.into_light is not None
    return shard.out_light, shard.into_light if arcs.directed else shard.out_light


def closed(out: Rows, into: Rows) -> CudaJohnson:
    """All pairs, found at once whatever the rules say."""
    search = CudaJohnson(out, into, threads=2)
    rows = search.search.vertices
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_floyd, "SURE_ROWS", rows)
        search.expect(rows + 300, rows)
    return search


def some(rows: int) -> AnyArray:
    drawn = np.random.default_rng(3).permutation(rows)[:300]
    return np.concatenate([drawn, [0, rows - 1]]).astype(np.int64)


@pytest.mark.parametrize("weights", ["int32", "int64"])
@pytest.mark.parametrize("name", SMALL + LARGER)
def test_same_bytes_as_searches(name: str, weights: str) -> None:
    out, into = sides(name, weights)
    search = closed(out, into)
    assert search.has_matrix
    sources = some(search.search.vertices)
    expected = CpuJohnson(out, into, TEAM).run(sources)
    assert search.run(sources).tobytes() == expected.tobytes()
    assert search.run(sources[:1]).tobytes() == expected[:1].tobytes()


@pytest.mark.parametrize("name", ["dense, directed", "path, directed"])
def test_negative_weights_and_parents(name: str) -> None:
    out, into = negative_sides(name, "int64")
    search = closed(out, into)
    assert search.has_matrix
    sources = some(search.search.vertices)[-20:]
    expected = CpuJohnson(out, into, TEAM).run_with_parents(sources)
    for found, right in zip(search.run_with_parents(sources), expected, strict=True):
        assert found.tobytes() == right.tobytes()
    assert search.run(sources).tobytes() == expected[0].tobytes()


def test_columns_and_reductions_are_those_of_searches() -> None:
    out, into = sides("kronecker 9", "int64")
    here, plain = closed(out, into), CudaJohnson(out, into, threads=2)
    rows = here.search.vertices
    sources = some(rows)
    targets = np.random.default_rng(4).permutation(rows)[: rows // 2].astype(np.int64)
    targets[::7] = -1
    own = np.where(np.isin(sources, targets), np.argmax(sources[:, None] == targets, axis=1), -1)
    for most in (None, int(np.median(here.run(sources)))):
        given = sources, targets, own, most
        assert here.run_columns(*given).tobytes() == plain.run_columns(*given).tobytes()
        assert here.reduce(*given).tobytes() == plain.reduce(*given).tobytes()
    assert here.has_matrix
    assert not plain.has_matrix


@pytest.mark.parametrize("factor", [1, 4000, 70_000, 1 << 20])
def test_long_paths(factor: int) -> None:
    """They fit, they fit though a bound does not say so, they may not, an arc does not."""
    arcs = metric(400, density=0.3)
    out, into = pairs_of(Arcs(**{**vars(arcs), "weight": arcs.weight * factor}))
    search = closed(out, into)
    assert search.has_matrix == (factor < 70_000)
    sources = np.arange(400)
    assert search.run(sources).tobytes() == CpuJohnson(out, into, TEAM).run(sources).tobytes()


def test_when_all_pairs_are_found_at_once() -> None:
    dense, loose = pairs_of(metric(2300, density=0.6)), sides("kronecker 13", "int64")
    floats = sides("kronecker 9", "float32")
    for (out, into), share, expected in (
        (dense, 1, True),
        (dense, 0.3, False),
        (loose, 1, False),
        (sides("kronecker 9", "int64"), 1, True),
        (floats, 1, False),
    ):
        search = CudaJohnson(out, into)
        rows = search.search.vertices
        search.expect(rows + 300, int(share * rows))
        assert search.has_matrix == expected


def test_as_users_ask_for_it(tmp_path: Path) -> None:
    arcs = metric(500, density=0.5)
    by = np.random.default_rng(1).integers(0, 10**5, arcs.vertices)
    weight = arcs.weight + by[arcs.source] - by[arcs.target]
    graph = og.from_edges(arcs.source * 3, arcs.target * 3, weight, directed=True)
    expected = og.johnson(graph, device="cpu")
    said = Said()
    found = og.johnson(graph, device="cuda", progress=said)
    assert found.distance.tobytes() == expected.distance.tobytes()
    assert "Floyd-Warshall" in " ".join(said.notes)
    some_ids = np.arange(0, 1500, 21)
    asked: list[dict[str, Any]] = [{"cutoff": 10**5}, {"parents": True}, {"targets": some_ids}]
    for options in asked:
        kept = og.johnson(graph, device="cuda", out=tmp_path / "d.zarr", overwrite=True, **options)
        right = og.johnson(graph, device="cpu", **options)
        for name in right.names:
            assert kept.read(name).tobytes() == right.read(name).tobytes()
    for reduce in ("eccentricity", "sum", "histogram"):
        one, other = (
            og.johnson(graph, reduce=reduce, device=device).read(reduce)
            for device in ("cuda", "cpu")
        )
        assert one.tobytes() == other.tobytes()
    assert og.johnson(graph, [0, 3], device="cuda").distance.shape == (2, 500)


@pytest.mark.parametrize("fits", [True, False])
def test_a_matrix_that_may_not_be_kept(monkeypatch: pytest.MonkeyPatch, fits: bool) -> None:
    if not fits:
        monkeypatch.setattr(cuda_floyd, "matrix_bytes", lambda _: 1 << 60)
    arcs = metric(300, density=0.5)
    graph = og.from_edges(arcs.source, arcs.target, arcs.weight, directed=True)
    said = Said()
    og.johnson(graph, device="cuda", progress=said)
    assert bool(said.notes) == fits
