"""Many sources with a CUDA device that is made up: which strategy is next, and the CPU's bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.errors import (
    DeviceBusyError,
    DeviceError,
    MemoryBudgetError,
    NegativeCycleError,
    UsageError,
)
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.request import Many, Request
from ooc_graph.model.resources import AUTO, CPU, CUDA, CudaLimits, Device
from ooc_graph.runtime import devices, engine_cache
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.search.execute import plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import batches as many_batches
from ooc_graph.strategies.many import memory as many_memory
from ooc_graph.strategies.many import one_by_one
from tests import made_up_device
from tests.command_line import call
from tests.made_up_device import (
    BATCHES,
    FIND,
    GIB,
    PINNED,
    RESIDENT,
    MadeUp,
    columns,
    fewer,
    refusing,
)
from tests.made_up_place import TwoWorkers
from tests.refused_in_turn import all_in_turn, followed
from tests.said import Said
from tests.small_pairs import _no_cluster

hubs, signed, device = made_up_device.hubs, made_up_device.signed, made_up_device.device
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("apsp", {}),
    ("apsp", {"parents": True}),
    ("apsp", {"reduce": "closeness"}),
    ("apsp", {"reduce": "histogram", "bins": 5, "bin_width": 0.2}),
    ("apsp", {"cutoff": 0.5}),
    ("bfs", {}),
    ("bfs", {"reduce": "sum"}),
    ("bfs", {"reduce": "eccentricity", "cutoff": 2}),
    ("bfs", {"reduce": "histogram", "bins": 3}),
]


def no_room_for_batches(patch: pytest.MonkeyPatch) -> None:
    """On the CPU, so that ``auto`` searches one by one on the device first."""
    patch.setattr(one_by_one, "fits_on_cpu", lambda *_: False)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize(("kernel", "options"), OPTIONS, ids=str)
def test_one_by_one_gives_the_bytes_of_the_cpu(
    hubs: og.Graph,
    device: MadeUp,
    kernel: str,
    options: dict[str, Any],
    written: bool,
    pinned: bool,
    tmp_path: Path,
) -> None:
    ids = hubs.original_ids()
    given = ids[::7], ids[3::5]
    find = FIND[kernel]
    right = columns(find(hubs, given[0], targets=given[1], device="cpu", **options))
    refused = (BATCHES, RESIDENT) if pinned else (BATCHES,)
    device.refuses = refusing(*refused, loaded=True)
    out, said = (tmp_path / "d.zarr") if written else None, Said()
    more = {"device": CUDA, "progress": said, "out": out}
    found = find(hubs, given[0], targets=given[1], **more, **options)
    assert columns(found) == right
    assert device.used[-1] == (PINNED if pinned else RESIDENT)
    assert "searched one by one on the CUDA device" in said.notes[-1]
    assert ("in pinned host memory" in said.notes[-1]) == pinned


@pytest.mark.parametrize("wanted", [AUTO, CUDA])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("options", [options for kernel, options in OPTIONS if kernel == "bfs"])
def test_levels_of_batches_have_the_bytes_of_the_cpu(
    hubs: og.Graph,
    device: MadeUp,
    options: dict[str, Any],
    written: bool,
    wanted: str,
    tmp_path: Path,
) -> None:
    """With sources and targets that have no arcs, and a cutoff below 0."""
    ids = hubs.original_ids()
    out, said = (tmp_path / "d.zarr") if written else None, Said()
    for number, more in enumerate(({}, {"targets": ids[3::5]}, {"cutoff": -1})):
        given: dict[str, Any] = {**options, **more}
        right = columns(og.multi_source_bfs(hubs, ids[::7], device="cpu", **given))
        named = None if out is None else out.with_name(f"{number}.zarr")
        found = og.multi_source_bfs(
            hubs, ids[::7], device=wanted, progress=said, out=named, **given
        )
        assert columns(found) == right
        engine_cache.release()
    assert device.used == [BATCHES] * 3
    assert not said.notes


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("wanted", [AUTO, CUDA])
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("reduce", [None, "sum"])
def test_what_is_refused_is_done_with_less(
    hubs: og.Graph,
    device: MadeUp,
    loaded: bool,
    wanted: str,
    written: bool,
    reduce: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = columns(og.johnson(hubs, reduce=reduce, device="cpu"))
    fewer(monkeypatch)
    no_room_for_batches(monkeypatch)
    for refused, used in (
        ((BATCHES,), [BATCHES, RESIDENT]),
        ((BATCHES, RESIDENT), [BATCHES, RESIDENT, PINNED]),
        ((BATCHES, RESIDENT, PINNED), [BATCHES, RESIDENT, PINNED]),
    ):
        engine_cache.release()
        device.used.clear()
        device.refuses, said = refusing(*refused, loaded=loaded), Said()
        out = tmp_path / f"{len(refused)}.zarr" if written else None

        def find(said: Said = said, out: Path | None = out) -> Any:
            return og.johnson(hubs, reduce=reduce, device=wanted, out=out, progress=said)

        if wanted == CUDA and len(refused) == 3:
            with pytest.raises(MemoryBudgetError, match="pinned does not fit the device"):
                find()
            assert not engine_cache._engines
        else:
            assert columns(find()) == right
        assert device.used == used
        assert set(device.graph_held) == {0}
        went_on = said.notes[: len(refused) - (wanted == CUDA and len(refused) == 3)]
        why = "device memory was refused: apsp one by one on the CUDA device"
        assert (
            went_on
            == [
                f"{why}, all rows there",
                f"{why}, rows in pinned host memory",
                "apsp on the CPU: pinned does not fit the device",
            ][: len(went_on)]
        )


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("kernel", ["apsp", "bfs"])
def test_auto_goes_on_in_batches_on_the_cpu(
    hubs: og.Graph, device: MadeUp, kernel: str, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If these have room they may well be quicker than searches one by one."""
    fewer(monkeypatch)
    right = columns(FIND[kernel](hubs, device="cpu"))
    engine_cache.release()
    device.refuses, said = refusing(BATCHES, loaded=loaded), Said()
    assert columns(FIND[kernel](hubs, progress=said)) == right
    assert device.used == [BATCHES]
    assert [note.split(" on ")[1] for note in said.notes] == [
        "the CPU: batches does not fit the device"
    ]


def test_answers_that_were_found_stay(
    hubs: og.Graph, device: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found again are only sums of floats, whose last bits are not the device's batches'."""
    fewer(monkeypatch)

    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=2) for spec in answer_specs(*given))

    monkeypatch.setattr("ooc_graph.search.many.answer_specs", specs)
    sources = hubs.original_ids()[:12]
    for reduce in (None, "sum"):
        engine_cache.release()
        searched: list[str] = []

        def refuses(kind: str, loads: bool, count: int, searched: list[str] = searched) -> Any:
            if not loads:
                searched.append(kind)
            return MemoryBudgetError("refused") if kind == BATCHES and count > 5 else None

        device.refuses = refuses
        og.johnson(hubs, sources, reduce=reduce, device=CUDA)
        has_row = int((hubs.internal_of()[:12] >= 0).sum())
        again = searched.count(RESIDENT)
        assert (again < has_row) == (reduce is None)


@pytest.mark.parametrize("wanted", [AUTO, CUDA])
@pytest.mark.parametrize("kernel", ["apsp", "bfs"])
def test_a_device_whose_memory_others_have(
    hubs: og.Graph, device: MadeUp, kernel: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, sources = FIND[kernel], hubs.original_ids()[::9]
    right = columns(find(hubs, sources, device="cpu"))
    whole = cuda_memory.cuda_bytes(hubs, "apsp" if kernel == "apsp" else "multi_source_bfs")
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (whole - 1, GIB))
    if wanted == AUTO:
        said = Said()
        assert columns(find(hubs, sources, progress=said)) == right
        assert device.used == []
        notes = [note for note in said.notes if "one by one" not in note]
        assert [("on the CPU" in n, "others use the rest" in n) for n in notes] == [(True, True)]
        return
    with pytest.raises(DeviceBusyError, match=f"needs {whole:,} bytes"):
        find(hubs, sources, device=CUDA)


def test_searches_one_by_one_where_others_have_the_memory(
    hubs: og.Graph, device: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a single search does: rows that are not there need less."""
    sources, plain = hubs.original_ids()[::9], cuda_memory.cuda_bytes
    right = columns(og.multi_source_bfs(hubs, sources, device="cpu"))
    monkeypatch.setattr(
        cuda_memory, "cuda_bytes", lambda g, k: 1 << 60 if k == "multi_source_bfs" else plain(g, k)
    )
    whole = plain(hubs, "bfs")
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (whole - 1, GIB))
    assert columns(og.multi_source_bfs(hubs, sources, device=CUDA)) == right
    assert device.used == [PINNED]
    engine_cache.release()
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (1 << 20, GIB))
    with pytest.raises(DeviceBusyError, match="others use the rest"):
        og.multi_source_bfs(hubs, sources, device=CUDA)


def test_busy_is_said_where_pinning_is_refused(hubs: og.Graph, device: MadeUp) -> None:
    def refuses(kind: str, loads: bool, _: int) -> Exception | None:
        busy, small = DeviceBusyError("others use the rest"), MemoryBudgetError("refused")
        return {BATCHES: small, RESIDENT: busy, PINNED: small}[kind] if loads else None

    device.refuses = refuses
    with pytest.raises(DeviceBusyError, match="others use the rest"):
        og.multi_source_bfs(hubs, [int(hubs.original_ids()[0])], device=CUDA)
    assert device.used == [BATCHES, RESIDENT, PINNED]


@pytest.mark.parametrize("wanted", [AUTO, CUDA])
def test_host_memory_that_is_refused_ends_it_on_the_device(
    hubs: og.Graph, device: MadeUp, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For batches there are smaller tasks, and less is held one by one."""
    no_room_for_batches(monkeypatch)
    device.refuses = refusing(BATCHES, RESIDENT, loaded=True, error=MemoryError)
    sources, said = hubs.original_ids()[::10], Said()
    if wanted == CUDA:
        with pytest.raises(MemoryBudgetError, match=r"host memory was refused.* use device='cpu'"):
            og.johnson(hubs, sources, device=CUDA)
    else:
        right = columns(og.johnson(hubs, sources, device="cpu"))
        engine_cache.release()
        assert columns(og.johnson(hubs, sources, progress=said)) == right
        notes = [note for note in said.notes if "one by one" not in note]
        assert "apsp on the CPU: host memory was refused" in notes[-1]
    assert device.used == [BATCHES, RESIDENT]


def test_host_memory_that_is_refused_makes_tasks_smaller(
    hubs: og.Graph, device: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def specs(*given: Any) -> Any:
        return tuple(replace(spec, chunk_rows=2) for spec in answer_specs(*given))

    monkeypatch.setattr("ooc_graph.search.many.answer_specs", specs)
    monkeypatch.setattr(many_memory, "STAGED_BYTES", 0)
    tasks: list[int] = []

    def use(kind: str, *sources: int) -> None:
        assert kind == BATCHES
        # Before the first task the graph is brought there, for no source.
        tasks.extend([len(sources)] if sources else [])
        if len(sources) > 100:
            raise MemoryError("no room")

    monkeypatch.setattr(device, "use", use)
    # Distances alone are written to the answer at once: the host needs no more for more sources.
    right, said = columns(og.johnson(hubs, parents=True, device="cpu")), Said()
    engine_cache.release()
    assert columns(og.johnson(hubs, parents=True, device=CUDA, progress=said)) == right
    assert tasks[0] > 100
    assert max(tasks[-2:]) <= 100
    assert set(device.used) == {BATCHES}
    why = (
        "host memory was refused: apsp goes on in batches of 128 sources on the CUDA device, within"
    )
    assert all(note.startswith(why) for note in said.notes)
    assert said.notes


@pytest.fixture(scope="module", params=["int64", "int32", "float32", "float64"])
def negative(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Weights of both signs, many that potentials make 0, and vertices that few reach."""
    random = np.random.default_rng(11)
    u, v = (400 * random.random((2, 3000)) ** 2).astype(np.int64)
    by = random.integers(0, 60, 400)
    weight = random.integers(0, 9, 3000) + by[u] - by[v]
    if request.param.startswith("float"):
        weight = weight / 7
    keep = u != v
    path = tmp_path_factory.mktemp("graphs") / f"{request.param}.zarr"
    columns = u[keep] * 2, v[keep] * 2, weight[keep].astype(request.param)
    return og.build(columns, path, directed=True)


@pytest.mark.parametrize(
    "options",
    [{}, {"parents": True}, {"cutoff": 20}, {"reduce": "closeness"}, {"reduce": "eccentricity"}],
    ids=str,
)
def test_negative_weights_one_by_one(
    negative: og.Graph, device: MadeUp, options: dict[str, Any], tmp_path: Path
) -> None:
    """Weights that potentials made are searched, and distances have the CPU's bits."""
    ids = negative.original_ids()
    search = partial(og.johnson, negative, ids[::3], targets=ids[1::2], **options)
    right = columns(search(device="cpu"))
    engine_cache.release()
    device.refuses, said = refusing(BATCHES, loaded=True), Said()
    assert columns(search(device=CUDA, progress=said)) == right
    assert columns(search(device=CUDA, out=tmp_path / "d.zarr")) == right
    assert set(device.used) == {BATCHES, RESIDENT}
    why = "device memory was refused: apsp one by one on the CUDA device, all rows there"
    assert said.notes[0] == why
    assert said.notes[-1] == "apsp searched one by one on the CUDA device"


@pytest.mark.parametrize("loaded", [False, True])
def test_negative_weights_are_not_pinned(
    signed: og.Graph, device: MadeUp, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in pinned memory are the store's rows. Without room for others it is the CPU's."""
    fewer(monkeypatch)
    no_room_for_batches(monkeypatch)
    right = columns(og.johnson(signed, device="cpu"))
    engine_cache.release()
    device.refuses = refusing(BATCHES, RESIDENT, loaded=loaded)
    with pytest.raises(MemoryBudgetError, match="resident does not fit"):
        og.johnson(signed, device=CUDA)
    said = Said()
    assert columns(og.johnson(signed, progress=said)) == right
    assert device.used == [BATCHES, RESIDENT] * 2
    on_cpu = [note for note in said.notes if "on the CPU" in note]
    assert len(on_cpu) == 1
    assert on_cpu[0].startswith("apsp on the CPU: resident does not fit")


def test_negative_cycles_are_found_for_searches_one_by_one(device: MadeUp, tmp_path: Path) -> None:
    ends = np.array([5, 9, 7, 1]), np.array([9, 7, 5, 5])
    graph = og.build(
        (*ends, np.array([4, -3, -2, 1])), tmp_path / "g.zarr", directed=True, device="cpu"
    )
    device.refuses = refusing(BATCHES, loaded=True)
    with pytest.raises(NegativeCycleError) as caught:
        og.johnson(graph, device=CUDA, out=tmp_path / "d.zarr")
    assert set(caught.value.cycle) == {5, 7, 9}
    assert caught.value.weight == -1


@pytest.mark.usefixtures("device")
def test_plans_of_negative_weights_follow_the_memory_there_is(negative: og.Graph) -> None:
    dtype = np.dtype(negative.weight_dtype)
    wider = (negative.stored_arcs * (8 - 4) + negative.rows * 64) * (dtype == np.int32)
    least = cuda_memory.cuda_bytes(negative, "sssp") + wider

    def names(memory: int) -> list[str]:
        return names_of(in_turn(negative, Asked(), CUDA, memory))

    assert names(cuda_memory.cuda_bytes(negative, "apsp")) == ["cuda/batches", ALL_THERE]
    assert names(least) == [ALL_THERE]
    with pytest.raises(MemoryBudgetError, match=f"needs {least:,} bytes of device memory"):
        names(least - 1)


def test_the_command_ends_with_one_line(
    hubs: og.Graph,
    device: MadeUp,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("local_cluster", "local_cuda_cluster"):
        monkeypatch.setattr(f"ooc_graph.runtime.cluster.{module}", _no_cluster)
    words = hubs.path, "--sources", 5, "--out", tmp_path / "d.zarr", "--device", CUDA, "--quiet"
    for command, error, code in (
        ("apsp", MemoryBudgetError, 2),
        ("bfs", MemoryBudgetError, 2),
        ("apsp", DeviceBusyError, 75),
        ("bfs", DeviceBusyError, 75),
    ):
        device.refuses = refusing(BATCHES, RESIDENT, PINNED, loaded=True, error=error)
        ended = call(monkeypatch, capsys, command, *words)
        assert (ended.code, ended.err.count("\n")) == (code, 1), ended
        assert "does not fit the device" in ended.err
        assert not list(tmp_path.iterdir())


ALL_THERE, IN_HOST = "cuda/memory, one by one", "cuda/pinned, one by one"


def asking(graph: og.Graph, asked: Asked) -> Request:
    """For ten sources, whose answers stay in memory."""
    dtype = np.dtype(np.int32 if asked.hops else np.float32)
    specs = answer_specs(asked, 10, graph.vertices, dtype)
    return Request(asked.kernel, many=Many(specs, asked, in_memory=True))


def in_turn(graph: og.Graph, asked: Asked, wanted: str, memory: int) -> list[Plan]:
    """The plans that follow each other if the memory of the device is refused."""
    return all_in_turn(graph, asking(graph, asked), ThisProcess(GIB, wanted, CudaLimits(memory)))


def names_of(plans: list[Plan]) -> list[str]:
    assert [plan.reserved.strategy for plan in plans] == [plan.strategy.name for plan in plans]
    return [plan.strategy.name for plan in plans]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("hops", [False, True])
def test_plans_follow_the_memory_there_is(
    hubs: og.Graph, hops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, single = Asked(hops=hops), "bfs" if hops else "sssp"
    many = "multi_source_bfs" if hops else "apsp"
    batches, whole = (cuda_memory.cuda_bytes(hubs, kernel) for kernel in (many, single))
    batches += cuda_memory.cuda_levels_bytes(hubs, hubs.vertices) if hops else 0
    least = cuda_pinned.least_device_bytes(hubs, single)
    assert least < whole < batches
    both = [ALL_THERE, IN_HOST]
    for memory, expected in (
        (batches, ["cuda/batches", *both]),
        (batches - 1, both),
        (whole, both),
        (whole - 1, [IN_HOST]),
        (least, [IN_HOST]),
    ):
        found = in_turn(hubs, asked, CUDA, memory)
        assert names_of(found) == expected
        assert all(plan.reserved.device_bytes <= memory for plan in found)
        with pytest.MonkeyPatch.context() as patch:
            no_room_for_batches(patch)
            found = in_turn(hubs, asked, AUTO, memory)
            assert names_of(found) == [*expected, "cpu/batches"]
        found = in_turn(hubs, asked, AUTO, memory)
        assert names_of(found) == ["cuda/batches"] * (memory == batches) + ["cpu/batches"]
        assert ("bytes of device memory" in found[0].why) == (memory < batches)
    with pytest.raises(MemoryBudgetError, match=f"at least {least:,} bytes of device memory"):
        in_turn(hubs, asked, CUDA, least - 1)
    for module in (many_batches, one_by_one):
        monkeypatch.setattr(module, "only_ranks", lambda _: True)
    with pytest.raises(UsageError, match="need ids of 32 bits"):
        in_turn(hubs, asked, CUDA, batches)


def test_all_workers_give_up_what_was_refused_to_one(
    hubs: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has it loaded, and the next one would be beside it."""
    released: list[str] = []
    monkeypatch.setattr(TwoWorkers, "release", lambda _: released.append("all"))
    place = TwoWorkers(GIB, CudaLimits(GIB))
    first = plan_at(place, hubs, asking(hubs, Asked()))
    plans = followed(first, place, MemoryBudgetError("the device"), MemoryError("the host"))
    assert names_of(plans) == ["cuda/batches", ALL_THERE, "cuda/disk, one by one"]
    assert released == ["all"] * 2


def test_without_a_device(hubs: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here() -> int:
        raise DeviceError("there is no device: get one")

    monkeypatch.setattr(devices, "cuda_memory_bytes", none_here)
    for hops in (False, True):
        asked = asking(hubs, Asked(hops=hops))
        found = plan_at(ThisProcess(GIB), hubs, asked)
        assert found.strategy.name == "cpu/batches"
        assert found.why == f"{asked.kernel} on the CPU: there is no device"
        with pytest.raises(DeviceError, match="there is no device"):
            plan_at(ThisProcess(GIB, CUDA), hubs, asked)


def test_a_graph_without_arcs_needs_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ooc_graph.runtime.this_process.choose_in_process", lambda _: Device(CUDA, GIB)
    )
    loops = og.from_edges([0, 1], [0, 1], [1.0, 2.0])
    assert not loops.rows
    for wanted in (AUTO, CUDA):
        found = plan_at(ThisProcess(GIB, wanted), loops, asking(loops, Asked()))
        assert (found.device, found.why) == (CPU, "")
