"""SSSP on a CUDA device out of stores: the same bytes as the CPU's, and what harm is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import CorruptStoreError, UsageError
from ooc_graph.layout import chunks, names
from ooc_graph.memory.cuda.disk_sssp_plan import DiskSsspPlan
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.cuda_disk_sssp import load_device_sssp
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.types import Rows
from tests.gpu.comparison import CPU, same_sssp
from tests.unit.test_build_oracle import small_steps

ALL = 1 << 40
UNIT = 512


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, int, bool], Path]:
    """Stores of a few shards, packed or not, in units so small that hubs are cut over many."""
    folder = tmp_path_factory.mktemp("tiny")
    random = np.random.default_rng(5)
    ends = (6000 * random.random((2, 30_000)) ** 3).astype(np.int64)
    weights = random.random(30_000).astype(np.float32)
    found = {}
    with small_steps(chunk=16 * UNIT) as patch:
        patch.setattr(names, "SIDECAR_BYTES", UNIT)
        patch.setattr(chunks, "SIDECAR_BYTES", UNIT)
        for form in ((False, 1, False), (False, 4, True), (True, 4, False), (True, 1, True)):
            directed, shards, compress = form
            path = folder / f"{directed}-{shards}-{compress}.zarr"
            given = (ends[0], ends[1], weights)
            options = {"directed": directed, "shards": shards, "compress": compress}
            og.build(given, path, device="cpu", **options)
            found[form] = path
    return found


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "SIDECAR_BYTES", UNIT)
    monkeypatch.setattr(names, "CHUNK_BYTES", 16 * UNIT)


def loaded(opened: Graph, held: dict[str, Any]) -> DeviceTierSearch:
    given = {"share": HeadRule(1, 63), "near_arcs": ALL, "pins": True, **held}
    plan = DiskSsspPlan(cuda_disk.facts_of(opened, "sssp"), 0, 0, **given)
    return load_device_sssp(opened, plan, threads=2, window=128, look=20)


LEAST: dict[str, Any] = {"batch_blocks": 4}
STORED: list[dict[str, Any]] = [
    {"batch_blocks": 2},
    {"share": HeadRule(2, 3), "batch_blocks": 5, "near_arcs": 3000, "kept_bytes": 40 * UNIT},
    {"share": HeadRule(ALL, 63), "batch_blocks": 4, "near_arcs": 0, "pins": False},
]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("held", STORED)
@pytest.mark.parametrize(
    ("directed", "shards", "compress"),
    [(False, 1, False), (False, 4, True), (True, 4, False), (True, 1, True)],
)
def test_the_same_bytes_from_stores_of_any_form(
    directed: bool, shards: int, compress: bool, held: dict[str, Any], stores: Any
) -> None:
    opened = Graph.open(stores[directed, shards, compress])
    assert opened.shards == shards
    shard = opened.load(names.LIGHT)
    reference, whole = CPU.sssp(shard), shard.out_light
    assert isinstance(whole, Rows)
    assert whole.weights is not None
    search = loaded(opened, held)
    bound = search.sides[0].rows.heads
    assert bound.lengths.tolist() == np.diff(whole.offsets).tolist()
    assert search.sides[0].heaviest == whole.weights.max()
    assert len(bound.neighbors) == len(bound.starts) == 0
    before = search.io_stats
    for root in (0, 5, opened.rows - 1):
        same_sssp(search.run(root), reference.run(root))
    io_stats = search.io_stats.since(before)
    assert (io_stats.blocks == 0) == (search.plan.share.least == ALL)
    assert (io_stats.kept_blocks > 0) == ("kept_bytes" in held)
    search.close()


def search_from_some(search: DeviceTierSearch) -> None:
    for root in range(20):
        search.run(root)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_chunk_harmed_during_searches_stops_them_by_name(harm: str, stores: Any) -> None:
    opened = Graph.open(stores[False, 1, False])
    wanted = CPU.sssp(opened.load(names.LIGHT)).run(1).copy()
    search = loaded(opened, LEAST)
    file = opened.path / names.rows_path(0, "out", names.LIGHT) / "weights" / "c" / "1"
    content = file.read_bytes()
    try:
        if harm == "flip":
            units = np.frombuffer(content, np.uint8).copy()
            units[10::UNIT] ^= 1
            file.write_bytes(units.tobytes())
        elif harm == "cut":
            file.write_bytes(content[:100])
        else:
            file.unlink()
        with pytest.raises(CorruptStoreError, match=r"c/1: chunk 1 of shards/00000/out"):
            search_from_some(search)
    finally:
        file.write_bytes(content)
    same_sssp(search.run(1), wanted)
    search.close()


@pytest.mark.usefixtures("tiny")
def test_a_damaged_store_is_named_while_it_is_loaded(stores: Any) -> None:
    opened = Graph.open(stores[False, 1, False])
    file = opened.path / names.rows_path(0, "out", names.LIGHT) / "neighbors" / "c" / "1"
    content = file.read_bytes()
    try:
        units = np.frombuffer(content, np.uint8).copy()
        units[10::UNIT] ^= 1
        file.write_bytes(units.tobytes())
        with pytest.raises(CorruptStoreError, match=r"c/1: chunk 1 of shards/00000/out"):
            loaded(opened, LEAST)
    finally:
        file.write_bytes(content)


def test_stores_of_other_weights_are_refused(tmp_path: Path) -> None:
    edges = np.array([1, 2]), np.array([2, 3]), np.array([0.5, 0.25])
    built = og.build(edges, tmp_path / "g.zarr", device="cpu")
    with pytest.raises(UsageError, match="float64"):
        loaded(Graph.open(built.path), LEAST)


def test_nothing_is_pinned_where_nothing_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    built = og.build(og.Kronecker(10), tmp_path / "g.zarr", rows="both", device="cpu")
    opened = Graph.open(built.path)
    reference = CPU.sssp(opened.load(names.LIGHT))

    def refuse(*_: object) -> None:
        raise AssertionError("memory is pinned")

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", refuse)
    monkeypatch.setattr("ooc_graph.kernels.cuda.store.staged.pinned_buffer", refuse)
    search = loaded(opened, {"share": HeadRule(2, 4), "batch_blocks": 2, "pins": False})
    same_sssp(search.run(3), reference.run(3))
    search.close()
