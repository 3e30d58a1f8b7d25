"""Host memory of searches on a CUDA device with arcs in the store: measured, and as planned.

Each case is a process of its own. A small graph is searched first, in the same way: from then on
CUDA and the compiled kernels have what they take.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.session import cuda_disk, cuda_tiers, resident
from ooc_graph.session.machine import cores, give_back_freed_memory
from ooc_graph.shards.load import Graph

# What no plan counts, since it does not grow with the graph: what the driver notes of memory that
# is pinned, and what the C library keeps for threads that read.
SLACK_BYTES = 8 << 20
SMALL, LARGE = 14, 20
KERNELS = pytest.mark.parametrize("kernel", ["bfs", "sssp"])
PLAN = tuple[int, dict[str, int]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, found = tmp_path_factory.mktemp("stores"), []
    for scale in (SMALL, LARGE):
        found.append(folder / f"{scale}.zarr")
        og.build(og.Kronecker(scale), found[-1], rows="both", device="cuda")
    return found[0], found[1]


def grown(way: str, kernel: str, stores: tuple[Path, Path], share: float) -> dict[str, Any]:
    """What a process grew by, and what was planned."""
    call = f"from {__name__} import measure; measure()"
    given = [way, kernel, *stores, share]
    command = [sys.executable, "-c", call, *map(str, given)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("share", [0, 0.25])
@KERNELS
def test_loading_and_searching_stay_within_the_plan(
    kernel: str, share: float, stores: tuple[Path, Path]
) -> None:
    found = grown("loaded", kernel, stores, share)
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
    found = grown("written", kernel, stores, 0.25)
    assert found["pinned"] > 0
    assert found["grown"] <= found["planned"] + SLACK_BYTES, found


def budgets(graph: Graph, kernel: str, share: float) -> tuple[int, int]:
    """Of the device a little more than the least, and of the host that and a share of the arcs."""
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, kernel))
    host_bytes = least.host_bytes + int(share * arc_bytes(graph, kernel))
    return least.device_bytes + 8 * graph.rows, host_bytes if share else 0


def arc_bytes(graph: Graph, kernel: str) -> int:
    return graph.arcs * {"bfs": 4, "sssp": 8}[kernel]


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
    (held,) = resident._held.values()
    plan, beside = held.search.plan, cuda_disk.beside_bytes(graph)
    return plan.pinned_bytes, {**plan.host_parts, "beside the plan": beside}


def measure() -> None:
    """Write what this process, as its arguments say, grew by."""
    way, kernel, small, large, share = sys.argv[1:]
    search = {"loaded": loaded, "written": written}[way]
    # So that graphs of this size are too large for pinned memory.
    pytest.MonkeyPatch().setattr(cuda_tiers, "may_pin", lambda *_: False)
    for _ in range(2):
        search(og.open(small), kernel, float(share))
        resident.release()
    graph = og.open(large)
    cuda_disk.known_facts(graph, kernel)
    gc.collect()
    give_back_freed_memory()
    with MemoryWatch(interval_s=0.002) as watch:
        pinned, parts = search(graph, kernel, float(share))
    found = {
        "grown": watch.peak_bytes - watch.baseline_bytes,
        "planned": sum(parts.values()),
        "parts": parts,
        "pinned": pinned,
        "arcs": arc_bytes(graph, kernel),
    }
    sys.stdout.write(f"{json.dumps(found)}\n")
