"""Host memory of searches on a CUDA device with arcs in the store: measured, and as planned."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

import ooc_graph as og
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.threads import cores
from tests.gpu.grown import SLACK_BYTES, grown_by, measured, small_and_large, tell

KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
PLAN = tuple[int, dict[str, int]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_and_large(tmp_path_factory)


@pytest.mark.parametrize("share", [0, 0.25])
@KERNELS
def test_loading_and_searching_stay_within_the_plan(
    kernel: str, share: float, stores: tuple[Path, Path]
) -> None:
    found = measured(__name__, "loaded", kernel, *stores, share)
    parts = found["parts"]
    assert (found["pinned"] > 0) == (share > 0)
    # Much less than the arcs, so that these are not in memory all at once by another name.
    assert found["planned"] < found["arcs"] // 2
    held = parts["row tables"] + parts.get("columns", 0) + parts.get("first arcs", 0) // 2
    assert held < found["grown"] <= found["planned"] + SLACK_BYTES, found


@KERNELS
def test_a_search_for_a_store_stays_within_its_limit(
    kernel: str, stores: tuple[Path, Path]
) -> None:
    found = measured(__name__, "written", kernel, *stores, 0.25)
    assert found["pinned"] > 0
    assert found["grown"] <= found["planned"] + SLACK_BYTES, found


def budgets(graph: Graph, kernel: str, share: float) -> tuple[int, int]:
    """Of the device a little more than the least, and of the host that and a share of the arcs."""
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, kernel))
    host_bytes = least.host_bytes + int(share * arc_bytes(graph, kernel))
    return least.device_bytes + 8 * graph.rows, host_bytes if share else 0


def arc_bytes(graph: Graph, kernel: str) -> int:
    return graph.stored_arcs * {"bfs": 4, "sssp": 8}[kernel]


def loaded(graph: Graph, kernel: str, share: float) -> PLAN:
    """Load, and search from some rows; what was planned."""
    search = cuda_disk.load_within(graph, kernel, *budgets(graph, kernel, share), cores())
    try:
        for root in (0, 100, graph.rows // 2, graph.rows - 1):
            search.run(root)
            search.run_on_device(root)
    finally:
        search.close()
    plan = search.plan
    return plan.pinned_bytes, plan.host_parts


def written(graph: Graph, kernel: str, share: float) -> PLAN:
    """Search, and write the answer; what was planned, and what is beside that."""
    device_bytes, host_bytes = budgets(graph, kernel, share)
    within = {"device": "cuda", "device_memory": device_bytes, "host_memory": host_bytes}
    with tempfile.TemporaryDirectory() as folder:
        source, out = int(graph.original_of()[0]), Path(folder) / "r.zarr"
        getattr(og, kernel)(graph, source, out=out, **within)
    (held,) = engine_cache._engines.values()
    plan, beside = held.search.plan, cuda_disk.beside_bytes(graph)
    return plan.pinned_bytes, {**plan.host_parts, "beside the plan": beside}


def measure() -> None:
    """Write what this process, as its arguments say, grew by."""
    way, kernel, small, large, share = sys.argv[1:]
    search = {"loaded": loaded, "written": written}[way]
    # So that graphs of this size are too large for pinned memory.
    pytest.MonkeyPatch().setattr(cuda_pinned, "may_pin", lambda *_: False)
    for _ in range(2):
        search(og.open(small), kernel, float(share))
        engine_cache.release()
    graph = og.open(large)
    cuda_disk.known_facts(graph, kernel)
    grown, (pinned, parts) = grown_by(lambda: search(graph, kernel, float(share)))
    arcs, planned = arc_bytes(graph, kernel), sum(parts.values())
    tell(grown=grown, planned=planned, parts=parts, pinned=pinned, arcs=arcs)
