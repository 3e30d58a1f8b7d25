"""The recipes of docs/how-to/adding.md: a strategy and an algorithm from outside the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.result import Result
from ooc_graph.answers.scatter import Columns, Ids
from ooc_graph.exchange.interface import Share, Superstep, World
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import LOCAL, Reservation
from ooc_graph.model.resources import CPU, CudaLimits
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.this_process import ThisProcess, planned
from ooc_graph.search import single
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.search.candidates import CANDIDATES
from ooc_graph.search.execute import plan_at
from ooc_graph.search.plan import plan
from ooc_graph.search.steps import Arrays
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import NUMPY, answer_bytes
from ooc_graph.strategies.cpu.in_memory import InMemory
from ooc_graph.strategies.cpu.on_disk import OnDisk, least_within
from ooc_graph.strategies.ranks import STATE_BYTES, Ranks
from ooc_graph.types import AnyArray, NoProgress, Shard
from tests.said import Said

READS: list[int] = []


@dataclass(frozen=True)
class LoggedDisk(OnDisk):
    """Arcs in the store, as `OnDisk`; every search logs how many bytes it read."""

    name = "cpu/logged"

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:
        engine = super().load(graph, kernel, reserved)

        def note(io_stats: IoStats) -> str:
            READS.append(io_stats.bytes)
            return f"{kernel} read {io_stats.bytes} bytes"

        return replace(engine, note=note)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "g.zarr"
    return og.build(og.Kronecker(10), path, rows="both", shards=4, device="cpu")


def test_a_tier_that_logs_its_reads(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    root = int(graph.original_of()[0])
    right = og.bfs(graph, root, device="cpu")
    others = CANDIDATES[CPU]
    monkeypatch.setitem(CANDIDATES, CPU, lambda: [LoggedDisk(), *others()])
    engine_cache.release()
    limit = least_within(graph, "bfs") + answer_bytes(graph, "bfs", NUMPY)
    found = plan(graph, Request("bfs"), planned(limit))
    assert (found.strategy.name, found.describe()["tier"]) == ("cpu/logged", "disk")
    said = Said()
    READS.clear()
    logged = og.bfs(graph, root, device="cpu", memory_limit=limit, progress=said)
    assert logged.parent.tobytes() == right.parent.tobytes()
    (read,) = READS
    assert read > 0
    assert said.notes == [f"bfs read {read} bytes"]
    engine_cache.release()


# An algorithm: of each vertex the largest internal id among its neighbours, by one superstep.
LARGEST = "largest_neighbor"


class Replica:
    """How many arcs all ranks have seen; every process has the same."""

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        self.rows = sum(len(largest) for (largest,) in payloads)


@dataclass(frozen=True)
class Largest:
    """What a rank finds: it can be copied, and says how the search went."""

    largest: AnyArray
    elapsed_s: float = 0.0
    phase_arcs: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Largest:
        return replace(self, largest=self.largest.copy())


@dataclass
class LargestRank:
    """The steps on a rank's rows."""

    rows: Shard

    def largest(self) -> AnyArray:
        out = self.rows.out_hub
        assert out is not None
        starts = out.offsets[:-1].astype(np.int64)
        return np.maximum.reduceat(out.neighbors.astype(np.int64), starts)


def largest_neighbor(rank: LargestRank, shared: Replica) -> Superstep[Largest]:
    """The coroutine: it yields what it tells everyone, and is sent what all have told."""
    found = rank.largest()
    world = yield Share((len(found),), (found,))
    assert isinstance(world, World)
    assert world.counts == (shared.rows,)
    return Largest(found)


def start(
    _: SearchTask, graph: Graph, ranks: dict[int, Any], device: Any, states: Any
) -> tuple[dict[int, Any], Any]:
    del graph, device, states
    shared = Replica()
    return {shard: largest_neighbor(rank, shared) for shard, rank in ranks.items()}, shared


def rank(_: CpuDevice, rows: Shard) -> LargestRank:
    return LargestRank(rows)


def nothing(_: SearchTask, graph: Graph) -> Arrays:
    return (np.empty(graph.rows, np.int64),)


class LargestColumns(Columns):
    """Original ids of the largest neighbours; -1 of vertices without arcs."""

    def __init__(self, largest: AnyArray, ids: Ids) -> None:
        dtypes = dict.fromkeys(("vertex", "largest"), np.dtype(np.int64))
        super().__init__(ids, dtypes, {})
        self._largest = largest

    def fill(self, name: str, start: int, out: AnyArray) -> None:
        internal = self.ids.internal_of[start : start + len(out)]
        original = self.ids.original_of[self._largest[internal]]
        out[:] = np.where(internal < 0, -1, original)


def columns(_: SearchTask, __: Graph, arrays: Arrays, ids: Ids) -> LargestColumns:
    (largest,) = arrays
    return LargestColumns(largest, ids)


class LargestResult(Result):
    """What users are given."""

    kernel = LARGEST


ALGORITHM = Algorithm(LargestResult, start, ("largest",), nothing, columns)


@pytest.fixture
def in_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines in the tables, and the device's steps."""
    monkeypatch.setattr(CpuDevice, f"{LARGEST}_rank", rank, raising=False)
    monkeypatch.setitem(single.ALGORITHMS, LARGEST, ALGORITHM)
    monkeypatch.setitem(ORDER_OF, LARGEST, "hub")
    monkeypatch.setitem(STATE_BYTES, LARGEST, 8)


@pytest.mark.usefixtures("in_tables")
@pytest.mark.parametrize("by_ranks", [False, True])
def test_an_algorithm(graph: og.Graph, by_ranks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    workplace = ThisProcess(wanted="cpu")
    first = plan_at(workplace, graph, Request(LARGEST))
    assert first.strategy.name == "cpu/memory"
    if by_ranks:
        ranks = Ranks(InMemory())
        reserved = Reservation(ranks.name, exchange=LOCAL)
        found = replace(first, strategy=ranks, reserved=reserved)
        monkeypatch.setattr(single, "plan_at", lambda *_: found)
    result = single.search(graph, LARGEST, workplace=workplace, progress=NoProgress())
    assert type(result) is LargestResult
    out = graph.load("hub").out_hub
    assert out is not None
    offsets, original_of = out.offsets.astype(np.int64), graph.original_of()
    right = dict.fromkeys(result.vertex.tolist(), -1)
    for row, original in enumerate(original_of.tolist()):
        right[original] = int(original_of[out.neighbors[offsets[row] : offsets[row + 1]].max()])
    assert result.read("largest").tolist() == list(right.values())
    engine_cache.release()


@pytest.mark.usefixtures("in_tables")
def test_an_algorithm_that_no_device_has_is_for_the_cpu(graph: og.Graph) -> None:
    there = planned(1 << 30, "cuda", CudaLimits(device_bytes=1 << 36))
    found = plan(graph, Request(LARGEST), replace(there, wanted="auto"))
    assert found.strategy.name == "cpu/memory"
    assert plan(graph, Request("bfs"), there).strategy.name == "cuda/memory"
    with pytest.raises(og.errors.UsageError, match="on the CPU only"):
        plan(graph, Request(LARGEST), there)


@pytest.mark.usefixtures("in_tables")
def test_an_algorithm_has_a_memory_limit(graph: og.Graph) -> None:
    with pytest.raises(og.errors.MemoryBudgetError, match=f"{LARGEST} on .* needs at least"):
        plan(graph, Request(LARGEST), planned(1000))
