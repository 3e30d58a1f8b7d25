"""What is said of rows in pinned host memory, and how they are loaded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceError, MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.memory.cuda.device_facts import COLUMNS
from ooc_graph.memory.cuda.pinned_plan import BfsPlan
from ooc_graph.model import rank_memory
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CUDA, CudaLimits
from ooc_graph.model.task import Trace, Written
from ooc_graph.runtime import devices, engine_cache, process
from ooc_graph.runtime.this_process import planned
from ooc_graph.search import algorithm as search_algorithm
from ooc_graph.search import on_engine, single
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.cuda.pinned import Pinned
from tests import tiered_graphs
from tests.command_line import call
from tests.made_up_place import CudaHere, chosen
from tests.said import Said
from tests.tiered_graphs import HOST

graph, directed, nothing_stays = (
    tiered_graphs.graph,
    tiered_graphs.directed,
    tiered_graphs.nothing_stays,
)


def test_a_search_that_was_refused_memory_is_not_refused_again(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    whole, root = cuda_memory.cuda_bytes(graph, "bfs"), int(graph.original_of()[0])

    def refuse(_: object, __: object, ___: str, reserved: Reservation) -> object:
        loaded.append(reserved.strategy)
        raise MemoryBudgetError("refused")

    def load(_: object, __: object, ___: str, reserved: Reservation) -> object:
        loaded.append(reserved.strategy)
        search = SimpleNamespace(run=lambda: None)
        names = dict.fromkeys(("note", "io_stats", "graph", "ids", "original_parents"))
        return SimpleNamespace(**names, search=search, close=lambda: None)

    def search(pinned_bytes: int | None = None, *, limit_bytes: int = 0) -> list[str]:
        there, said = CudaHere(limit_bytes or HOST, CudaLimits(whole, pinned_bytes)), Said()
        there.is_limited = limit_bytes > 0
        single.search(graph, "bfs", root, workplace=there, progress=said)
        return said.notes

    monkeypatch.setattr(cuda_memory.InMemory, "load", refuse)
    monkeypatch.setattr(Pinned, "load", load)
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (whole, whole))
    monkeypatch.setattr(on_engine, "internal_root", lambda *_: ())
    monkeypatch.setattr(search_algorithm, "internal_root", lambda *_: ())
    monkeypatch.setattr(search_algorithm, "trace_of", lambda *_: Trace(0.0, ()))
    given = Written(Trace(0.0, ()))
    monkeypatch.setattr(search_algorithm.Algorithm, "_arrays_of", lambda *_: ())
    monkeypatch.setattr(search_algorithm.Algorithm, "_delivered", lambda *_: given)
    engine_cache.release()
    (note,) = search()
    assert note.startswith("device memory was refused: bfs keeps its rows in host memory")
    assert search() == []
    assert loaded == ["cuda/memory", "cuda/pinned"]
    # It is held as what was asked for, where that fits the device, whatever is free in the host.
    tight = replace(planned(1, CUDA, CudaLimits(whole)), is_limited=False)
    assert chosen(graph, "bfs", tight).strategy == "cuda/memory"
    # But not where so much must not be pinned, nor within another limit.
    loaded.clear()
    with pytest.raises(MemoryBudgetError, match="refused"):
        search(pinned_bytes=1)
    assert loaded == ["cuda/memory"]
    for _ in range(2):
        engine_cache.release()
        loaded.clear()
        search()
        assert loaded == ["cuda/memory", "cuda/pinned"]
        search(limit_bytes=HOST)
        assert loaded[2] == "cuda/memory"
    engine_cache.release()


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_plan_is_shown(
    graph: og.Graph,
    kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = og.plan(graph, kernel, device="cuda", device_memory="1GiB")
    assert (table["tier"], table["device budget"]) == ("device memory", 1 << 30)
    assert table["device bytes: in all"] == cuda_memory.cuda_bytes(graph, kernel)
    arguments = ["plan", str(graph.path), "--kernel", kernel, "--device", "cuda", "--json"]
    limits = ["--device-memory", "28MB", "--host-memory", "1GB"]
    done = call(monkeypatch, capsys, *arguments, *limits)
    assert done.code == 0, done.err
    table = json.loads(done.out)
    assert table["tier"] == "pinned"
    assert table["device bytes: in all"] <= 28_000_000
    assert table["bytes of pinned host memory"] == graph.stored_arcs * (4 if kernel == "bfs" else 8)
    with pytest.raises(UsageError, match="choose cpu or cuda"):
        og.plan(graph, device="gpu")
    # Ids of 64 bits are searched by ranks.
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)
    table = og.plan(graph, kernel, device="cuda", device_memory="1GiB")
    assert table["tier"] == "device memory, by ranks"
    ranks = rank_memory.ranks_bytes(graph, kernel, range(graph.shards))
    assert table["device bytes: in all"] == ranks != cuda_memory.cuda_bytes(graph, kernel)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_no_host_memory_is_a_limit(
    graph: og.Graph,
    kernel: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = ["plan", graph.path, "--kernel", kernel, "--device", "cuda", "--device-memory"]
    none = ["--host-memory", "0"]
    # A device that holds the rows needs none.
    done = call(monkeypatch, capsys, *whole, "1GiB", *none)
    assert (done.code, "device memory" in done.out) == (0, True)
    done = call(monkeypatch, capsys, *whole, "28MB", *none)
    assert (done.code, done.out) == (2, "")
    assert "of pinned host memory, and 0 may be used; raise --host-memory" in done.err
    with pytest.raises(MemoryBudgetError, match="and 0 may be used"):
        og.plan(graph, kernel, device="cuda", device_memory="28MB", host_memory=0)
    assert CudaLimits.of(None, "0 GiB") == CudaLimits(None, 0)
    with pytest.raises(UsageError, match="for CUDA devices"):
        og.plan(graph, kernel, host_memory=0)


def test_no_device_memory_is_no_limit(graph: og.Graph) -> None:
    for host_memory in (None, 0):
        with pytest.raises(UsageError, match="more than nothing"):
            og.plan(graph, device="cuda", device_memory="0", host_memory=host_memory)
    for less in ("0.5", "-1", "0 of it"):
        with pytest.raises(UsageError, match="--host-memory"):
            CudaLimits.of(None, less)


@pytest.mark.parametrize("option", ["--device-memory", "--host-memory"])
def test_limits_of_cuda_devices_are_not_for_the_cpu(
    graph: og.Graph,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said, out = "are for CUDA devices", ["--out", tmp_path / "out.zarr"]
    sources = tmp_path / "sources.txt"
    sources.write_text("1\n2\n")
    for command in (
        ["bfs", graph.path, *out, "--source", "1"],
        ["bfs", graph.path, *out, "--sources", sources],
        ["sssp", graph.path, *out, "--source", "1"],
        ["apsp", graph.path, *out],
        ["plan", graph.path],
    ):
        done = call(monkeypatch, capsys, *command, "--device", "cpu", option, "1GiB")
        assert (done.code, said in done.err) == (2, True)
    given = {option[2:].replace("-", "_"): "1GiB"}
    for search_from in (og.bfs, og.sssp):
        with pytest.raises(UsageError, match=said):
            search_from(graph, 1, device="cpu", **given)
    assert not (tmp_path / "out.zarr").exists()


def test_limits_of_cuda_devices_are_no_matter_where_there_is_none(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here() -> int:
        raise DeviceError("there is no device")

    monkeypatch.setattr(devices, "cuda_memory_bytes", none_here)
    root, limits = int(graph.original_of()[0]), {"device_memory": "1MB", "host_memory": "1MB"}
    for search_from in (og.bfs, og.sssp):
        found = search_from(graph, root, **limits)
        assert found.reached.any()
        with pytest.raises(DeviceError, match="there is no device"):
            search_from(graph, root, device="cuda", **limits)


@pytest.mark.parametrize("name", ["graph", "directed"])
@pytest.mark.parametrize("order", ["hub", "light"])
def test_rows_are_loaded_into_a_room(name: str, order: str, request: pytest.FixtureRequest) -> None:
    graph: og.Graph = request.getfixturevalue(name)
    given = []

    def room(count: int, dtype: np.dtype) -> np.ndarray:
        given.append(np.full(count, 7, dtype))
        return given[-1]

    plain, held = graph.load(order), graph.load(order, room=room)
    sides = [(getattr(s, f"out_{order}"), getattr(s, f"into_{order}")) for s in (plain, held)]
    for expected, found in zip(*sides, strict=True):
        assert found.neighbors.tobytes() == expected.neighbors.tobytes()
        assert any(found.neighbors is array for array in given)
        if order == "light":
            assert found.weights.tobytes() == expected.weights.tobytes()
            assert any(found.weights is array for array in given)
    assert len(given) == (1 + graph.directed) * (1 + (order == "light"))


def test_facts_of_a_graph(directed: og.Graph) -> None:
    facts = cuda_pinned.facts_of(directed, "bfs")
    shard = directed.load("hub")
    assert [side.arcs for side in facts.sides] == [
        len(r.neighbors) for r in (shard.out_hub, shard.into_hub)
    ]
    lengths = np.diff(shard.into_hub.offsets.astype(np.int64))
    expected = [np.flatnonzero(lengths > 1 + 4 * k)[-1] + 1 for k in range(COLUMNS)]
    assert (facts.longer, facts.longer3) == (tuple(expected), np.flatnonzero(lengths > 3)[-1] + 1)
    assert facts.rows == directed.rows
    held = BfsPlan(facts, 0, 2, 10)
    note = cuda_pinned.note_of(held)
    assert note.startswith(
        f"bfs had {4 * directed.stored_arcs:,} bytes of rows in pinned host memory, and"
    )
    assert re.search(rf"and {held.bytes:,} bytes on the device with [\d.]+ % of the arcs", note)
    assert note.endswith("(of each row 9, and hubs)")
