"""Host memory of many sources on a CUDA device with arcs in the store: what is planned suffices."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.memory.cpu.plan import RESERVE_BYTES
from ooc_graph.runtime import devices, engine_cache, process
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from tests import idle_device
from tests.memory_limits import traced_peak
from tests.own_process import in_own_process

ROWS, EDGES, SOURCES = 60_000, 300_000, 24
CASES: list[tuple[str, dict[str, Any]]] = [
    ("sssp", {}),
    ("sssp", {"parents": True}),
    ("sssp", {"reduce": "closeness"}),
    ("bfs", {}),
    ("bfs", {"reduce": "histogram", "bins": 4}),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(7)
    ends = (ROWS * random.random((2, EDGES)) ** 3).astype(np.int64)
    path = tmp_path_factory.mktemp("stores") / "graph.zarr"
    given = ends[0], ends[1], random.random(EDGES).astype(np.float32)
    og.build(given, path, rows="both", device="cpu", directed=True)
    return path


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(("kernel", "options"), CASES, ids=str)
def test_the_least_that_is_told_suffices(
    kernel: str, options: dict[str, Any], written: bool, store: Path, tmp_path: Path
) -> None:
    out = tmp_path / "d.zarr" if written else None
    limit, peak, read = in_own_process(least_and_peak, kernel, store, out, options)
    assert peak <= limit - RESERVE_BYTES
    assert peak > limit // 4
    # All arcs, for every source that has some.
    assert read > SOURCES // 2 * EDGES // 16384


def least_and_peak(
    kernel: str, path: Path, out: Path | None, options: dict[str, Any]
) -> tuple[int, int, int]:
    """The least limit, what a search within it holds at once, and how many units that read."""
    find = og.johnson if kernel == "sssp" else og.multi_source_bfs
    with pytest.MonkeyPatch.context() as patch:
        idle_device.stand_in(patch)
        patch.setattr(devices, "cuda_memory_bytes", lambda: 1 << 40)
        patch.setattr(cuda_modules, "device_bytes", lambda: (1 << 40, 1 << 40))
        patch.setattr(process, "device", lambda _: None)
        patch.setattr(process, "number_of", lambda _: "0")
        graph = og.open(path)
        budget = cuda_disk.least_device_bytes(graph, kernel)
        given = {"device": "cuda", "device_memory": budget, "host_memory": 0, "overwrite": True}
        search = partial(find, graph, graph.original_ids()[:SOURCES], out=out, **given, **options)
        stays = out is None and "reduce" not in options
        answer_bytes = SOURCES * graph.vertices * (12 if "parents" in options else 4) * stays
        with pytest.raises(MemoryBudgetError) as caught:
            search(memory_limit=answer_bytes + (1 << 20))
        said = re.search(r"at least ([\d,]+) bytes of host memory", str(caught.value))
        assert said is not None
        limit = int(said[1].replace(",", ""))
        search(memory_limit=limit)
        most = limit - RESERVE_BYTES
        peak = traced_peak(lambda: search(memory_limit=limit), most, before=engine_cache.release)
        (held,) = engine_cache._engines.values()
        return limit, peak, held.search.io_stats.blocks
