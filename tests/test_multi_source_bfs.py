"""BFS from many sources, as users ask for it: rows against single searches, reductions, stores."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers.asked import TOGETHER
from ooc_graph.errors import (
    DeviceError,
    MemoryBudgetError,
    UnexpectedError,
    UnknownVertexError,
    UsageError,
)
from ooc_graph.layout import metadata
from ooc_graph.layout.stored import Stored
from ooc_graph.strategies.many import dividing
from tests import small_pairs
from tests.memory_limits import held_within_least
from tests.own_process import in_own_process
from tests.small_pairs import Call, stopped_after

called = small_pairs.called


def edges(count: int = 260) -> tuple[np.ndarray, np.ndarray]:
    """Ids with gaps, long ways, a small piece apart and a vertex with only a self-loop."""
    random = np.random.default_rng(3)
    u, v = random.integers(0, 130, (2, count))
    u, v = np.append(u, [200, 201, 300]), np.append(v, [201, 202, 300])
    return u * 7 + 3, v * 7 + 3


@pytest.fixture(scope="module", params=[True, False], ids=["directed", "undirected"])
def graph(request: pytest.FixtureRequest) -> og.Graph:
    return og.from_edges(*edges(), directed=request.param)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hops") / "g.zarr"
    og.build(edges(), path, directed=True)
    return path


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch, store: Path) -> int:
    """Chunks of five sources, a task each."""
    width = og.open(store).vertices

    def length(elements: int, itemsize: int) -> int:
        return max(1, min(elements, 5 * width * 4 // itemsize))

    monkeypatch.setattr(metadata, "chunk_length", length)
    monkeypatch.setitem(TOGETHER, True, 5)
    monkeypatch.setattr(dividing, "BATCH_SIZES", (1,))
    monkeypatch.setattr(dividing, "TASK_BATCHES", 1)
    return 5


def test_rows_are_those_of_single_searches(graph: og.Graph) -> None:
    found = og.multi_source_bfs(graph)
    assert found.names == ("source", "vertex", "level")
    assert found.level.dtype == np.int32
    assert found.vertex.tolist() == found.source.tolist() == graph.original_ids().tolist()
    for source, row in zip(found.source.tolist(), found.level, strict=True):
        assert np.array_equal(row, og.bfs(graph, source).level)
    assert found.level.max() > 4
    assert found.level.min() == -1


def test_sources_targets_and_cutoff(graph: og.Graph) -> None:
    whole = og.multi_source_bfs(graph)
    sources, targets = [2103, 1403, 1410, 10, 3], [3, 2103, 1417, 703]
    places = [np.searchsorted(whole.vertex, ids) for ids in (sources, targets)]
    expected = whole.level[np.ix_(*places)]
    found = og.multi_source_bfs(graph, sources, targets=targets)
    assert found.vertex.tolist() == targets
    assert np.array_equal(found.level, expected)
    near = og.multi_source_bfs(graph, sources, targets=targets, cutoff=1.5)
    assert np.array_equal(near.level, np.where(expected > 1, -1, expected))
    assert (og.multi_source_bfs(graph, sources, cutoff=-1).level == -1).all()
    assert found.to_frame().loc[3, 2103] == -1


@pytest.mark.parametrize("targets", [None, [3, 2103, 1417, 703]])
@pytest.mark.parametrize("cutoff", [None, 2, -1])
def test_reductions_are_those_of_the_levels(graph: og.Graph, targets: Any, cutoff: Any) -> None:
    options = {"targets": targets, "cutoff": cutoff}
    whole = og.multi_source_bfs(graph, **options)
    found = {
        name: og.multi_source_bfs(graph, reduce=name, bins=3, bin_width=2, **options)
        for name in ("eccentricity", "sum", "closeness", "histogram")
    }
    for place, (source, row) in enumerate(zip(whole.source, whole.level, strict=True)):
        near = row[row >= 0].tolist()
        others = len(near) - int((row[whole.vertex == source] >= 0).sum())
        share = others / (graph.vertices - 1)
        bins = [sum(min(level // 2, 2) == bin_ for level in near) for bin_ in range(3)]
        expected = {
            "eccentricity": max(near, default=0),
            "sum": sum(near),
            "closeness": share / (sum(near) / others) if others else 0,
            "histogram": bins,
        }
        for name, value in expected.items():
            assert found[name].read("reached")[place] == len(near)
            got = found[name].read(name)[place].tolist()
            assert got == (pytest.approx(value, rel=1e-12) if name == "closeness" else value)


def test_types_of_reductions(graph: og.Graph) -> None:
    dtypes = {"eccentricity": "int32", "sum": "int64", "closeness": "float64", "histogram": "int64"}
    for name, dtype in dtypes.items():
        found = og.multi_source_bfs(graph, [3], reduce=name)
        assert found.read(name).dtype == dtype
    # Widths and bounds of any size.
    wide = og.multi_source_bfs(graph, [3], reduce="histogram", bins=2, bin_width=10**30)
    assert wide.histogram[0, 1] == 0
    assert np.array_equal(
        og.multi_source_bfs(graph, [3], cutoff=1e300).level, og.multi_source_bfs(graph, [3]).level
    )


@pytest.mark.parametrize("reduce", [None, "histogram"])
def test_a_stopped_run_goes_on(
    store: Path, tmp_path: Path, small_chunks: int, reduce: str | None
) -> None:
    held = og.multi_source_bfs(store, reduce=reduce)
    whole = og.multi_source_bfs(store, out=tmp_path / "whole.zarr", reduce=reduce)
    out = tmp_path / "d.zarr"
    with stopped_after(7) as first, pytest.raises(UnexpectedError, match="stopped"):
        og.multi_source_bfs(store, out=out, reduce=reduce)
    with stopped_after(1000) as again:
        found = og.multi_source_bfs(store, out=out, reduce=reduce)
    assert sorted([*first, *again]) == list(range(-(-len(whole.source) // small_chunks)))
    assert Stored.open(out).identity == Stored.open(tmp_path / "whole.zarr").identity
    for name in held.names:
        assert found.read(name).tobytes() == held.read(name).tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.zarr", "whole.zarr"]


@pytest.mark.slow  # as much as of distances
def test_two_workers_write_the_same_bytes(store: Path, tmp_path: Path) -> None:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        og.multi_source_bfs(store, out=tmp_path / "there.zarr", client=client)
        og.multi_source_bfs(store, out=tmp_path / "r.zarr", reduce="sum", client=client)
        held = og.multi_source_bfs(store, [17, 3], reduce="sum", client=client)
    og.multi_source_bfs(store, out=tmp_path / "here.zarr")
    here, there = (Stored.open(tmp_path / f"{name}.zarr").identity for name in ("here", "there"))
    assert here == there
    sums = og.multi_source_bfs(store, reduce="sum").read("sum")
    assert np.array_equal(og.Result.open(tmp_path / "r.zarr").read("sum"), sums)
    assert held.read("sum").tolist() == [sums[2], sums[0]]


def test_the_command(store: Path, called: Call) -> None:
    Path("s.txt").write_text("17\n3\n")
    ended = called("bfs", store, "--sources", "s.txt", "--out", "d.zarr")
    assert ended.code == 0, ended
    assert ended.out.startswith("bfs: levels of 2 sources in ")
    found = og.Result.open("d.zarr")
    assert isinstance(found, og.LevelsResult)
    assert np.array_equal(found.level, og.multi_source_bfs(store, [17, 3]).level)
    assert np.array_equal(found.to_zarr()["level"][:], found.level)
    assert Stored.open("d.zarr").attributes["unreached"] == -1
    words = "--sources", "all", "--reduce", "closeness", "--cutoff", 2, "--out", "c.zarr"
    assert called("bfs", store, *words).code == 0
    assert math.isfinite(og.Result.open("c.zarr").read("closeness").sum())
    assert called("info", "c.zarr").code == 0
    assert called("export", "c.zarr", "c.csv").code == 0
    assert "are not exported" in called("export", "d.zarr", "d.csv").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --source V, or --sources"),
        (["--source", "3", "--sources", "5"], "give --source V, or --sources"),
        (["--source", "3", "--reduce", "sum"], "--reduce needs --sources"),
        (["--source", "3", "--bin-width", "2"], "--bin-width needs --sources"),
        (["--sources", "5", "--method", "edges"], "are for one --source"),
        (["--sources", "5", "--device", "cuda"], "there is no device"),
        (["--sources", "5000"], "5000 sources are asked for"),
    ],
)
def test_refusals_of_the_command(
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
    called: Call,
) -> None:
    def none_here() -> int:
        raise DeviceError("there is no device")

    monkeypatch.setattr("ooc_graph.runtime.devices.cuda_memory_bytes", none_here)
    ended = called("bfs", store, "--out", tmp_path / "d.zarr", *words)
    assert ended.code == 2
    assert message in ended.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{}, {"reduce": "histogram"}])
def test_memory_stays_within_the_least_limit_that_is_accepted(options: Any) -> None:
    limit, held = in_own_process(held_within_the_least_limit, options)
    assert limit / 4 < held <= limit


def held_within_the_least_limit(options: dict[str, Any]) -> tuple[int, int]:
    """The least limit, and what a search within it holds at once."""
    u, v = np.random.default_rng(8).integers(0, 4000, (2, 20_000))
    graph = og.from_edges(u, v, directed=True)
    sources = graph.original_ids()[:1500]
    each = 16 + 48 * 64 if options else graph.vertices * 4
    search = partial(og.multi_source_bfs, graph, sources, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ooc_graph.runtime.this_process.cores", lambda: 1)
        return held_within_least(search, len(sources) * each, graph.resident_bytes("hub"))


def test_refusals_of_the_api(graph: og.Graph) -> None:
    with pytest.raises(UnknownVertexError):
        og.multi_source_bfs(graph, [4])
    with pytest.raises(UsageError, match="give an integer"):
        og.multi_source_bfs(graph, reduce="histogram", bin_width=1.5)
    with pytest.raises(MemoryBudgetError, match="give out="):
        og.multi_source_bfs(graph, memory_limit=1000)
    with pytest.raises(MemoryBudgetError, match="in one worker"):
        og.multi_source_bfs(graph, reduce="sum", memory_limit=20_000)
    with pytest.raises(UsageError, match="no parents"):
        og.answers.many.Asked(parents=True, hops=True)
