"""Many sources one by one on a CUDA device, with arcs in the store: bytes, and what is next."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.answers.asked import answer_specs
from ooc_graph.errors import MemoryBudgetError, UnexpectedError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.kernels.cuda.store.bfs_search import DiskBfsSearch
from ooc_graph.kernels.cuda.store.sssp import CudaDiskSsspSearch
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import one_by_one
from tests.command_line import command
from tests.gpu.memory import Refusing, used_bytes
from tests.gpu.searching import column_bytes as columns
from tests.gpu.stores import skewed
from tests.gpu.test_cuda_disk import refuse_pinning
from tests.said import Said

KERNELS = pytest.mark.parametrize("kernel", ["apsp", "bfs"])
FIND: dict[str, Callable[..., Any]] = {"apsp": og.johnson, "bfs": og.multi_source_bfs}
SINGLE = {"apsp": "sssp", "bfs": "bfs"}
SEARCHES: dict[str, Any] = {"apsp": CudaDiskSsspSearch, "bfs": DiskBfsSearch}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("apsp", {}),
    ("apsp", {"parents": True, "cutoff": 0.5}),
    ("apsp", {"reduce": "closeness"}),
    ("apsp", {"reduce": "histogram", "bins": 5, "bin_width": 0.1}),
    ("bfs", {}),
    ("bfs", {"reduce": "sum"}),
    ("bfs", {"reduce": "eccentricity", "cutoff": 2}),
    ("bfs", {"reduce": "histogram", "bins": 4}),
]


@pytest.fixture(scope="module", params=["kronecker", "skewed, directed"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "graph.zarr"
    if request.param == "kronecker":
        return og.build(og.Kronecker(13), path, rows="both", shards=4, device="cpu")
    return og.build(skewed("float32"), path, rows="both", directed=True, device="cpu")


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "hubs.zarr"
    return og.build(og.Kronecker(13), path, rows="both", shards=4, device="cpu")


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    engine_cache.release()
    yield
    engine_cache.release()


def limits(graph: og.Graph, kernel: str, *, pins: bool = False) -> dict[str, Any]:
    """Budgets into which neither all rows go nor the rows that would be pinned."""
    least = cuda_disk.least_plan(cuda_disk.known_facts(graph, SINGLE[kernel]))
    device_memory = least.device_bytes + 64 * graph.rows
    assert device_memory < cuda_memory.cuda_bytes(graph, SINGLE[kernel])
    host_memory = least.host_bytes + 48 * graph.rows if pins else 0
    return {"device": "cuda", "device_memory": device_memory, "host_memory": host_memory}


def kernel_name(kernel: str) -> str:
    return "apsp" if kernel == "apsp" else "multi_source_bfs"


def never_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the rows were too many for pinned memory that has room for some arcs."""
    monkeypatch.setattr(cuda_pinned, "may_pin", lambda *_: False)


def some(graph: og.Graph) -> Any:
    """A few sources, with and without arcs."""
    return graph.original_ids()[:: graph.vertices // 12]


@pytest.mark.parametrize("pins", [False, True])
@pytest.mark.parametrize(("kernel", "options"), CASES, ids=str)
def test_the_bytes_are_the_cpus(
    graph: og.Graph,
    kernel: str,
    options: dict[str, Any],
    pins: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find, said = FIND[kernel], Said()
    given = {"targets": graph.original_ids()[4::5], **options}
    right = columns(find(graph, some(graph), device="cpu", **given))
    if pins:
        never_pinned(monkeypatch)
    budgets = limits(graph, kernel, pins=pins)
    found = find(graph, some(graph), progress=said, **budgets, **given)
    kept = find(graph, some(graph), out=tmp_path / "d.zarr", **budgets, **given)
    assert columns(found) == right
    assert columns(kept) == right
    assert "one by one on the CUDA device, arcs in the store: " in said.notes[0]
    assert f"searched one by one on the CUDA device: {SINGLE[kernel]} had" in said.notes[-1]
    assert "bytes of the store for" in said.notes[-1]
    assert ("and 0 bytes of pinned memory" in said.notes[-1]) == (not pins)
    (held,) = engine_cache._engines.values()
    assert held.search.plan.device_bytes <= budgets["device_memory"]
    assert held.io_stats is not None
    assert held.io_stats.bytes > 0


@KERNELS
def test_the_commands(hubs: og.Graph, kernel: str, tmp_path: Path) -> None:
    budgets = limits(hubs, kernel)
    words = [kernel, hubs.path, "--sources", 7, "--device", "cuda", "--host-memory", 0]
    memory = "--device-memory", budgets["device_memory"]
    done = command(*words, *memory, "--out", tmp_path / "d.zarr")
    assert done.code == 0, done.err
    assert "bytes of the store for" in done.err
    found = og.Result.open(tmp_path / "d.zarr")
    right = columns(FIND[kernel](hubs, found.read("source"), device="cpu"))
    assert {name: columns(found)[name] for name in right} == right
    least = cuda_disk.least_device_bytes(hubs, SINGLE[kernel])
    done = command(*words, "--device-memory", least - 1, "--out", tmp_path / "e.zarr", "--quiet")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert f"at least {least:,} bytes of device memory" in done.err
    assert not (tmp_path / "e.zarr").exists()


@KERNELS
def test_pinning_that_is_refused_leaves_arcs_in_the_store(
    hubs: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, said = columns(FIND[kernel](hubs, some(hubs), device="cpu")), Said()
    refuse_pinning(monkeypatch)
    small = cuda_memory.cuda_bytes(hubs, SINGLE[kernel]) - 1
    found = FIND[kernel](hubs, some(hubs), device="cuda", device_memory=small, progress=said)
    assert columns(found) == right
    how = "refused: " + kernel_name(kernel) + " one by one on the CUDA device, arcs in the store"
    assert any(note.endswith(how) for note in said.notes)
    assert "pinned host memory are refused" in said.notes[-1]


@KERNELS
def test_any_allocation_that_is_refused_is_done_without(
    hubs: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading goes on with less of the device's; searches allocate nothing there."""
    never_pinned(monkeypatch)
    cupy, budgets = cuda_modules.cuda(), limits(hubs, kernel, pins=True)
    right = columns(FIND[kernel](hubs, some(hubs), device="cpu"))
    allocator = Refusing(cupy.get_default_memory_pool())

    def notes_without(refused: int) -> list[str]:
        engine_cache.release()
        said, allocator.made, allocator.refused = Said(), 0, refused
        found = FIND[kernel](hubs, some(hubs), progress=said, **budgets)
        allocator.refused = 0
        assert columns(found) == right, refused
        return said.notes

    with cupy.cuda.using_allocator(allocator):
        for _ in range(2):  # what the first compiles the others need not
            assert "memory was refused" not in " ".join(notes_without(0))
        count = allocator.made
        assert count >= 15
        engine_cache.release()
        before = used_bytes()
        for refused in range(1, count + 1, 3):
            notes = notes_without(refused)
            assert "memory was refused" in notes[-1], (refused, count, notes)
            engine_cache.release()
            assert used_bytes() == before, refused


@contextmanager
def before_each(kernel: str, do: Callable[[int], None]) -> Iterator[list[int]]:
    """Calls ``do`` with the number of each search in the store before it; gives their sources."""
    kind, searched = SEARCHES[kernel], list[int]()
    plain = kind.run

    def run(self: Any, root: int) -> Any:
        do(len(searched))
        searched.append(root)
        return plain(self, root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "run", run)
        yield searched


@KERNELS
def test_host_memory_that_is_refused_holds_no_arcs(
    hubs: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_pinned(monkeypatch)
    budgets, said = limits(hubs, kernel, pins=True), Said()
    right = columns(FIND[kernel](hubs, some(hubs), device="cpu"))
    refused = list[int]()

    def refuse(number: int) -> None:
        if number == 3 and not refused:
            refused.append(number)
            raise MemoryError("no room")

    with before_each(kernel, refuse):
        found = FIND[kernel](hubs, some(hubs), progress=said, **budgets)
    assert columns(found) == right
    assert refused == [3]
    how = f"{kernel_name(kernel)} one by one on the CUDA device, arcs in the store"
    assert f"host memory was refused: {how}" in said.notes
    assert "and 0 bytes of pinned memory" in said.notes[-1]

    def refuse_all(_: int) -> None:
        raise MemoryError("no room")

    engine_cache.release()
    before = used_bytes()
    words = r"host memory was refused: no room; use device='cpu'"
    refused_all = pytest.raises(MemoryBudgetError, match=words)
    with before_each(kernel, refuse_all), refused_all:
        FIND[kernel](hubs, some(hubs), **budgets)
    gc.collect()
    assert used_bytes() == before


@KERNELS
def test_auto_takes_the_cpu_at_last(
    hubs: og.Graph, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has no room for batches, arcs stay in the store for the device; else for the CPU."""
    right = columns(FIND[kernel](hubs, some(hubs), device="cpu"))
    monkeypatch.setattr(one_by_one, "fits_on_cpu", lambda *_: False)
    budgets, said = {**limits(hubs, kernel), "device": "auto"}, Said()
    assert columns(FIND[kernel](hubs, some(hubs), progress=said, **budgets)) == right
    assert "bytes of the store for" in said.notes[-1]

    def refuse(number: int) -> None:
        if number >= 2:
            raise MemoryBudgetError("refused by the device")

    said.notes.clear()
    with before_each(kernel, refuse):
        assert columns(FIND[kernel](hubs, some(hubs), progress=said, **budgets)) == right
    assert any("on the CPU: refused by the device" in note for note in said.notes)


def chunks_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for every two sources."""

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=2) for spec in answer_specs(*given))

    monkeypatch.setattr("ooc_graph.search.many.answer_specs", specs)


@pytest.mark.parametrize("options", [{}, {"parents": True}, {"reduce": "sum"}], ids=str)
def test_a_run_that_was_stopped_is_gone_on_with(
    hubs: og.Graph, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks_of_two(monkeypatch)
    sources, said = hubs.original_of()[:40], Said()
    given = {"out": tmp_path / "d.zarr", **limits(hubs, "apsp"), **options}
    og.johnson(hubs, sources, out=tmp_path / "cpu.zarr", device="cpu", **options)

    def stop(number: int) -> None:
        if number == 20:
            raise RuntimeError("stopped")

    with before_each("apsp", stop) as first, pytest.raises(UnexpectedError, match="stopped"):
        og.johnson(hubs, sources, **given)
    with before_each("apsp", lambda _: None) as rest:
        og.johnson(hubs, sources, progress=said, **given)
    assert any(note.startswith("going on with") for note in said.notes)
    assert len(sources) - len(first) <= len(rest) < len(sources)
    identities = [Stored.open(tmp_path / f"{name}.zarr").identity for name in ("d", "cpu")]
    assert identities[0] == identities[1]


@KERNELS
def test_workers_read_each_for_its_own_sources(
    hubs: og.Graph, kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks_of_two(monkeypatch)
    right, said = columns(FIND[kernel](hubs, some(hubs), device="cpu")), Said()
    given = {"progress": said, **limits(hubs, kernel)}
    with local_cluster(2) as client:
        for out in (None, tmp_path / "d.zarr"):
            found = FIND[kernel](hubs, some(hubs), client=client, out=out, **given)
            assert columns(found) == right
            assert "bytes of the store for" in said.notes[-1]
