"""Everything that reads a store gives the same of a compressed one, to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout import chunks, names
from ooc_graph.layout.chunks import write_chunk
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.layout.packing import Packing
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import DiskBlocks
from ooc_graph.memory.cpu.plan import (
    RESERVE_BYTES,
    UNPACKING_BYTES,
    Plan,
    describe,
    least_bytes,
    plan_disk,
)
from ooc_graph.memory.heads import ALL, HeadRule
from ooc_graph.runtime import engine_cache
from ooc_graph.shards import tier_facts, tiers
from ooc_graph.shards.load import Graph
from tests.command_line import call
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process
from tests.unit.test_build_oracle import small_steps

DEVICE = CpuDevice(2)
UNIT = 512
KERNELS = ("bfs", "sssp")
Stores = dict[tuple[bool, int, bool], Path]


@pytest.fixture(autouse=True)
def _released():
    yield
    engine_cache.release()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Stores in chunks and units so small that hubs are cut over many; packed, and as they are."""
    folder = tmp_path_factory.mktemp("tiny")
    random = np.random.default_rng(5)
    ends = (6000 * random.random((2, 30_000)) ** 3).astype(np.int64)
    weights = random.integers(1, 5000, 30_000).astype(np.int32)
    found = {}
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(names, "SIDECAR_BYTES", UNIT)
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        for directed, shards in ((False, 1), (True, 4)):
            for compress in (False, True):
                path = folder / f"{directed}-{shards}-{compress}.zarr"
                edges = (ends[0], ends[1], weights)
                og.build(edges, path, directed=directed, shards=shards, compress=compress)
                found[directed, shards, compress] = path
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 16 * UNIT)


def loaded(graph: Graph, kernel: str, rule: HeadRule, batch: int = 4, kept: int = 0) -> Any:
    plan = Plan(tier_facts.facts_of(graph, kernel), 0, rule, batch, kept)
    return tiers.load_tiers(graph, plan, DEVICE, window=128, look=20)


def search_from_some(search: Any) -> None:
    for root in range(20):
        search.run(root)


def answer(tree: Any) -> tuple[bytes, bytes]:
    measure = tree.level if hasattr(tree, "level") else tree.distance
    return tree.parent.tobytes(), measure.tobytes()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("kernel", "directed", "shards"),
    [
        ("bfs", False, 1),
        pytest.param("sssp", True, 4, marks=pytest.mark.slow),
        pytest.param("bfs", True, 4, marks=pytest.mark.slow),
        pytest.param("sssp", False, 1, marks=pytest.mark.slow),
    ],
)
def test_searches_in_memory_and_out_of_the_store(
    kernel: str, directed: bool, shards: int, stores: Stores
) -> None:
    plain, packed = (Graph.open(stores[directed, shards, form]) for form in (False, True))
    order = ORDER_OF[kernel]
    columns = ["neighbors"] if kernel == "bfs" else ["neighbors", "weights"]
    for name in ("offsets", *columns):
        for shard in range(shards):
            assert packed.stored.spec(f"{names.rows_path(shard, 'out', order)}/{name}").packing
    searched = getattr(DEVICE, kernel)(plain.load(order))
    again = getattr(DEVICE, kernel)(packed.load(order))
    roots = 0, 5, plain.rows - 1
    wanted = [answer(searched.run(root)) for root in roots]
    assert [answer(again.run(root)) for root in roots] == wanted
    for rule, batch, kept in [(HeadRule(1), 2, 0), (HeadRule(2, 3), 5, 40 * UNIT)]:
        io_stats = []
        for graph in (plain, packed):
            search = loaded(graph, kernel, rule, batch, kept)
            assert [answer(search.run(root)) for root in roots] == wanted
            io_stats.append(search.io_stats)
            search.close()
        # Units hold as many arcs, in fewer bytes: 13 of 32 bits an id, and as many a weight.
        each = [found.bytes / found.blocks for found in io_stats]
        assert each[1] / each[0] == pytest.approx(13 / 32, rel=0.02)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("kernel", "harm"),
    [("bfs", "flip"), ("bfs", "cut"), ("bfs", "remove"), ("sssp", "flip")],
)
def test_a_harmed_chunk_stops_searches_by_name(kernel: str, harm: str, stores: Stores) -> None:
    graph = Graph.open(stores[False, 1, True])
    order = ORDER_OF[kernel]
    search = loaded(graph, kernel, HeadRule(1))
    wanted = answer(search.run(1))
    column = "neighbors" if kernel == "bfs" else "weights"
    array = f"{names.rows_path(0, 'out', order)}/{column}"
    path, block_bytes = graph.path / array / "c/1", graph.stored.spec(array).block_bytes
    content = path.read_bytes()
    said = {"flip": "is damaged from byte", "cut": "ends at byte", "remove": "is missing"}
    try:
        if harm == "flip":
            units = np.frombuffer(content, np.uint8).copy()
            units[10::block_bytes] ^= 1
            path.write_bytes(units.tobytes())
        elif harm == "cut":
            path.write_bytes(content[:100])
        else:
            path.unlink()
        with pytest.raises(CorruptStoreError, match=f"c/1: chunk 1 of {array} {said[harm]}"):
            search_from_some(search)
        with pytest.raises(CorruptStoreError, match=f"c/1: chunk 1 of {array}"):
            graph.load(order)
    finally:
        path.write_bytes(content)
    assert answer(search.run(1)) == wanted
    search.close()


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(("dtype", "bits"), [("uint32", 31), ("uint64", 33), ("int64", 63)])
def test_units_of_any_width_are_read_alone(
    dtype: str, bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unit, and stretches of them, of two shards; the last of each is not full."""
    monkeypatch.setattr(chunks, "SIDECAR_BYTES", UNIT)
    random, each = np.random.default_rng(bits), UNIT // np.dtype(dtype).itemsize
    shards = {
        name: random.integers(0, (1 << bits) - 1, length, np.uint64).astype(dtype) - 9
        for name, length in (("0", 37 * each + 5), ("1", 3 * each - 1))
    }
    if dtype != "int64":
        shards = {name: shard // 2 for name, shard in shards.items()}
    base = -9 if dtype == "int64" else 0
    write_packed(tmp_path / "s.zarr", shards, Packing(bits, base))
    first = np.array([0, 64 * each])
    whole = np.zeros(67 * each, dtype)
    for begin, shard in zip(first, shards.values(), strict=True):
        whole[begin : begin + len(shard)] = shard
    units = DiskBlocks(Stored.open(tmp_path / "s.zarr"), [("0", "1")], first, batch_blocks=41)
    every = np.concatenate([np.arange(38), 64 + np.arange(3)])
    wanted = [every, every[[0]], every[[37, 40]], every[5:36:3], every[14:19]]
    staged = units.stage(iter([[one] for one in wanted]))
    for numbers, (found,) in zip(wanted, staged, strict=True):
        for number, unit in zip(numbers, found.reshape(-1, each), strict=True):
            # What the last unit of a shard is filled up with is nobody's.
            stop = len(shards["0"]) if number < 64 else int(first[1]) + len(shards["1"])
            part = whole[number * each : min((number + 1) * each, stop)]
            assert np.array_equal(unit[: len(part)], part)
    assert units.io_stats.bytes < units.io_stats.blocks * UNIT
    units.close()


def write_packed(path: Path, arrays: dict[str, np.ndarray[Any, Any]], packing: Packing) -> None:
    with partial_store(path, "graph", overwrite=False) as partial:
        specs = [
            ArraySpec(name, len(data), data.dtype, packing=packing) for name, data in arrays.items()
        ]
        entries = [
            write_chunk(
                partial.folder, spec, index, [arrays[spec.path][slice(*spec.bounds(index))]]
            )
            for spec in specs
            for index in range(spec.chunks)
        ]
        partial.commit("graph", {}, specs, entries)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A plain and a compressed store of one graph with integer weights, of the usual units."""
    folder = tmp_path_factory.mktemp("pair")
    random = np.random.default_rng(8)
    ends = (3000 * random.random((2, 60_000)) ** 2).astype(np.int64)
    edges = (ends[0], ends[1], random.integers(1, 100, 60_000))
    paths = folder / "plain.zarr", folder / "packed.zarr"
    for path, compress in zip(paths, (False, True), strict=True):
        og.build(edges, path, directed=False, compress=compress)
    return paths


@pytest.mark.parametrize("method", ["rows", "edges"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_api_answers_the_same(kernel: str, method: str, pair: tuple[Path, Path]) -> None:
    found = [getattr(og, kernel)(path, 3, device="cpu", method=method) for path in pair]
    assert answer(found[0]) == answer(found[1])


def test_other_kernels_answer_the_same(pair: tuple[Path, Path]) -> None:
    components = [og.components(path, device="cpu").component.tobytes() for path in pair]
    assert components[0] == components[1]
    some = list(range(0, 90, 10))
    pairs = [og.johnson(path, sources=some, device="cpu") for path in pair]
    assert pairs[0].distance.tobytes() == pairs[1].distance.tobytes()
    levels = [og.multi_source_bfs(path, sources=some, device="cpu") for path in pair]
    assert levels[0].level.tobytes() == levels[1].level.tobytes()


@pytest.mark.parametrize("kernel", KERNELS)
def test_within_the_least_memory(kernel: str, pair: tuple[Path, Path]) -> None:
    plain, packed = (og.open(path) for path in pair)
    facts = tier_facts.facts_of(packed, kernel)
    assert facts.packed_bits == (12 if kernel == "bfs" else 12 + 7)
    assert least_bytes(facts) == least_bytes(tier_facts.facts_of(plain, kernel)) + UNPACKING_BYTES
    whole = describe(plan_disk(facts, 1 << 40))
    assert (whole["arcs of each row in memory"], whole["bytes that stay in the store"]) == (
        str(HeadRule(ALL)),
        0,
    )
    wanted = answer(getattr(og, kernel)(plain, 3, device="cpu"))
    engine_cache.release()
    # The answer that is held takes 24 bytes a vertex.
    limit = least_bytes(facts) + 24 * packed.vertices
    found = getattr(og, kernel)(packed, 3, device="cpu", memory_limit=limit)
    assert answer(found) == wanted


@pytest.mark.parametrize("kernel", KERNELS)
def test_memory_stays_within_the_plan(kernel: str, pair: tuple[Path, Path]) -> None:
    plan, peak, units = in_own_process(plan_and_peak, kernel, pair[1])
    assert units > 0
    room = plan.bytes - RESERVE_BYTES - plan.parts["id tables"]
    assert plan.parts["heads"] + plan.parts["row tables"] < peak <= room


def plan_and_peak(kernel: str, path: Path) -> tuple[Plan, int, int]:
    """What is planned, what loading and searching hold at once, and units that were read."""
    graph = og.open(path)
    facts = tier_facts.facts_of(graph, kernel)
    plan, io_stats = plan_disk(facts, least_bytes(facts)), []

    def search() -> None:
        found = tiers.load_tiers(graph, plan, DEVICE)
        found.run(0)
        io_stats.append(found.io_stats.blocks)
        found.close()

    # What compiles kernels, and imports modules, takes memory of its own.
    search()
    peak = traced_peak(search, plan.bytes - RESERVE_BYTES - plan.parts["id tables"])
    return plan, peak, io_stats[-1]


def test_the_command_builds_and_says_so(
    pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = tmp_path / "g.txt"
    text.write_text("".join(f"{i} {i * i % 97}\n" for i in range(900)))
    out = tmp_path / "g.zarr"
    words = ("build", text, out, "--compress", "--device", "cpu", "--quiet")
    assert call(monkeypatch, capsys, *words).code == 0
    graph = og.open(out)
    assert graph.attributes["compressed"] is True
    told = call(monkeypatch, capsys, "info", out)
    assert told.code == 0
    assert "compressed" in told.out
    assert call(monkeypatch, capsys, "verify", out).code == 0
    assert "compressed" not in og.open(pair[0]).attributes


@pytest.mark.slow
def test_graph500_runs_on_a_compressed_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ("--scale", 7, "--searches", 2, "--compress", "--no-energy", "--device", "cpu")
    ended = call(monkeypatch, capsys, "graph500", *words, "--out", out, "--quiet")
    assert ended.code == 0, ended.err
    graph = og.open(out / "graph.zarr")
    assert graph.attributes["compressed"] is True
    plain = og.build(og.Kronecker(7, weighted=True), tmp_path / "p.zarr", device="cpu")
    assert answer(og.sssp(plain, 5, device="cpu")) == answer(og.sssp(graph, 5, device="cpu"))
