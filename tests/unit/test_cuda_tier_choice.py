"""When rows go to pinned host memory, and when to ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.decisions import hubs_are_large
from ooc_graph.kernels.common.sssp.rows import first_rows, may_pull, sampled_rows, survey
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.memory.cuda.pinned_plan import least_plan
from ooc_graph.model import rank_memory
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import CUDA, CudaLimits
from ooc_graph.model.task import SearchTask, Trace, Written
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.engine_keys import Kept
from ooc_graph.runtime.this_process import planned
from ooc_graph.search import single
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.shards.tier_facts import spread_share
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests import tiered_graphs
from tests.made_up_place import CudaHere, TwoWorkers, chosen
from tests.said import Said
from tests.tiered_graphs import HOST, workplace

graph, directed, nothing_stays = (
    tiered_graphs.graph,
    tiered_graphs.directed,
    tiered_graphs.nothing_stays,
)


def where(reserved: Reservation) -> tuple[str, int]:
    """The strategy, and its device memory."""
    return reserved.strategy, reserved.device_bytes


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_are_pinned_where_the_device_is_too_small(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on large graphs, where what is small beside the vertices does not matter.
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", 0)
    monkeypatch.setattr("ooc_graph.memory.cuda.pinned_plan._SSSP_PIECES", 0)
    whole = cuda_memory.cuda_bytes(graph, kernel)
    assert where(chosen(graph, kernel, workplace(whole))) == ("cuda/memory", whole)
    small = whole - 1
    assert where(chosen(graph, kernel, workplace(small))) == ("cuda/pinned", small)
    facts = cuda_pinned.known_facts(graph, kernel)
    least = least_plan(kernel, facts).bytes
    assert where(chosen(graph, kernel, workplace(least))) == ("cuda/pinned", least)
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        chosen(graph, kernel, workplace(least - 1))


def test_pinned_memory_has_a_limit_too(graph: og.Graph) -> None:
    needed = 4 * graph.stored_arcs
    small = cuda_memory.cuda_bytes(graph, "bfs") - 1
    assert chosen(graph, "bfs", workplace(small, needed)).strategy == "cuda/pinned"
    with pytest.raises(MemoryBudgetError, match=f"needs {needed:,} bytes of pinned host memory"):
        chosen(graph, "bfs", workplace(small, needed - 1))


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_rows_that_are_pinned_already_need_no_free_memory(
    graph: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = cuda_memory.cuda_bytes(graph, kernel) - 1
    pinned = graph.stored_arcs * (4 if kernel == "bfs" else 8)

    def taken(
        device_bytes: int = small,
        pinned_bytes: int | None = None,
        *,
        limited: bool = False,
        on_device: bool = False,
    ) -> Reservation:
        # Hardly anything is free, for the rows are held.
        found = planned(1, CUDA, CudaLimits(device_bytes, pinned_bytes))
        tight = replace(found, is_limited=limited)
        return chosen(graph, kernel, tight, on_device=on_device)

    monkeypatch.setattr(process, "number_of", lambda _: "0")
    held = chosen(graph, kernel, workplace(small))
    key = Key(str(graph.path), graph.identity, kernel, CUDA, held)
    monkeypatch.setattr(engine_cache, "_engines", {Kept(key, "1"): None})
    with pytest.raises(MemoryBudgetError, match="may be used"):
        taken()
    monkeypatch.setattr(engine_cache, "_engines", {Kept(key, "0"): None})
    assert taken() == held
    assert taken(pinned_bytes=pinned) == held
    # Within another budget they are pinned anew, in the place of those that go.
    assert where(taken(small - 1)) == ("cuda/pinned", small - 1)
    answer = cuda_pinned.answer_device_bytes(graph)
    assert where(taken(on_device=True)) == ("cuda/pinned", small - answer)
    # What somebody limits holds for rows that are held too.
    for limits in (
        {"pinned_bytes": pinned - 1},
        {"device_bytes": 1},
        {"limited": True},
    ):
        with pytest.raises(MemoryBudgetError):
            taken(**limits)  # type: ignore[arg-type]


def test_rows_may_be_pinned_for_single_searches_alone(directed: og.Graph) -> None:
    assert cuda_pinned.may_pin(directed, "bfs")
    assert cuda_pinned.may_pin(directed, "sssp")
    for kernel in ("components", "apsp", "multi_source_bfs"):
        assert not cuda_pinned.may_pin(directed, kernel)


def hubs_with(weight: np.ndarray, path: Path) -> og.Graph:
    """A graph with hubs."""
    ends = (np.random.default_rng(5).random((2, len(weight))) ** 3 * 5000).astype(np.int64)
    return og.build((*ends, weight.astype(np.float32)), path, rows="both", shards=2, directed=True)


@pytest.mark.parametrize("kind", ["equal", "of few values", "within a factor of 8"])
def test_weights_that_do_not_spread_are_pinned_or_left_to_ranks(kind: str, tmp_path: Path) -> None:
    rng, count = np.random.default_rng(6), 200_000
    weight = {
        "equal": np.ones(count),
        "of few values": rng.integers(1, 4, count),
        "within a factor of 8": 1 + 7 * rng.random(count),
    }[kind]
    found = hubs_with(weight, tmp_path / "flat.zarr")
    assert hubs_are_large(found.head_share(first_rows(found.rows)))
    shard = found.load("light")
    assert shard.out_light is not None
    assert not may_pull(survey(shard.out_light, shard.tuples))
    assert not cuda_pinned.reads_little(found, "sssp")
    assert cuda_pinned.reads_little(found, "bfs")
    needed = rank_memory.ranks_bytes(found, "sssp", range(1))
    assert needed < cuda_memory.cuda_bytes(found, "sssp")
    pinned = cuda_pinned.pinned_bytes(found, "sssp")
    for limit, expected in (
        (pinned, ("cuda/pinned", "one")),
        (pinned - 1, ("cuda/memory, ranks", "scheduler")),
    ):
        workers = TwoWorkers(HOST, CudaLimits(needed, limit))
        reserved = chosen(found, "sssp", workers.resources())
        assert (reserved.strategy, reserved.exchange) == expected
        assert reserved.device_bytes == needed


@pytest.mark.parametrize("wanted", ["cuda", "auto"])
def test_refused_pinning_goes_on_to_ranks(
    graph: og.Graph, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = rank_memory.ranks_bytes(graph, "bfs", range(2))
    assert (
        cuda_pinned.least_device_bytes(graph, "bfs") < needed < cuda_memory.cuda_bytes(graph, "bfs")
    )
    tried: list[str] = []

    def carry_out(_: object, __: object, task: SearchTask, ___: object) -> Written:
        tried.append(task.reserved.strategy)
        if not task.reserved.is_of_ranks:
            raise MemoryBudgetError("8 bytes of pinned host memory are refused")
        return Written(Trace(0.0, ()), columns={})

    monkeypatch.setattr(Algorithm, "carry_out", carry_out)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (HOST, HOST))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    said, root = Said(), int(graph.original_of()[0])
    workers = TwoWorkers(HOST, CudaLimits(needed))
    workers.wanted = wanted
    single.search(graph, "bfs", root, workplace=workers, progress=said)
    assert tried == ["cuda/pinned", "cuda/memory, ranks"]
    (note,) = said.notes
    assert note.endswith("memory was refused: bfs is searched by ranks, exchange scheduler")
    # Devices that are too small for that will do if each worker pins its own rows.
    tried.clear()
    small = TwoWorkers(HOST, CudaLimits(needed - 1))
    single.search(graph, "bfs", root, workplace=small, progress=said)
    assert tried == ["cuda/pinned", "cuda/pinned, ranks"]
    # Without workers there is nothing to go on to.
    tried.clear()
    alone = CudaHere(HOST, CudaLimits(needed))
    with pytest.raises(MemoryBudgetError, match="are refused"):
        single.search(graph, "bfs", root, workplace=alone, progress=said)
    assert tried == ["cuda/pinned"]


@pytest.mark.parametrize("shards", [1, 4])
def test_of_weights_that_spread_little_is_read(shards: int, tmp_path: Path) -> None:
    # More rows than are looked at, and in several blocks of the dealing.
    rng = np.random.default_rng(7)
    ends = (rng.random((2, 900_000)) ** 3 * 300_000).astype(np.int64)
    weight = rng.random(900_000).astype(np.float32)
    found = og.build(
        (*ends, weight), tmp_path / "spread.zarr", rows="both", shards=shards, directed=True
    )
    assert sampled_rows(found.rows) > 1024
    shard = found.load("light")
    assert shard.out_light is not None
    whole = survey(shard.out_light, shard.tuples)
    assert may_pull(whole)
    expected = whole.spread_rows / whole.sampled_rows
    assert spread_share(found) == pytest.approx(expected, abs=0.25)
    assert cuda_pinned.reads_little(found, "sssp")
