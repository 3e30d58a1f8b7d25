"""SSSP by CUDA ranks that own their distances: when they are chosen, within which memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.errors import DEVICE, MemoryBudgetError
from ooc_graph.layout.names import LIGHT
from ooc_graph.model import rank_memory
from ooc_graph.model.request import CUDA_FIXED_BYTES, Job, Request
from ooc_graph.model.resources import CudaLimits, Resources
from ooc_graph.search.plan import plan
from ooc_graph.strategies.cuda.in_memory import InMemory
from ooc_graph.strategies.cuda.owned import Owned, PinnedOwned
from ooc_graph.strategies.cuda.pinned import Pinned
from ooc_graph.strategies.owned_lists import LEAST_LISTED, MOST_LISTED, most_listed
from ooc_graph.strategies.ranks import Ranks
from tests.made_up_place import TwoWorkers

WORKERS, PLENTY = 8, 1 << 40
OWNED, PINNED_OWNED = Ranks(Owned()), Ranks(PinnedOwned())


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Of many vertices with few arcs: most of the memory of ranks is their state."""
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(17, edge_factor=2), path, shards=WORKERS)


def resources(device_bytes: int, host_bytes: int = PLENTY, pinned: int | None = None) -> Resources:
    """Eight workers with so much memory each."""
    place = TwoWorkers(host_bytes, CudaLimits(CUDA_FIXED_BYTES + device_bytes, pinned))
    return replace(place.resources(), processes=WORKERS)


def job_of(graph: og.Graph, kernel: str = "sssp", **given: Any) -> Job:
    return Job(graph, Request(kernel, "scheduler"), resources(**given))


def least_device_bytes(strategy: Ranks, graph: og.Graph) -> int:
    """The least of a device's memory that a strategy accepts, beside what is fixed."""
    with pytest.raises(MemoryBudgetError) as caught:
        strategy.reserve(job_of(graph, device_bytes=0))
    assert caught.value.kind == DEVICE
    return caught.value.least_bytes - CUDA_FIXED_BYTES


def test_memory_decides(graph: og.Graph) -> None:
    """Replicas if they fit, with rows on the devices or pinned; then owned distances, likewise."""
    strategies = (Ranks(InMemory()), Ranks(Pinned()), OWNED, PINNED_OWNED)
    in_memory, pinned, owned, least = (least_device_bytes(one, graph) for one in strategies)
    assert in_memory > owned > pinned > least
    for device_bytes, pinned_bytes, strategy in (
        (in_memory, None, "cuda/memory, ranks"),
        (owned, None, "cuda/pinned, ranks"),
        (owned, 0, "cuda/owned, ranks"),
        (pinned, None, "cuda/pinned, ranks"),
        (least, None, "cuda/owned pinned, ranks"),
    ):
        for spare in (0, 1000):
            there = resources(device_bytes + spare, pinned=pinned_bytes)
            planned = plan(graph, Request("sssp", "scheduler"), there)
            assert planned.strategy.name == strategy
            assert planned.reserved.device_bytes <= CUDA_FIXED_BYTES + device_bytes + spare
    with pytest.raises(MemoryBudgetError, match="ranks"):
        plan(graph, Request("sssp", "scheduler"), resources(least - 1))


def test_everyones_state_is_below_a_byte_a_vertex(graph: og.Graph) -> None:
    """A rank holds two bits of each vertex of others, which are counted as a byte."""
    own = [rank_memory.owned_bytes(graph, [shard]) for shard in range(2)]
    both = rank_memory.owned_bytes(graph, range(2))
    assert sum(own) - both == graph.rows + CUDA_FIXED_BYTES


def test_tables_are_as_large_as_there_is_room_for(graph: og.Graph) -> None:
    least = least_device_bytes(OWNED, graph)
    rows = graph.resident_bytes(LIGHT, range(1), out_only=True)
    found = []
    for device_bytes in (least, 2 * least, PLENTY):
        reserved = OWNED.reserve(job_of(graph, device_bytes=device_bytes))
        listed = most_listed(reserved, graph, graph.shards)
        state = rank_memory.owned_bytes(graph, range(1))
        tables = rank_memory.listed_bytes(graph, range(1), listed)
        assert reserved.device_bytes == rows + state + tables
        found.append(listed)
    assert (found[0], found[-1]) == (LEAST_LISTED, MOST_LISTED)
    assert found == sorted(found)
    # As messages pass through host memory, that limits them too.
    host = OWNED.reserve(job_of(graph, device_bytes=least)).host_bytes
    reserved = OWNED.reserve(job_of(graph, device_bytes=PLENTY, host_bytes=host))
    assert most_listed(reserved, graph, graph.shards) == LEAST_LISTED
    with pytest.raises(MemoryBudgetError, match="ranks that own their distances"):
        OWNED.reserve(job_of(graph, device_bytes=PLENTY, host_bytes=host - 1))


@pytest.mark.parametrize("strategy", [OWNED, PINNED_OWNED], ids=lambda one: one.name)
def test_what_is_said_of_them(strategy: Ranks, graph: og.Graph) -> None:
    job = job_of(graph, device_bytes=least_device_bytes(strategy, graph) + 1000)
    reserved = strategy.reserve(job)
    said = strategy.describe(job, reserved)
    assert "each with the distances of its own rows" in said["tier"]
    assert said["device bytes: in all"] <= CUDA_FIXED_BYTES + job.resources.device.memory_bytes
    assert "own rows alone" in strategy.summary("sssp", reserved)


@pytest.mark.parametrize("strategy", [OWNED, PINNED_OWNED], ids=lambda one: one.name)
def test_others_do_not_own_distances(strategy: Ranks, graph: og.Graph) -> None:
    job = job_of(graph, device_bytes=PLENTY)
    assert strategy.lacks(job) == ""
    assert strategy.lacks(job_of(graph, "bfs", device_bytes=PLENTY))
    assert strategy.lacks(replace(job, resources=replace(job.resources, processes=1)))


def test_pinned_memory_is_limited(graph: og.Graph) -> None:
    least = least_device_bytes(PINNED_OWNED, graph)
    pinned = PINNED_OWNED.reserve(job_of(graph, device_bytes=least)).pinned_bytes
    assert PINNED_OWNED.reserve(job_of(graph, device_bytes=least, pinned=pinned))
    with pytest.raises(MemoryBudgetError, match="pinned"):
        PINNED_OWNED.reserve(job_of(graph, device_bytes=least, pinned=pinned - 1))
