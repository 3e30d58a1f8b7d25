"""Many sources one by one on a CUDA device, and what is done where batches are refused memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.kernels.cuda.many.johnson import CudaJohnson
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.request import Job
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime import engine_cache
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import one_by_one
from tests.gpu import stores
from tests.gpu.memory import Refusing, used_bytes
from tests.gpu.searching import column_bytes as columns
from tests.said import Said

pytestmark = pytest.mark.usefixtures("released")
LARGE = 1 << 50


@pytest.fixture(scope="module", params=["float32", "float64", "int64"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    return og.build(stores.skewed(request.param), path, rows="both", directed=True, device="cpu")


@contextmanager
def without(*kernels: str) -> Iterator[None]:
    """As if the device were too small for batches, or for all rows: then it has the least."""

    def least(job: Job, cached_as: tuple[str, str] | None = None) -> Any:
        found = plan_for(job, cached_as)
        if cached_as is None:
            return found
        budget = cuda_pinned.least_device_bytes(job.graph, job.kernel)
        assert found.budget_bytes > budget
        return replace(found, budget_bytes=budget)

    plain, plan_for = cuda_memory.cuda_bytes, cuda_pinned.plan_for

    def needed(graph: og.Graph, kernel: str) -> int:
        return LARGE if kernel in kernels else plain(graph, kernel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_memory, "cuda_bytes", needed)
        patch.setattr(cuda_pinned, "plan_for", least)
        yield


RESIDENT = ("apsp", "multi_source_bfs")
PINNED = (*RESIDENT, "bfs", "sssp")


CASES: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (og.johnson, {}),
    (og.johnson, {"parents": True, "cutoff": 3}),
    (og.johnson, {"reduce": "closeness"}),
    (og.johnson, {"reduce": "histogram", "bins": 5, "bin_width": 1}),
    (og.multi_source_bfs, {}),
    (og.multi_source_bfs, {"reduce": "sum"}),
    (og.multi_source_bfs, {"reduce": "eccentricity", "cutoff": 2}),
    (og.multi_source_bfs, {"reduce": "histogram", "bins": 4}),
]


def named(given: Any) -> str:
    """The same in every process."""
    return given.__name__ if callable(given) else str(given)


@pytest.mark.parametrize(("find", "options"), CASES, ids=named)
def test_all_rows_on_the_device(
    store: og.Graph, find: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    ids, said = store.original_ids(), Said()
    given = {"targets": ids[4::5], **options}
    right = columns(find(store, ids[::50], device="cpu", **given))
    with without(*RESIDENT):
        found = find(store, ids[::50], device="cuda", progress=said, **given)
        kept = find(store, ids[::50], device="cuda", out=tmp_path / "d.zarr", **given)
    assert columns(found) == right
    assert columns(kept) == right
    assert said.notes[-1].endswith("searched one by one on the CUDA device")


@pytest.mark.parametrize(("find", "options"), CASES, ids=named)
def test_rows_in_pinned_memory(
    light: og.Graph, find: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    ids, said = light.original_ids(), Said()
    given = {"targets": ids[4::5], **options}
    right = columns(find(light, ids[::50], device="cpu", **given))
    with without(*PINNED):
        found = find(light, ids[::50], device="cuda", progress=said, **given)
        kept = find(light, ids[::50], device="cuda", out=tmp_path / "d.zarr", **given)
        assert any(held.pinned for held in engine_cache._engines.values())
    assert columns(found) == right
    assert columns(kept) == right
    assert "bytes of rows in pinned host memory" in said.notes[-1]


def test_long_searches_one_by_one(tmp_path: Path) -> None:
    """More levels than a byte tells, and integers that 32 bits do not."""
    at = np.arange(600)
    weight = np.full(600, 1 << 27)
    path = og.build((at, at + 1, weight), tmp_path / "path.zarr", rows="both", device="cpu")
    for find in (og.johnson, og.multi_source_bfs):
        right = columns(find(path, at[::100], device="cpu"))
        for refused in (RESIDENT, PINNED):
            if refused == PINNED and find is og.johnson:
                continue  # integers want all rows on the device
            with without(*refused):
                assert columns(find(path, at[::100], device="cuda")) == right


@pytest.mark.parametrize("share", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("wanted", ["cuda", "auto"])
def test_batches_that_are_refused_memory(light: og.Graph, wanted: str, share: float) -> None:
    """The device refuses it at some point; what is done instead leaves nothing there."""
    pool, sources = cuda_modules.cuda().get_default_memory_pool(), light.original_ids()[::10]
    right = columns(og.johnson(light, sources, device="cpu"))
    engine_cache.release()
    before = used_bytes()
    og.johnson(light, sources, device="cuda")
    whole = pool.total_bytes()
    engine_cache.release()
    assert used_bytes() == before
    pool.free_all_blocks()
    said, refused = Said(), ""
    try:
        pool.set_limit(size=int(share * whole))
        found = og.johnson(light, sources, device=wanted, progress=said)
        assert columns(found) == right
    except MemoryBudgetError as error:
        refused = str(error)
    finally:
        pool.set_limit(size=0)
    why = "device memory was refused: apsp one by one on the CUDA device, all rows there"
    is_on_cpu = "apsp on the CPU: " in said.notes[0] and "does not fit the device" in said.notes[0]
    assert is_on_cpu if wanted == "auto" else said.notes[0] == why
    if refused:
        # With so little there is nothing to be done: all was tried, arcs in the store last.
        assert wanted == "cuda"
        assert share < 0.5
        assert len(said.notes) == 3
    engine_cache.release()
    assert used_bytes() == before


@pytest.mark.parametrize("find", [og.johnson, og.multi_source_bfs])
def test_any_allocation_that_is_refused_is_done_without(light: og.Graph, find: Any) -> None:
    cupy, sources = cuda_modules.cuda(), light.original_ids()[::20]
    pool = cupy.get_default_memory_pool()
    right = columns(find(light, sources, device="cpu"))
    engine_cache.release()
    for _ in range(2):  # some is allocated once in a process
        plain = Refusing(pool)
        with cupy.cuda.using_allocator(plain):
            find(light, sources, device="cuda")
        engine_cache.release()
    count, before, tried, told = plain.made, used_bytes(), 0, 0
    assert count > 10
    for refused in range(1, count + 1, 5):
        allocator, said = Refusing(pool, refused), Said()
        with cupy.cuda.using_allocator(allocator):
            assert columns(find(light, sources, device="cuda", progress=said)) == right
        if allocator.made < refused:
            assert refused > count // 2, (refused, count)
            break  # there were fewer this time, and none was refused
        tried += 1
        told += any("fit the device" in n or "was refused" in n for n in said.notes)
        engine_cache.release()
        assert used_bytes() == before, refused
    # CuPy does without some by itself.
    assert told, tried


def test_a_store_is_gone_on_with_one_by_one(
    light: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that batches wrote before they were refused memory stay."""
    from ooc_graph.layout import metadata

    monkeypatch.setattr(
        metadata, "chunk_length", lambda elements, size: max(1, min(elements, (1 << 18) // size))
    )
    monkeypatch.setattr("ooc_graph.strategies.many.dividing.CUDA_SOURCES", (32,))
    sources = light.original_ids()[::5]
    right = columns(og.johnson(light, sources, device="cpu"))
    plain, searched = CudaJohnson.run_columns, []

    def refuse(self: CudaJohnson, some: Any, *rest: Any, **more: Any) -> Any:
        searched.append(len(some))
        if len(searched) > 3:
            raise MemoryBudgetError("the batch does not fit the device")
        return plain(self, some, *rest, **more)

    monkeypatch.setattr(CudaJohnson, "run_columns", refuse)
    said = Said()
    found = og.johnson(light, sources, device="cuda", out=tmp_path / "d.zarr", progress=said)
    assert columns(found) == right
    assert any(note.startswith("going on with") for note in said.notes)


def test_a_device_that_others_use(light: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = light.original_ids()[::20]
    right = {
        find: columns(find(light, sources, device="cpu"))
        for find in (og.johnson, og.multi_source_bfs)
    }
    whole = cuda_memory.cuda_bytes(light, "bfs")
    assert cuda_pinned.least_device_bytes(light, "bfs") < whole
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (whole - 1, LARGE))
    engine_cache.release()
    with pytest.raises(DeviceBusyError, match="others use the rest"):
        og.johnson(light, sources, device="cuda")
    said = Said()
    assert columns(og.johnson(light, sources, progress=said)) == right[og.johnson]
    assert "apsp on the CPU" in said.notes[0]
    with pytest.raises(DeviceBusyError, match="others use the rest"):
        og.multi_source_bfs(light, sources, device="cuda")
    plain = cuda_memory.cuda_bytes
    monkeypatch.setattr(
        cuda_memory, "cuda_bytes", lambda g, k: LARGE if k == "multi_source_bfs" else plain(g, k)
    )
    found = og.multi_source_bfs(light, sources, device="cuda", progress=said)
    assert columns(found) == right[og.multi_source_bfs]
    assert "in pinned host memory" in said.notes[-1]


@pytest.mark.parametrize("reduce", ["sum", "closeness"])
def test_sums_beyond_float64(reduce: str) -> None:
    """Distances whose sum float64 does not hold: closeness is the CPU's, and so is what is said."""
    at = np.arange(40)
    # Powers of two, so that sums that fit have the same bits in whatever order they are made.
    graph = og.from_edges(at, at + 1, np.full(40, 2.0**1017), directed=True)
    sources = [30, 0, 40, 1]
    if reduce == "closeness":
        right = og.johnson(graph, sources, reduce=reduce, device="cpu")
        assert (right.read(reduce) > 0).tolist() == [True, True, False, True]
        found = og.johnson(graph, sources, reduce=reduce, device="cuda")
        assert columns(found) == columns(right)
        return
    said = []
    for device in ("cpu", "cuda"):
        with pytest.raises(og.errors.InputError, match="beyond the bound") as caught:
            og.johnson(graph, sources, reduce=reduce, device=device)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.fixture(scope="module", params=["float32", "float64", "int64", "long"])
def signed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Weights of both signs, many that potentials make 0; long ones need more than 32 bits."""
    random = np.random.default_rng(13)
    source, target, _ = stores.skewed("int64")
    by = random.integers(0, 90, 15_001)
    weight = random.integers(0, 9, stores.EDGES) + by[source] - by[target]
    keep = source != target
    if request.param == "long":
        weight = weight * (1 << 34)
    elif request.param.startswith("f"):
        # Rounded, with no cycle of weight zero that this might make negative.
        weight = ((weight + 1) / 7).astype(request.param)
    edges = source[keep], target[keep], weight[keep]
    path = tmp_path_factory.mktemp("stores") / f"{request.param}.zarr"
    return og.build(edges, path, directed=True, device="cpu")


@pytest.mark.parametrize(
    "options",
    [{}, {"parents": True, "cutoff": 30}, {"reduce": "closeness"}, {"reduce": "eccentricity"}],
    ids=str,
)
def test_negative_weights_one_by_one(
    signed: og.Graph, options: dict[str, Any], tmp_path: Path
) -> None:
    ids, said = signed.original_ids(), Said()
    options = {"targets": ids[4::5], **options}
    right = columns(og.johnson(signed, ids[::50], device="cpu", **options))
    with without(*RESIDENT):
        found = og.johnson(signed, ids[::50], device="cuda", progress=said, **options)
        kept = og.johnson(signed, ids[::50], device="cuda", out=tmp_path / "d.zarr", **options)
    assert columns(found) == right
    assert columns(kept) == right
    assert said.notes[-1] == "apsp searched one by one on the CUDA device"


def test_negative_weights_are_not_pinned(tmp_path: Path) -> None:
    signed = og.build(
        (np.array([0, 1, 0]), np.array([1, 2, 2]), np.array([3, -2, 4])),
        tmp_path / "signed.zarr",
        directed=True,
        device="cpu",
    )
    with without(*PINNED):
        with pytest.raises(MemoryBudgetError, match="bytes of device memory"):
            og.johnson(signed, device="cuda")
        assert og.johnson(signed).distance[0].tolist() == [0, 3, 1]


def test_auto_leaves_levels_without_room_for_batches_to_the_cpu(
    light: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it has no room for batches of them either."""
    sources = light.original_ids()[::50]
    with without(*RESIDENT):
        right = columns(og.multi_source_bfs(light, sources))
        assert not any(kept.key.device == CUDA for kept in engine_cache._engines)
        monkeypatch.setattr(one_by_one, "fits_on_cpu", lambda *_: False)
        assert columns(og.multi_source_bfs(light, sources)) == right
        assert any(kept.key.device == CUDA for kept in engine_cache._engines)
