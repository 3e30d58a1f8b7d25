"""Host memory of searches with rows pinned, or on the device: measured, and as planned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import answer_bytes
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu.grown import SLACK_BYTES, grown_by, measured, small_and_large, tell

# An array's last page may be a huge one; each side has one of neighbours, and one of weights.
HUGE_PAGE_BYTES = 2 << 20


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_and_large(tmp_path_factory)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("tier", ["pinned", "resident"])
def test_host_memory_stays_within_the_plan(
    tier: str, kernel: str, stores: tuple[Path, Path]
) -> None:
    found = measured(__name__, tier, kernel, *stores)
    # Rows are there, or were, and once.
    assert found["rows"] <= found["grown"], found
    assert found["grown"] <= found["planned"] + SLACK_BYTES + 2 * HUGE_PAGE_BYTES, found
    assert found["planned"] < 2 * found["rows"], found


def searched(graph: Graph, tier: str, kernel: str) -> None:
    """Search from some roots with rows in a tier; answers are dropped."""
    limits: dict[str, Any] = {"device": "cuda"}
    if tier == "pinned":
        limits["device_memory"] = cuda_memory.cuda_bytes(graph, kernel) - 1
    originals = graph.original_of()
    roots = [int(originals[row]) for row in (0, 100, graph.rows // 2)]
    del originals
    for root in roots:
        getattr(og, kernel)(graph, root, **limits)
    (held,) = engine_cache._engines.values()
    assert (held.pinned is not None) == (tier == "pinned")


def planned_bytes(graph: Graph, tier: str, kernel: str) -> tuple[int, int]:
    """Bytes of the rows, and of all that is reckoned with."""
    if tier == "pinned":
        rows = cuda_pinned.pinned_bytes(graph, kernel)
        beside = cuda_pinned.host_bytes_beside(graph) + answer_bytes(graph, kernel, "numpy")
        return rows, rows + beside
    rows = graph.resident_bytes(ORDER_OF[kernel])
    return rows, cuda_memory.host_bytes(graph, rows)


def measure() -> None:
    """Write what this process, as its arguments say, grew by."""
    tier, kernel, small, large = sys.argv[1:]
    for _ in range(2):
        searched(og.open(small), tier, kernel)
        engine_cache.release()
    graph = og.open(large)
    assert cuda_pinned.may_pin(graph, kernel)
    cuda_pinned.known_facts(graph, kernel)
    grown, _ = grown_by(lambda: searched(graph, tier, kernel))
    rows, planned = planned_bytes(graph, tier, kernel)
    tell(grown=grown, planned=planned, rows=rows)
