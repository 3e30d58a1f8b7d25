"""Host memory of searches on a CUDA device with arcs in the store: no more than is planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.memory.cpu import plan as memory_plan
from ooc_graph.memory.cpu.plan import RESERVE_BYTES
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.shards import tier_facts
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from tests import idle_device
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process

ROWS, EDGES = 150_000, 1_000_000
PIECE_ROWS = 1024
# Of what all neighbours take, on the device and in host memory beside the least; and whether
# memory may be pinned.
BUDGETS = [(0.0, 0.0, True), (0.1, 0.3, False), (0.1, 0.3, True), (0.5, 2.0, True)]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, bool], Path]:
    """Of graphs that are directed or not, packed or not."""
    folder, random, found = tmp_path_factory.mktemp("stores"), np.random.default_rng(7), {}
    ends = (ROWS * random.random((2, EDGES)) ** 3).astype(np.int64)
    given = ends[0], ends[1], random.random(EDGES).astype(np.float32)
    for directed, packed in ((False, False), (True, False), (False, True)):
        path = folder / f"{directed}-{packed}.zarr"
        options: dict[str, Any] = {"directed": directed, "compress": packed, "shards": 4}
        og.build(given, path, rows="both", device="cpu", **options)
        found[directed, packed] = path
    return found


@pytest.mark.parametrize(("directed", "packed"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_memory_stays_within_the_plan(
    kernel: str, directed: bool, packed: bool, stores: dict[tuple[bool, bool], Path]
) -> None:
    found = in_own_process(plans_and_peaks, kernel, stores[directed, packed])
    assert len(found) == len(BUDGETS)
    for parts, peak, read, kept in found:
        planned = sum(parts.values()) - RESERVE_BYTES
        assert peak <= planned, parts
        # And the plan is no empty promise: what is not there all the time is little.
        passing = parts["tree"] + parts["bitmaps"] + parts["staging"]
        assert peak > planned - passing
        # All was read, by loading and then by the search.
        assert read + kept > 2 * EDGES // 16384
        assert (kept > 0) == (parts["kept blocks"] > 0)


def plans_and_peaks(kernel: str, path: Path) -> list[tuple[dict[str, int], int, int, int]]:
    """For some budgets what is planned, and what loading and searching hold at once.

    And how many units were read, and given again.
    """
    found = []
    with pytest.MonkeyPatch.context() as patch:
        idle_device.stand_in(patch)
        # As on large graphs, where what lengths are made of is little beside the tree.
        patch.setattr(tier_facts, "_MOST_OFFSETS", PIECE_ROWS)
        patch.setattr(memory_plan, "PIECE_ROWS", PIECE_ROWS)
        graph = og.open(path)
        facts = cuda_disk.known_facts(graph, kernel)
        least, arcs = cuda_disk.least_plan(facts), 4 * facts.device.arcs
        for near, far, may_pin in BUDGETS:
            budgets = least.device_bytes + int(near * arcs), least.host_bytes + int(far * arcs)
            plan = cuda_disk.plan_within(facts, *budgets, may_pin=may_pin)
            io_stats: list[IoStats] = []

            def search(plan: Any = plan, io_stats: list[IoStats] = io_stats) -> None:
                made = cuda_disk.LOADERS[kernel](graph, plan, threads=1)
                made.run(0)
                io_stats.append(made.io_stats)
                made.close()

            search()
            peak = traced_peak(search, plan.host_bytes - RESERVE_BYTES)
            found.append((plan.host_parts, peak, io_stats[-1].blocks, io_stats[-1].kept_blocks))
    return found
