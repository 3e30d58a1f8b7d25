"""Many sources on a CUDA device within budgets: what batches take of it, and what is next."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.runtime.pool import WholePieces, allocating, pool_within
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from tests.gpu.memory import used_bytes
from tests.gpu.searching import column_bytes as columns
from tests.said import Said

pytestmark = pytest.mark.usefixtures("released")
ROWS, EDGES = 200_000, 800_000


def pools() -> list[WholePieces]:
    return [held.pool for held in engine_cache._engines.values() if held.pool is not None]


@pytest.mark.parametrize("kernel", ["apsp", "bfs"])
def test_a_small_budget_takes_what_is_next(light: og.Graph, kernel: str, tmp_path: Path) -> None:
    find = og.johnson if kernel == "apsp" else og.multi_source_bfs
    single, sources = "sssp" if kernel == "apsp" else "bfs", light.original_ids()[::50]
    right = columns(find(light, sources, device="cpu"))
    many = "apsp" if kernel == "apsp" else "multi_source_bfs"
    batches, whole = (cuda_memory.cuda_bytes(light, name) for name in (many, single))
    if kernel == "bfs":
        batches += cuda_memory.cuda_levels_bytes(light, light.vertices)
    for budget, words in (
        (batches, ""),
        (batches - 1, "searched one by one on the CUDA device"),
        (whole - 1, "bytes of rows in pinned host memory"),
        (cuda_pinned.least_device_bytes(light, single), "bytes of rows in pinned host memory"),
    ):
        for out in (None, tmp_path / f"{budget}.zarr"):
            said = Said()
            given = {"device": "cuda", "device_memory": budget, "out": out, "progress": said}
            assert columns(find(light, sources, **given)) == right
            assert any(words in note for note in said.notes) or not words
            assert bool(pools()) == (not words)
            assert all(pool.most_bytes <= budget for pool in pools())
            engine_cache.release()


@pytest.mark.parametrize(
    "options",
    [{}, {"parents": True}, {"reduce": "closeness"}, {"reduce": "histogram", "bin_width": 0.5}],
    ids=str,
)
def test_nothing_is_pinned(light: og.Graph, options: dict[str, Any]) -> None:
    sources, said = light.original_ids()[::50], Said()
    given = {"device": "cuda", "host_memory": 0, "progress": said}
    found = columns(og.johnson(light, sources, **given, **options))
    one_by_one = "reduce" not in options or options["reduce"] == "histogram"
    device = "cpu" if one_by_one else "cuda"
    assert found == columns(og.johnson(light, sources, device=device, **options))
    assert any("0 may be used; raise --host-memory" in note for note in said.notes) == one_by_one


@pytest.fixture(scope="module", params=["float32", "int64"])
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """So many rows that the batches a device has room for exceed what their plan takes."""
    random = np.random.default_rng(5)
    ends = random.integers(0, ROWS, (2, EDGES))
    weight = (random.random(EDGES) * 1000).astype(request.param)
    path = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    return og.build((*ends, weight), path, rows="light", device="cpu")


@pytest.mark.parametrize("reduce", [None, "eccentricity"])
def test_batches_stay_within_the_least_budget(wide: og.Graph, reduce: str | None) -> None:
    """Where there is room for all of them eight are searched at once, and take more."""
    sources = wide.original_ids()[: 8 * (128 if wide.weight_dtype == np.float32 else 64)]
    targets = wide.original_ids()[::999]
    least = cuda_memory.cuda_bytes(wide, "apsp")
    given = {"device": "cuda", "targets": targets, "reduce": reduce}
    found, most = [], []
    for budget in (least, 16 << 30):
        found.append(columns(og.johnson(wide, sources, device_memory=budget, **given)))
        (pool,) = pools()
        assert 0 < pool.most_bytes <= budget
        most.append(pool.most_bytes)
        engine_cache.release()
    assert most[0] <= least < most[1]
    assert found[0] == found[1] == columns(og.johnson(wide, sources, **given))


def test_memory_goes_back_when_searches_are_given_up(light: og.Graph) -> None:
    given = {"device": "cuda", "device_memory": "2GiB"}
    # What stays in this process is there after the first call.
    og.johnson(light, light.original_ids()[::50], **given)
    engine_cache.release()
    before = used_bytes()
    og.johnson(light, light.original_ids()[::50], **given)
    pool = pools()[0]
    assert pool.free_within(1 << 40) < 2 << 30
    # All of it is from there.
    assert used_bytes() == before
    engine_cache.release()
    gc.collect()
    assert pool.free_within(1 << 40) == 2 << 30


def test_what_this_thread_can_have_is_within_its_limit() -> None:
    cupy, whole = cuda_modules.cuda(), cuda_modules.device_bytes()
    pool = pool_within(1 << 20)
    assert pool is not None
    with allocating(pool):
        kept = cupy.zeros(1 << 18, np.uint8)
        assert cuda_modules.device_bytes() == ((1 << 20) - (1 << 18), whole[1])
        del kept
        assert cuda_modules.device_bytes()[0] == 1 << 20
    assert cuda_modules.device_bytes()[0] > 1 << 20
