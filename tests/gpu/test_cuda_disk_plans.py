"""SSSP on a CUDA device with arcs in the store takes no more memory than its plan says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.layout import names
from ooc_graph.memory.cuda.disk import DiskFacts
from ooc_graph.memory.cuda.disk_sssp_plan import (
    REQUEST_BYTES,
    DiskSsspPlan,
    least_disk_sssp,
    plan_disk_sssp,
)
from ooc_graph.shards.cuda_disk_sssp import load_device_sssp
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu.comparison import CPU, same_sssp
from tests.gpu.test_cuda_tiers import LITTLE


def planned_store(path: Path, directed: bool, share: float) -> tuple[Graph, DiskSsspPlan]:
    """A store, and a plan for the least of either memory and a share of what its arcs take."""
    random = np.random.default_rng(1)
    ends = (60_000 * random.random((2, 600_000)) ** 2).astype(np.int64)
    given = ends[0], ends[1], random.random(600_000).astype(np.float32)
    graph = og.build(given, path, rows="light", directed=directed, device="cpu")
    facts = DiskFacts("sssp", cuda_pinned.facts_of(graph, "sssp"), graph.shards)
    least, more = least_disk_sssp(facts), int(share * 4 * graph.stored_arcs)
    return graph, plan_disk_sssp(facts, least.device_bytes + more, least.host_bytes + more)


@pytest.mark.parametrize("share", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("directed", [False, True])
def test_memory_stays_within_the_plan(
    directed: bool, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cupy

    # Less than any part of the plan, so that none can be forgotten.
    monkeypatch.setattr("ooc_graph.memory.cuda.device_facts.FIXED_BYTES", LITTLE)
    opened, plan = planned_store(tmp_path / "g.zarr", directed, share)
    assert (plan.arcs_in_host > 0) == (share == 0.3)
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=plan.device_bytes)
    reference = CPU.sssp(opened.load(names.LIGHT))
    with cupy.cuda.using_allocator(pool.malloc):
        search = load_device_sssp(opened, plan, threads=2)
        for root in (0, opened.rows - 1):
            same_sssp(search.run(root), reference.run(root))
            there, wanted = search.run_on_device(root), reference.run(root)
            assert there.parent.get().tobytes() == wanted.parent.tobytes()
            assert there.distance.get().tobytes() == wanted.distance.tobytes()
        search.close()
    # A window has whole words of rows, and no head is cut in two.
    left = 64 * REQUEST_BYTES + 8 * plan.facts.sides * longest_head(plan) + 4096
    assert plan.device_bytes - LITTLE - left <= pool.total_bytes() <= plan.device_bytes


def longest_head(plan: DiskSsspPlan) -> int:
    return max(int(plan.share.of(side.length).max()) for side in plan.facts.device.sides)


def test_what_is_pinned_is_as_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    register, sizes = cupy.cuda.runtime.hostRegister, []

    def noted(begin: int, size: int, flags: int) -> None:
        register(begin, size, flags)
        sizes.append(size)

    monkeypatch.setattr(cupy.cuda.runtime, "hostRegister", noted)
    opened, plan = planned_store(tmp_path / "g.zarr", False, 0.3)
    load_device_sssp(opened, plan, threads=2).close()
    # What windows and bitmaps are copied to is not registered, but allocated as pinned.
    copied = REQUEST_BYTES * (opened.rows + 64) + plan.facts.device.padded // 8
    least = plan.pinned_bytes - copied - 16 * longest_head(plan)
    assert plan.arcs_in_host > 0
    assert least <= sum(sizes) <= plan.pinned_bytes - copied + 16
