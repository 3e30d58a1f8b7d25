"""SSSP by near-far on rows in pinned host memory: its plan and choice, without a device."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.pinned.near_far import CudaTierNearSearch, _Uncopied
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.rows import NULL, DeviceRows
from ooc_graph.kernels.cuda.sssp import near_far as cuda_sssp_near
from ooc_graph.kernels.cuda.sssp import search as cuda_sssp
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.kernels.cuda.sssp.sums import STORED_TYPES, Sums, sums_of_stored
from ooc_graph.layout.names import CHUNK_BYTES
from ooc_graph.memory.cuda import device_facts
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts, NearPlan
from ooc_graph.memory.cuda.pinned_plan import SsspPlan, describe_device, least_plan, plan_device
from ooc_graph.memory.heads import Lengths
from ooc_graph.model.request import Job, Request
from ooc_graph.model.resources import CUDA, CudaLimits, Resources
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.this_process import planned
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.types import Rows
from tests.command_line import call
from tests.made_up_device import PINNED, put_in_place
from tests.made_up_place import CudaHere, chosen, plan_for
from tests.refused_in_turn import InTurn, followed
from tests.said import Said
from tests.unit.test_cuda_sources import SUMS

HOST = 1 << 40
WEIGHTS = [str(dtype) for dtype in STORED_TYPES]


def facts_of(
    rows: int, weights: str, *, directed: bool = False, original_parents: bool = False
) -> DeviceFacts:
    side = Lengths(np.array([3]), np.array([rows]))
    return DeviceFacts(
        rows, (side,) * (1 + directed), (0,) * COLUMNS, 0, original_parents, np.dtype(weights)
    )


@settings(max_examples=100, deadline=None)
@given(
    rows=st.integers(1, 1 << 33),
    weights=st.sampled_from(WEIGHTS),
    budget=st.integers(0, 1 << 40),
    directed=st.booleans(),
    original_parents=st.booleans(),
)
def test_plans_fit_and_refusals_name_what_would_do(
    rows: int, weights: str, budget: int, directed: bool, original_parents: bool
) -> None:
    facts = facts_of(rows, weights, directed=directed, original_parents=original_parents)
    try:
        plan = plan_device("sssp", facts, budget, 1 << 60)
    except MemoryBudgetError as error:
        found = re.search(r"at least ([\d,]+) bytes of device memory", str(error))
        assert found is not None
        needed = int(found[1].replace(",", ""))
        assert needed == least_plan("sssp", facts).bytes > budget
        plan = plan_device("sssp", facts, needed, 1 << 60)
    assert isinstance(plan, NearPlan)
    assert plan.bytes <= plan.budget_bytes
    assert plan.pinned_bytes == facts.arcs * (4 + np.dtype(weights).itemsize)
    # Near-far takes no more, whatever there is.
    assert plan.bytes == plan_device("sssp", facts, 1 << 60, 1 << 60).bytes
    with pytest.raises(MemoryBudgetError, match=f"needs {plan.pinned_bytes:,} bytes of pinned"):
        plan_device("sssp", facts, plan.bytes, plan.pinned_bytes - 1)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_plan_has_all_that_the_search_allocates(
    weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By type, sums narrow and wide: as `NearFar` and `CudaSsspSearch` allocate, in NumPy."""
    monkeypatch.setattr(device_facts, "FIXED_BYTES", 0)
    rows, sums = 100_000, sums_of_stored(np.dtype(weights))
    plan = NearPlan(facts_of(rows, weights), 0)
    made = [0]

    def empty(count: int, dtype: Any) -> np.ndarray:
        found = np.empty(count, dtype)
        made[0] += found.nbytes
        return found

    stand_in = SimpleNamespace(empty=empty)
    monkeypatch.setattr(cuda_sssp_near, "cuda", lambda: stand_in)
    for wide in {sums.wide, sums.wide or sums.integers}:
        found = object.__new__(_Uncopied)
        found._out = DeviceRows(np.zeros(rows + 1, np.uint64), np.zeros(0, np.uint32))
        made[0] = 0
        found._allocate(Sums(wide, sums.integers, sums.weight), cuda_sssp_near.MOST_FRONT)
        answer = 8 * rows if sums.integers and not wide else 0
        tuples, look = 4 * rows, rows
        assert made[0] + answer + tuples + look <= plan.parts["vertex state"]
        assert made[0] + answer + tuples + look >= plan.parts["vertex state"] - 64
    assert plan.parts["offsets"] == 8 * (rows + 1)


def test_plan_and_kernels_count_alike() -> None:
    assert (
        device_facts.NEAR_ENTRY_BYTES,
        device_facts.NEAR_FRONT,
        device_facts.NEAR_LISTS,
    ) == (
        cuda_sssp_near._ENTRY_BYTES,
        cuda_sssp_near.MOST_FRONT,
        (cuda_sssp_near.NEAR_SHARE, cuda_sssp_near.FAR_SHARE),
    )


def test_a_plan_as_a_table() -> None:
    plan = NearPlan(facts_of(5000, "float64", original_parents=True), 1 << 30)
    table = describe_device(plan)
    parts = [size for name, size in table.items() if name.startswith("device bytes: ")]
    assert sum(parts) == 2 * plan.bytes == 2 * table["device bytes: in all"]
    assert (table["tier"], table["kernel"]) == ("pinned", "sssp")
    assert table["bytes of pinned host memory"] == 12 * 15_000
    assert table["share of arcs on the device"] == 0
    assert cuda_pinned.note_of(plan) == (
        f"sssp had 180,000 bytes of rows in pinned host memory, and {plan.bytes:,} bytes on the "
        "device with 0.0 % of the arcs (of each row none)"
    )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("directed", [False, True])
def test_rows_are_searched_where_they_are(
    weights: str, directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are neither copied nor changed; sums are such as are compiled ahead, in tests."""
    monkeypatch.setattr(
        cuda_sssp,
        "rows_on_device",
        lambda rows, weighted: DeviceRows(rows.offsets, rows.neighbors, rows.weights),
    )
    out, into = (
        Rows(
            np.arange(5, dtype=np.uint64),
            np.arange(4, dtype=np.uint32),
            np.arange(4).astype(weights),
        )
        for _ in range(2)
    )
    into = into if directed else out
    search = object.__new__(CudaTierNearSearch)
    search._load(out, into)
    assert (search._into is search._out) == (not directed)
    for held, given_rows in ((search._out, out), (search._into, into)):
        assert held.weights.base is given_rows.weights or held.weights is given_rows.weights
        assert held.weights.dtype == search._sums.weight
    assert search.heaviest == 3
    assert search._sums in SUMS
    assert search._sums.wide == weights.endswith("64")
    assert search._sums.distance == (np.int64 if weights.startswith("int") else np.dtype(weights))
    assert object.__new__(_Uncopied)._fix_rows({}) == (NULL, NULL)
    # Where rows are copied anyway, integers that fit get 32 bits.
    whole = object.__new__(CudaSsspSearch)
    whole._load(out, into)
    assert whole._sums.weight.itemsize == (8 if weights == "float64" else 4)


@pytest.mark.parametrize("weights", ["int8", "uint16", "uint32", "uint64", "float16", "bool"])
def test_weights_that_no_store_has_are_refused(weights: str) -> None:
    with pytest.raises(UsageError, match=f"float32, float64, int32, int64, not {weights}"):
        sums_of_stored(np.dtype(weights))


Weigh = Callable[[np.random.Generator, int], np.ndarray]
KINDS: dict[str, tuple[bool, Weigh]] = {
    "float32, no hubs": (False, lambda rng, n: rng.random(n).astype(np.float32)),
    "float64": (True, lambda rng, n: rng.random(n)),
    "int32": (True, lambda rng, n: rng.integers(0, 1000, n)),
    "int64": (True, lambda rng, n: rng.integers(0, 1 << 40, n)),
}


@pytest.fixture(scope="module", params=KINDS)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Of each type of weights one, directed and not."""
    hubs, weigh = KINDS[request.param]
    rng, count = np.random.default_rng(3), 30_000
    ends = (rng.random((2, count)) ** (3 if hubs else 1) * 5000).astype(np.int64)
    path = tmp_path_factory.mktemp("graphs") / "g.zarr"
    directed = request.param in ("float64", "int32")
    built = og.build((*ends, weigh(rng, count)), path, rows="both", directed=directed, shards=2)
    assert str(built.weight_dtype) == request.param.partition(",")[0]
    return built


@pytest.fixture(autouse=True)
def _little_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on large graphs, where what is small beside the vertices does not matter."""
    monkeypatch.setattr(device_facts, "FIXED_BYTES", 0)


def place(device_bytes: int, pinned_bytes: int | None = None) -> Resources:
    return planned(HOST, CUDA, CudaLimits(device_bytes, pinned_bytes))


def test_rows_are_pinned_where_the_device_is_too_small(graph: og.Graph) -> None:
    whole, pinned = cuda_memory.cuda_bytes(graph, "sssp"), cuda_pinned.pinned_bytes(graph, "sssp")
    assert pinned == graph.stored_arcs * (4 + graph.weight_dtype.itemsize)
    assert cuda_pinned.may_pin(graph, "sssp")
    assert not cuda_pinned.reads_little(graph, "sssp")
    least = cuda_pinned.least_device_bytes(graph, "sssp")
    assert least < whole
    assert isinstance(least_plan("sssp", cuda_pinned.known_facts(graph, "sssp")), NearPlan)
    assert chosen(graph, "sssp", place(whole)).strategy == "cuda/memory"
    for small in (whole - 1, least):
        reserved = chosen(graph, "sssp", place(small, pinned))
        assert (reserved.strategy, reserved.device_bytes) == ("cuda/pinned", small)


@pytest.mark.parametrize("wanted", ["cuda", "auto"])
def test_what_comes_behind_pinned_memory(graph: og.Graph, wanted: str) -> None:
    """With float32 the store where CUDA is asked for; else the CPU, or what would do is said."""
    small, pinned = (
        cuda_memory.cuda_bytes(graph, "sssp") - 1,
        cuda_pinned.pinned_bytes(graph, "sssp"),
    )
    least = cuda_pinned.least_device_bytes(graph, "sssp")
    said = {
        (small, pinned - 1): f"needs {pinned:,} bytes of pinned host memory",
        (least - 1, pinned): f"at least {least:,} bytes of device memory",
    }
    for limits, words in said.items():
        there = replace(place(*limits), wanted=wanted)
        if wanted == "auto":
            found = plan_for(graph, "sssp", there)
            assert found.strategy.name == "cpu/memory"
            assert words in found.why
        elif graph.weight_dtype == np.float32:
            if limits[0] < least:  # less than the store's way would do with, too
                continue
            assert chosen(graph, "sssp", there).strategy == "cuda/disk"
        else:
            with pytest.raises(MemoryBudgetError, match=words):
                chosen(graph, "sssp", there)


def test_host_memory_holds_a_chunk_of_the_widest_column(graph: og.Graph) -> None:
    small, widest = cuda_memory.cuda_bytes(graph, "sssp") - 1, max(4, graph.weight_dtype.itemsize)
    tables = 4 * graph.vertices + 48 * graph.rows + min(CHUNK_BYTES, widest * graph.stored_arcs)
    needed = (
        cuda_pinned.pinned_bytes(graph, "sssp")
        + tables
        + (8 * graph.vertices) * (graph.first_id is None)
    )
    for limit, fits in ((needed, True), (needed - 1, False)):
        there = planned(limit, CUDA, CudaLimits(small))
        if fits:
            assert cuda_pinned.plan_for(Job(graph, Request("sssp"), there)).budget_bytes == small
        else:
            with pytest.raises(MemoryBudgetError, match=f"at least {needed:,} bytes of host"):
                cuda_pinned.plan_for(Job(graph, Request("sssp"), there))


def test_an_answer_on_the_device_has_room_for_its_distances(graph: og.Graph) -> None:
    each = 32 if graph.weight_dtype == np.float32 else 36
    names = 0 if graph.first_id is not None else 16 * graph.rows
    assert cuda_pinned.answer_device_bytes(graph) == each * graph.vertices + names


def test_the_plan_is_shown(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    least = cuda_pinned.least_device_bytes(graph, "sssp")
    given_ = ["plan", str(graph.path), "--kernel", "sssp", "--device", "cuda", "--json"]
    limits = ["--host-memory", "1GB", "--device-memory"]
    done = call(monkeypatch, capsys, *given_, *limits, str(least))
    assert done.code == 0, done.err
    table = json.loads(done.out)
    assert (table["tier"], table["device bytes: in all"]) == ("pinned", least)
    assert table["arcs of each row on the device"] == "none"
    assert table["bytes of pinned host memory"] == cuda_pinned.pinned_bytes(graph, "sssp")
    if graph.weight_dtype != np.float32:
        done = call(monkeypatch, capsys, *given_, *limits, str(least - 1))
        assert (done.code, done.out) == (2, "")
        assert f"at least {least:,} bytes of device memory" in done.err
        assert len(done.err.strip().splitlines()) == 1


def test_refused_device_memory_pins_the_rows(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, least = (
        cuda_memory.cuda_bytes(graph, "sssp"),
        cuda_pinned.least_device_bytes(graph, "sssp"),
    )
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (least // 2, HOST))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    error = MemoryBudgetError("the device's")
    there = CudaHere(HOST, CudaLimits(whole))
    _, less = followed(plan_at(there, graph, Request("sssp")), there, error)
    assert (less.strategy.name, less.reserved.device_bytes) == ("cuda/pinned", least)
    said = "device memory was refused: sssp keeps its rows in host memory"
    assert less.why.startswith(said)
    # What may be pinned is limited: with float32 the store is left.
    tight = CudaHere(HOST, CudaLimits(whole, cuda_pinned.pinned_bytes(graph, "sssp") - 1))
    stays, in_turn = graph.weight_dtype == np.float32, InTurn([error] * 2)
    with pytest.raises(MemoryBudgetError, match="the device's"):
        execute(plan_at(tight, graph, Request("sssp")), tight, Said(), in_turn.run)
    names = [one.strategy.name for one in in_turn.plans]
    assert names == ["cuda/memory", "cuda/disk"][: 1 + stays]
    assert cuda_disk.may_stay(graph, "sssp") == stays


def test_a_search_is_made_by_its_plan(graph: og.Graph) -> None:
    """And a refusal is not followed by another try: there is nothing that could be left."""
    made: list[Any] = []

    class Device:
        def tier_near(self, shard: Any, room: Any, *, original_of: Any) -> str:
            made.append((shard, room, original_of))
            if len(made) > 1:
                raise MemoryBudgetError("refused")
            return "search"

    least = cuda_pinned.least_device_bytes(graph, "sssp", original_parents=True)
    given_: Any = (Device(), "shard", "room", "names")
    found, plan = cuda_pinned.search_within(graph, "sssp", 2 * least, *given_)
    assert (found, made) == ("search", [("shard", "room", "names")])
    assert (plan.bytes, plan.budget_bytes) == (least, 2 * least)
    with pytest.raises(MemoryBudgetError, match="refused"):
        cuda_pinned.search_within(graph, "sssp", 2 * least, *given_)
    assert len(made) == 2


def test_many_sources_are_searched_so_one_by_one(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, said = put_in_place(monkeypatch), Said()
    engine_cache.release()
    sources, least = graph.original_ids()[::999], cuda_pinned.least_device_bytes(graph, "sssp")
    right = og.johnson(graph, sources, device="cpu")
    found = og.johnson(graph, sources, device="cuda", device_memory=least, progress=said)
    assert found.distance.tobytes() == right.distance.tobytes()
    assert device.used == [PINNED]
    assert "one by one on the CUDA device: sssp had " in said.notes[-1]
    assert "(of each row none)" in said.notes[-1]
    engine_cache.release()


def test_hubs_with_float32_still_pull(tmp_path: Path) -> None:
    found = og.build(og.Kronecker(13), tmp_path / "k.zarr", rows="both", shards=2)
    assert cuda_pinned.reads_little(found, "sssp")
    facts = cuda_pinned.known_facts(found, "sssp")
    assert facts.near is None
    assert isinstance(least_plan("sssp", facts), SsspPlan)
    assert cuda_pinned.known_facts(found, "bfs").near is None


def test_unweighted_graphs_have_no_such_search(tmp_path: Path) -> None:
    at = np.arange(50)
    bare = og.build((at, at + 1), tmp_path / "bare.zarr", directed=True)
    assert cuda_pinned.may_pin(bare, "bfs")
    assert not cuda_pinned.may_pin(bare, "sssp")
