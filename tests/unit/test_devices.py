"""Which device is chosen, and what is said where CUDA is wanted and not there; without any GPU."""

from __future__ import annotations

import builtins
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import (
    DeviceBusyError,
    DeviceError,
    MemoryBudgetError,
    OocGraphError,
    UsageError,
)
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.layout import names
from ooc_graph.layout.checkpoints import NoCheckpoints
from ooc_graph.model import rank_memory
from ooc_graph.model.request import CUDA_FIXED_BYTES
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CudaLimits
from ooc_graph.runtime import devices, this_process
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.shards import cuda_process
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.shards.cuda_work import DeviceWork
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.types import Dealing
from tests.command_line import call
from tests.made_up_place import chosen, plan_for
from tests.said import Said


class RuntimeFailure(RuntimeError):
    """Stands for CuPy's error of the CUDA runtime."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class CuPy(SimpleNamespace):
    """A module, which caches may have as a key."""

    __hash__ = object.__hash__


def fake_cupy(
    *, count: int = 1, capability: str = "90", opens: int = 0, free: int = 80, total: int = 100
) -> Any:
    """As much of CuPy as is asked before anything is computed."""

    def on_opening(_: int) -> None:
        if opens:
            raise RuntimeFailure(opens)

    def counted() -> int:
        if count < 0:
            raise RuntimeFailure(35)
        return count

    runtime = SimpleNamespace(
        CUDARuntimeError=RuntimeFailure,
        getDeviceCount=counted,
        getDeviceProperties=lambda _: {"totalGlobalMem": total, "name": b"Fake 1"},
        driverGetVersion=lambda: 13000,
        free=on_opening,
        memGetInfo=lambda: (free, total),
    )
    device = SimpleNamespace(id=0, compute_capability=capability)
    pool = SimpleNamespace(
        free_bytes=lambda: 5, free_all_blocks=lambda: None, get_limit=lambda: 0, malloc=None
    )
    return CuPy(
        __version__="14",
        cuda=SimpleNamespace(
            runtime=runtime, Device=lambda *_: device, get_allocator=lambda: pool.malloc
        ),
        get_default_memory_pool=lambda: pool,
    )


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a machine with the CuPy and device that a test describes."""

    def put(**said: Any) -> None:
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy(**said))
        cuda_modules._require_capable.cache_clear()

    yield put
    cuda_modules._require_capable.cache_clear()


def test_a_limit_of_this_thread_bounds_what_it_can_have(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy(free=60, total=100)
    assert cuda_modules.device_bytes() == (65, 100)
    limited = SimpleNamespace(free_within=lambda free: min(free, 40))
    malloc = SimpleNamespace(__self__=limited)
    monkeypatch.setattr(sys.modules["cupy"].cuda, "get_allocator", lambda: malloc)
    assert cuda_modules.device_bytes() == (40, 100)


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name == "cupy":
            raise ImportError(name)
        return plain(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    ends = np.array([1, 2, 3]), np.array([2, 3, 4])
    return og.build(ends, tmp_path_factory.mktemp("devices") / "g.zarr", directed=True)


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    ends, folder = np.arange(5000), tmp_path_factory.mktemp("weighted")
    edges = ends, ends + 1, np.ones(len(ends), np.float32)
    return og.build(edges, folder / "g.zarr", shards=4, device="cpu", directed=True)


def test_a_device_has_a_name(graph: og.Graph) -> None:
    with pytest.raises(UsageError, match="choose auto, cpu, cuda"):
        og.bfs(graph, 1, device="gpu")


def test_without_cupy(no_cupy: None) -> None:
    with pytest.raises(DeviceError, match=r"pip install 'ooc-graph\[cuda13\]'") as caught:
        devices.choose_in_process("cuda")
    assert caught.value.exit_code == 2
    assert devices.choose_in_process("auto").name == "cpu"
    assert "CuPy" in devices.choose_in_process("auto").why
    assert devices.choose_in_process("cpu") == devices.Device("cpu")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"count": 0}, "CUDA_VISIBLE_DEVICES hides all"),
        ({"count": -1}, "nvidia-smi"),
        ({"capability": "75"}, "compute capability 7.5: 8.0 is the least"),
    ],
)
def test_no_device_that_will_do(cupy: Any, said: dict[str, Any], why: str) -> None:
    cupy(**said)
    with pytest.raises(DeviceError, match=why):
        devices.choose_in_process("cuda")
    assert devices.choose_in_process("auto").name == "cpu"


def test_a_device_that_will_do(cupy: Any) -> None:
    cupy(total=1 << 30)
    assert devices.choose_in_process("auto") == devices.Device("cuda", 1 << 30)
    assert ThisProcess(wanted="auto").device.name == "cuda"


@pytest.mark.parametrize(
    ("status", "kind"), [(46, DeviceBusyError), (2, DeviceBusyError), (999, DeviceError)]
)
def test_a_device_that_does_not_open(cupy: Any, status: int, kind: type[Exception]) -> None:
    cupy(opens=status)
    with pytest.raises(kind) as caught:
        cuda_modules.open_device()
    assert type(caught.value) is kind
    assert caught.value.exit_code == (75 if kind is DeviceBusyError else 2)


def test_memory_of_a_device(cupy: Any) -> None:
    cupy(free=80, total=100)
    cuda_modules.require_memory(85, "this")
    with pytest.raises(DeviceBusyError, match="needs 86 bytes of device memory, and 85 of 100"):
        cuda_modules.require_memory(86, "this")
    with pytest.raises(MemoryBudgetError, match=r"needs 101 bytes of device memory, .* has 100"):
        cuda_modules.require_memory(101, "this")


def test_a_graph_too_large_for_the_device(cupy: Any, graph: og.Graph) -> None:
    needed = cuda_memory.cuda_bytes(graph, "bfs")
    cupy(total=needed, free=needed)
    assert plan_for(graph, "bfs", ThisProcess(wanted="auto").resources()).device == "cuda"
    cupy(total=1000, free=1000)
    with pytest.raises(MemoryBudgetError, match="bytes of device memory, and"):
        chosen(graph, "bfs", ThisProcess(wanted="cuda").resources())
    found = plan_for(graph, "bfs", ThisProcess(wanted="auto").resources())
    assert (found.device, found.reserved.exchange) == ("cpu", "one")
    assert "device memory" in found.why


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs have ids of 64 bits."""
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_ids_of_64_bits_go_to_ranks(cupy: Any, weighted: og.Graph, kernel: str) -> None:
    """In one process by the local exchange, on a cluster by the scheduler's."""
    needed = rank_memory.ranks_bytes(weighted, kernel, range(weighted.shards))
    cupy(total=needed, free=needed)
    for wanted in ("cuda", "auto"):
        reserved = chosen(weighted, kernel, ThisProcess(wanted=wanted).resources())
        assert (reserved.strategy, reserved.exchange) == ("cuda/memory, ranks", "local")
    with pytest.raises(UsageError, match="this one is by ranks, exchange local"):
        getattr(og, kernel)(weighted, 1, arrays="cupy")
    cupy(total=needed - 1, free=needed - 1)
    with pytest.raises(MemoryBudgetError, match=f"needs {needed:,} bytes of device memory"):
        chosen(weighted, kernel, ThisProcess(wanted="cuda").resources())
    found = plan_for(weighted, kernel, ThisProcess(wanted="auto").resources())
    assert (found.device, found.reserved.exchange) == ("cpu", "one")
    assert f"needs {needed:,} bytes of device memory" in found.why


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_ranks_of_workers_need_less(weighted: og.Graph, kernel: str) -> None:
    def on(workers: int, memory_bytes: int) -> Reservation:
        found = this_process.planned(1 << 40, "cuda", CudaLimits(memory_bytes))
        resources = replace(found, processes=workers, has_ranks=True, has_client=True)
        return chosen(weighted, kernel, resources)

    needed = [rank_memory.ranks_bytes(weighted, kernel, range(n)) for n in (1, 4)]
    assert weighted.shards == 4
    assert needed[0] < needed[1]
    for reserved in (on(4, needed[0]), on(1, needed[1])):
        assert (reserved.strategy, reserved.exchange) == ("cuda/memory, ranks", "scheduler")
    with pytest.raises(MemoryBudgetError, match=f"needs {needed[1]:,} bytes of device memory"):
        on(1, needed[1] - 1)


def test_device_memory_of_ranks_by_the_width_of_ids(
    weighted: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `docs/decisions/0012` and `0086` say a vertex takes."""
    narrow = {k: rank_memory.ranks_bytes(weighted, k, []) for k in ("bfs", "sssp")}
    monkeypatch.setattr(names, "WIDE_VERTICES", 0)
    wide = {k: rank_memory.ranks_bytes(weighted, k, []) for k in ("bfs", "sssp")}
    fixed = CUDA_FIXED_BYTES
    assert {k: (n - fixed) / weighted.rows for k, n in narrow.items()} == {"bfs": 1, "sssp": 17}
    assert {k: (n - fixed) / weighted.rows for k, n in wide.items()} == {"bfs": 1, "sssp": 25}


@pytest.mark.parametrize(("kernel", "step"), [("bfs", 30), ("sssp", 24)])
def test_ranks_that_are_kept_need_their_steps(weighted: og.Graph, kernel: str, step: int) -> None:
    none, two = (rank_memory.ranks_bytes(weighted, kernel, [], kept) for kept in ([], [0, 1]))
    assert two - none == step * sum(Dealing(weighted.rows, 4, shard).rows for shard in (0, 1))
    anew = rank_memory.ranks_bytes(weighted, kernel, [0, 1])
    assert anew > two + weighted.resident_bytes("hub" if kernel == "bfs" else "light", [0, 1])


@pytest.mark.parametrize(
    ("kernel", "method", "why"),
    [("components", "rows", "components are found on the CPU"), ("bfs", "edges", "method 'edges'")],
)
def test_what_no_cuda_device_does(
    cupy: Any, graph: og.Graph, kernel: str, method: str, why: str
) -> None:
    cupy(total=1 << 40, free=1 << 40)
    with pytest.raises(UsageError, match=why):
        chosen(graph, kernel, ThisProcess(wanted="cuda").resources(), method=method)
    found = plan_for(graph, kernel, ThisProcess(wanted="auto").resources(), method=method)
    assert (found.device, found.reserved.exchange, found.why) == ("cpu", "one", "")


def test_auto_says_that_it_took_the_cpu(cupy: Any, graph: og.Graph) -> None:
    cupy(total=1 << 40, free=1 << 40, opens=46)
    said = Said()
    found = og.bfs(graph, 1, progress=said)
    assert found.level.tolist() == [0, 1, 2, 3]
    assert len(said.notes) == 1
    assert said.notes[0].startswith("bfs on the CPU: ")
    og.bfs(graph, 1, progress=said, device="cpu")
    assert len(said.notes) == 1


def test_who_has_no_cupy_is_told_if_a_device_is_asked_for(
    no_cupy: None, graph: og.Graph, tmp_path: Path
) -> None:
    said = Said()
    og.bfs(graph, 1, progress=said)
    og.build((np.array([1]), np.array([2])), tmp_path / "g.zarr", progress=said)
    assert said.notes == []
    og.bfs(graph, 1, progress=said, device_memory="1GiB")
    assert said.notes == ["bfs on the CPU: a CUDA device needs CuPy, which is not installed"]
    with pytest.raises(DeviceError, match="a CUDA device needs CuPy"):
        og.bfs(graph, 1, device="cuda")


@pytest.mark.parametrize("kind", [MemoryBudgetError, DeviceBusyError, DeviceError])
def test_a_device_that_is_full_when_it_is_used(
    cupy: Any, graph: og.Graph, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """Only ``auto`` goes on, on the CPU, and says why."""
    cupy(total=1 << 30, free=1 << 30)
    plain = Algorithm.carry_out

    def full(self: Any, graph: Any, task: Any, place: Any) -> Any:
        if task.strategy.device == "cuda":
            raise kind("too full")
        return plain(self, graph, task, place)

    monkeypatch.setattr(Algorithm, "carry_out", full)
    said = Said()
    assert og.bfs(graph, 1, progress=said).level.tolist() == [0, 1, 2, 3]
    *before, last = said.notes
    assert last == "bfs on the CPU: too full"
    # What takes less of the device is tried first.
    assert bool(before) == (kind is MemoryBudgetError)
    assert all("memory was refused: " in note for note in before)
    with pytest.raises(kind, match="too full"):
        og.bfs(graph, 1, device="cuda")


def test_host_memory_that_a_device_search_is_refused(
    cupy: Any, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy(total=1 << 30, free=1 << 30)
    plain = Algorithm.carry_out

    def full(self: Any, graph: Any, task: Any, place: Any) -> Any:
        if task.strategy.device == "cuda":
            raise MemoryError
        return plain(self, graph, task, place)

    monkeypatch.setattr(Algorithm, "carry_out", full)
    said = Said()
    assert og.bfs(graph, 1, progress=said).level.tolist() == [0, 1, 2, 3]
    before, last = said.notes
    assert before.startswith("host memory was refused: bfs leaves arcs in the store")
    assert last == "bfs on the CPU: host memory was refused"
    with pytest.raises(MemoryBudgetError, match="host memory was refused; use device='cpu'"):
        og.bfs(graph, 1, device="cuda")


def test_arrays_on_the_device_need_one(no_cupy: None, graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"this one is on the CPU .device='cuda' says why"):
        og.bfs(graph, 1, arrays="cupy")
    with pytest.raises(UsageError, match="choose numpy, cupy or dask"):
        og.bfs(graph, 1, arrays="torch")
    with pytest.raises(UsageError, match="leave client= and out= out"):
        og.bfs(graph, 1, arrays="cupy", out=tmp_path / "r.zarr")


class Workers:
    """Workers that say what they have."""

    def __init__(self, **found: int | str) -> None:
        self._found = found

    def ask(self, function: Any) -> dict[str, int | str]:
        return self._found


def test_workers_must_all_have_a_device() -> None:
    every: Any = Workers(a=300, b=200)
    assert devices.choose_on_workers("cuda", every.ask) == devices.Device("cuda", 200)
    some: Any = Workers(a=300, b="no driver")
    with pytest.raises(DeviceError, match="worker b: no driver"):
        devices.choose_on_workers("cuda", some.ask)
    assert devices.choose_on_workers("auto", some.ask) == devices.Device("cpu", why="no driver")
    assert devices.choose_on_workers("cpu", every.ask) == devices.Device("cpu")
    nobody: Any = Workers()
    with pytest.raises(DeviceError, match="no worker answers"):
        devices.choose_on_workers("cuda", nobody.ask)


def test_graph500_goes_on_without_a_device_that_others_hold(cupy: Any, tmp_path: Path) -> None:
    """Only with ``auto``; the build and each kernel say so."""
    from ooc_graph.graph500.job import graph500
    from ooc_graph.graph500.run import Graph500Options

    cupy(opens=46, total=1 << 40, free=1 << 40)
    options, said = Graph500Options(scale=8, searches=2, energy=False), Said()
    given: dict[str, Any] = {"client": None, "memory_limit_bytes": None, "overwrite": False}
    with pytest.raises(DeviceBusyError, match="in use by others"):
        graph500(options, tmp_path / "cuda", device="cuda", progress=said, **given)
    assert said.notes == []
    outcome = graph500(options, tmp_path / "auto", device="auto", progress=said, **given)
    assert outcome.failure is None
    report = json.loads((tmp_path / "auto" / "report.json").read_text())
    assert report["machine"]["CUDA device"] == "Fake 1"
    assert [note.split(" on the CPU: ")[0] for note in said.notes] == ["building", "bfs", "sssp"]


def test_edges_in_memory_are_not_sent_to_a_worker(cupy: Any, tmp_path: Path) -> None:
    from ooc_graph.runtime.cluster import local_cluster

    edges = np.array([1, 2, 3]), np.array([2, 3, 4])
    with local_cluster(1) as client:
        with pytest.raises(DeviceError, match="a CUDA device needs CuPy"):
            og.build(edges, tmp_path / "g.zarr", client=client, device="cuda")
        assert og.build(edges, tmp_path / "g.zarr", client=client).edges == 3


@pytest.mark.parametrize(
    ("asked", "given"), [(None, None), ("60MB", 60_000_000), ("1GB", (74 << 20) + 5)]
)
def test_a_build_takes_what_it_may_of_the_device(
    cupy: Any,
    asked: str | None,
    given: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was asked for, and never more than is free."""
    cupy(total=100 << 20, free=80 << 20)
    found = []

    class Enough(OocGraphError):
        pass

    def take(limit_bytes: int | None) -> None:
        found.append(limit_bytes)
        raise Enough

    monkeypatch.setattr(cuda_process, "pool_within", take)
    monkeypatch.setattr(cuda_process, "usable_bytes", lambda free: free - (6 << 20))
    edges = np.array([1, 2, 3]), np.array([2, 3, 4])
    with pytest.raises(Enough):
        og.build(edges, tmp_path / "g.zarr", device="cuda", device_memory=asked)
    assert found == [given]
    assert list(tmp_path.iterdir()) == []


A, B = (1, 1), (1, 2)


@pytest.mark.parametrize(
    ("free", "asked", "plain", "given"),
    [
        ([(A, 80), (A, 80)], None, True, 37),
        # The second has begun what the first one knows nothing of.
        ([(A, 80), (A, 70)], None, True, 32),
        ([(A, 80), (A, 80)], 20, True, 20),
        ([(A, 80), (A, 80)], 1024, True, 37),
        ([(A, 86), (A, 86), (B, 66), (B, 66), (B, 66)], None, True, 20),
        # Who has a device alone looks by itself what is free.
        ([(A, 80), (B, 10)], None, True, None),
        ([(A, 80), (B, 10)], 40, True, 40),
        # An allocator of its own has what seems to be in use.
        ([(A, 80), (A, 80)], None, False, None),
        ([(A, 80), (A, 80)], 1024, False, 1024),
    ],
)
def test_processes_that_share_a_device_divide_what_is_free(
    free: list[tuple[tuple[int, int], int]],
    asked: int | None,
    plain: bool,
    given: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "usable_bytes", lambda free: free - 6)
    states = [devices.DeviceState(which, bytes_, 100, plain) for which, bytes_ in free]
    assert devices.least_share(states, asked) == given
    most = 100 - min(bytes_ for _, bytes_ in free) if plain else 0
    assert devices.most_of_others(states) == most


@pytest.mark.parametrize(
    ("others", "error", "kind"),
    [
        # What fellow workers have by now does not count.
        (0, MemoryError("refused"), MemoryBudgetError),
        (60, MemoryError("refused"), DeviceBusyError),
        (None, MemoryError("refused"), DeviceBusyError),
        (60, MemoryBudgetError("more than any device has"), MemoryBudgetError),
    ],
)
def test_a_device_is_busy_if_others_had_much_of_it(
    others: int | None,
    error: Exception,
    kind: type[Exception],
    cupy: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cupy(total=100 << 30, free=30 << 30)
    monkeypatch.setattr(cuda_process, "cores", lambda: 7)
    work = DeviceWork(
        og.Kronecker(5),
        BuildOptions(),
        NoCheckpoints(Path("nowhere")),
        "",
        None,
        1 << 30,
        on_host=3,
        others_bytes=None if others is None else others << 30,
    )
    process = cuda_process.DeviceProcess(work)
    assert process.threads.budget.slots == 2
    monkeypatch.setattr(process, "_within_less", Mock(side_effect=error))
    with pytest.raises(kind, match=str(error)) as caught:
        process.run(lambda _: None)
    assert type(caught.value) is kind


def test_device_memory_is_not_for_builds_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "edges.csv").write_text("1,2\n")
    arguments = ["build", tmp_path / "edges.csv", tmp_path / "g.zarr", "--device", "cpu"]
    done = call(monkeypatch, capsys, *arguments, "--device-memory", "1GiB")
    assert (done.code, done.out) == (2, "")
    assert "--device-memory and --host-memory are for CUDA devices" in done.err
    with pytest.raises(UsageError, match="for CUDA devices"):
        og.build(tmp_path / "edges.csv", tmp_path / "g.zarr", device="cpu", device_memory=1 << 30)
    assert [path.name for path in tmp_path.iterdir()] == ["edges.csv"]


def test_a_pool_is_plain_if_it_is_cupys_and_has_no_limit(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy()
    made = cuda_modules.cuda()
    assert cuda_modules.is_plain_pool()
    monkeypatch.setattr(made.get_default_memory_pool(), "get_limit", lambda: 1)
    assert not cuda_modules.is_plain_pool()
    monkeypatch.setattr(made.get_default_memory_pool(), "get_limit", lambda: 0)
    monkeypatch.setattr(made.cuda, "get_allocator", lambda: "RMM's")
    assert not cuda_modules.is_plain_pool()


def test_what_a_checkup_says_of_a_device(cupy: Any) -> None:
    cupy(capability="90", free=3 << 30, total=4 << 30)
    assert devices.cuda_checked() == {
        "GPU": "Fake 1, compute capability 9.0",
        "GPU memory": "3.0 GiB free of 4.0 GiB",
        "CUDA of the driver": "13.0",
        "CuPy": "14",
    }
