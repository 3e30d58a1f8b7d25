"""Many sources on a store of several shards: the bytes of one shard, in memory and out of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.many import dividing
from tests.memory_limits import least_limit
from tests.said import Said

SHARDS, ROWS, EDGES = 4, 5_000, 40_000


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


def edges(*, signed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids with gaps, hubs, and an arc of each vertex, so that all shards have rows."""
    random = np.random.default_rng(14)
    source = (ROWS * random.random(EDGES) ** 3).astype(np.int64)
    target = random.integers(0, ROWS, EDGES)
    each = np.arange(ROWS)
    source, target = np.append(source, each), np.append(target, (each + 1) % ROWS)
    weight = random.random(len(source)).astype(np.float32)
    if signed:
        by = random.integers(0, 90, ROWS)
        weight = random.integers(1, 50, len(source)) + by[source] - by[target]
    keep = source != target
    return source[keep] * 3 + 1, target[keep] * 3 + 1, weight[keep]


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["float32", "signed int64"],
)
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[og.Graph, og.Graph]:
    """The same graph in one shard and in several."""
    folder, found = tmp_path_factory.mktemp("graphs"), edges(signed=request.param)
    build = partial(og.build, found, directed=True, rows="both", device="cpu")
    one, several = (build(folder / f"{count}.zarr", shards=count) for count in (1, SHARDS))
    assert one.rows == several.rows == ROWS
    assert several.shards == SHARDS
    return one, several


def columns(result: Any) -> dict[str, bytes]:
    return {name: np.asarray(result.read(name)).tobytes() for name in result.names}


@pytest.mark.timeout(600)  # what is compiled takes longer than the searches
@pytest.mark.parametrize("kernel", ["apsp", "bfs"])
def test_bytes_are_those_of_one_shard(
    stores: tuple[og.Graph, og.Graph], kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, several = stores
    sources = one.original_ids()[::97]
    find: Any = og.johnson if kernel == "apsp" else og.multi_source_bfs
    options = {"device": "cpu", **({"parents": True} if kernel == "apsp" else {})}
    right = columns(find(one, sources, **options))
    assert right.keys() >= ({"distance", "parent"} if kernel == "apsp" else {"level"})
    assert columns(find(several, sources, **options)) == right
    # On a graph of this size what is in memory takes less.
    monkeypatch.setattr(dividing, "process_bytes", lambda *_: 1 << 60)
    for graph in (several, one):
        said = Said()
        search = partial(find, graph, sources, out=tmp_path / graph.path.name, **options)
        limit = least_limit(search, 10_000)
        assert columns(search(memory_limit=limit, progress=said)) == right
        assert any("leaves arcs in the store" in note for note in said.notes)
        assert any("bytes of the store for" in note for note in said.notes)
