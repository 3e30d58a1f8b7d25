"""PageRank with arcs in the store, and by ranks of a cluster: the bits of one rank in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError, MemoryBudgetError
from ooc_graph.layout.names import ORDER_OF, rows_path
from ooc_graph.memory.cpu.stream_plan import least_streamed
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.streams import facts_of_streams
from ooc_graph.sinks.single import NUMPY, answer_bytes
from ooc_graph.strategies.cpu.streamed import facts_of_whole
from ooc_graph.strategies.ranks import STATE_BYTES
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.said import Said

KERNELS = ["pagerank", "weighted_pagerank"]
# State of a vertex in memory: else rows this small would fit.
LARGE = 1 << 20


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    engine_cache.release()


def _arrays() -> tuple[np.ndarray, ...]:
    """A directed graph of many blocks, with hubs; some vertices have no out-arcs, some no arcs."""
    draw = np.random.RandomState(5)
    source, target = (draw.random_sample((2, 400_000)) ** 3 * 9_000).astype(np.int64)
    source[source % 5 == 0] += 1
    return source, target, draw.random_sample(len(source))


@pytest.fixture(scope="module", params=["directed", "undirected", "packed"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "g.zarr"
    options: dict[str, Any] = {"directed": request.param == "directed", "rows": "both"}
    return og.build(_arrays(), path, shards=4, compress=request.param == "packed", **options)


def asked_of(graph: og.Graph, kernel: str) -> dict[str, Any]:
    jump = {int(v): 1.0 + v % 3 for v in graph.original_ids()[:: graph.vertices // 9]}
    asked = {"weight": kernel != "pagerank", "iterations": 8, "personalization": jump}
    # Another test's client is current.
    return {"client": False, **asked}


@pytest.mark.parametrize("kernel", KERNELS)
def test_streams_find_the_same_bits(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_of(graph, kernel)
    wanted = og.pagerank(graph, **asked)
    engine_cache.release()
    monkeypatch.setitem(STATE_BYTES, kernel, LARGE)
    answer = answer_bytes(graph, kernel, NUMPY)
    least = least_streamed(facts_of_whole(graph, kernel)) + answer
    for limit, share in ((least, "kept 0.0 %"), (least + (1 << 20), "kept ")):
        said = Said()
        found = og.pagerank(graph, memory_limit=limit, progress=said, **asked)
        assert found.pagerank.tobytes() == wanted.pagerank.tobytes()
        (note,) = said.notes
        assert f"{kernel} {share}" in note
        assert found.tier_bytes["read"] > 0
        planned = og.plan(graph, kernel, memory_limit=limit - answer)
        assert (planned["tier"], planned["bytes: in all"] <= limit) == ("disk", True)
    with pytest.raises(MemoryBudgetError, match=f"needs at least {least:,} bytes"):
        og.pagerank(graph, memory_limit=least - 1, **asked)


@pytest.mark.parametrize("graph", ["undirected"], indirect=True)
def test_a_damaged_block_is_reported(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STATE_BYTES, "pagerank", LARGE)
    copy = tmp_path / "copy.zarr"
    shutil.copytree(graph.path, copy)
    chunk = next(
        (copy / rows_path(1, graph.sides[-1], ORDER_OF["pagerank"]) / "neighbors").rglob("0")
    )
    data = bytearray(chunk.read_bytes())
    data[70_000] ^= 1
    chunk.write_bytes(data)
    opened = og.open(copy)
    least = least_streamed(facts_of_whole(opened, "pagerank"))
    with pytest.raises(
        CorruptStoreError, match="chunk 0 of shards/00001/out/hub/neighbors is damaged"
    ):
        og.pagerank(opened, weight=False, memory_limit=least, out=tmp_path / "r.zarr", client=False)
    assert not (tmp_path / "r.zarr").exists()


def test_limits_hold(tmp_path: Path) -> None:
    """Offsets are read, the answer is written."""
    og.build(og.Kronecker(15, edge_factor=64), tmp_path / "g.zarr", shards=2, client=False)
    for limit, peak in in_own_process(limits_and_peaks, tmp_path):
        assert limit // 4 < peak <= limit


def limits_and_peaks(folder: Path) -> list[tuple[int, int]]:
    """Limits in which arcs are streamed, and what is allocated at once within each."""
    graph, found = og.open(folder / "g.zarr"), []
    least = least_streamed(facts_of_whole(graph, "pagerank"))
    for limit in (least, least + 2_000_000):
        how = {"weight": False, "iterations": 3, "overwrite": True, "out": folder / "r.zarr"}
        search = partial(og.pagerank, graph, memory_limit=limit, **how)
        assert "read" in search().tier_bytes
        found.append((limit, traced_peak(search, limit, before=engine_cache.release)))
    engine_cache.release()
    return found


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    with og.local_cluster(2) as client:
        yield client


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("graph", ["directed"], indirect=True)
def test_workers_find_the_same_bits(
    graph: og.Graph,
    kernel: str,
    two_workers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = asked_of(graph, kernel)
    wanted = og.pagerank(graph, **asked)
    asked |= {"client": two_workers}
    by_ranks = {**asked, "exchange": "scheduler"}
    assert og.pagerank(graph, **by_ranks).pagerank.tobytes() == wanted.pagerank.tobytes()
    stored = og.pagerank(graph, out=tmp_path / "r.zarr", **by_ranks)
    assert stored.pagerank.tobytes() == wanted.pagerank.tobytes()
    whole = og.pagerank(graph, **asked)
    assert whole.pagerank.tobytes() == wanted.pagerank.tobytes()
    monkeypatch.setitem(STATE_BYTES, kernel, LARGE)
    least = 2 * least_streamed(facts_of_streams(graph, kernel, range(2), 2))
    streamed = og.pagerank(graph, memory_limit=least, **by_ranks)
    assert streamed.pagerank.tobytes() == wanted.pagerank.tobytes()
    with pytest.raises(MemoryBudgetError, match=f"needs at least {least // 2:,} bytes"):
        og.pagerank(graph, memory_limit=least - 2, **by_ranks)
