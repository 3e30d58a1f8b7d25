"""Builds on the devices of several workers, which NumPy stands in for, as in `test_cuda_runs`."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from distributed import Client, WorkerPlugin

import ooc_graph as og
from ooc_graph import kernel_cache
from ooc_graph.edges.interface import Unit
from ooc_graph.errors import DeviceBusyError, InputError, MemoryBudgetError
from ooc_graph.layout import checkpoints as checkpoints_module
from ooc_graph.layout.checkpoints import Checkpoints, NoCheckpoints
from ooc_graph.layout.stored import Stored
from ooc_graph.model.resources import CUDA, CudaLimits
from ooc_graph.runtime import building, engine_cache
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.runtime.devices import DeviceState
from ooc_graph.runtime.workplace import OnCluster
from ooc_graph.shards import cuda_plan, cuda_process, cuda_shard_ranges, cuda_sides, cuda_worker
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_plan import usable_bytes
from ooc_graph.shards.cuda_shard_ranges import ShardRange
from ooc_graph.shards.cuda_stages import fit_on_device, number_on_device, write_rows
from ooc_graph.shards.cuda_work import DeviceWork, Numbered
from ooc_graph.shards.resumed import begun_with
from ooc_graph.types import EdgeBlock
from tests.dying import in_child
from tests.made_up_place import CudaHere
from tests.numpy_device import DEVICE_BYTES, stand_in
from tests.said import Said
from tests.unit.test_build_oracle import ListSource, build_here, random_source, small_steps
from tests.unit.test_cuda_runs import Scarce

MIB, PAUSE_S = 1 << 20, 60
SHARDS, VERTICES, EDGES = 8, 9000, 60_000
REPOSITORY = Path(__file__).resolve().parents[2]


class Devices(WorkerPlugin):
    """Each worker of a cluster has a device that NumPy stands in for."""

    name = "devices"

    def setup(self, worker: Any) -> None:
        stand_in(pytest.MonkeyPatch())


@dataclass(frozen=True)
class Watched(ListSource):
    """Leaves a file for each time that its first part is read, by whichever worker.

    If there is a flag with the number of this reading, the process is killed, or waits for another
    flag, or the reading fails.
    """

    folder: str = ""

    def identity(self) -> str:  # type: ignore[override]
        return f"watched {self.folder}"

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        if unit.index == 0:
            folder = Path(self.folder)
            (folder / f"read-{os.getpid()}-{uuid4().hex}").touch()
            number = next(number for number in count(1) if _is_first(folder / f"turn-{number}"))
            if _taken(folder / f"kill-{number}"):
                os.kill(os.getpid(), signal.SIGKILL)
            if _taken(folder / f"wait-{number}"):
                (folder / "waits").touch()
                until((folder / "go").exists)
            if _taken(folder / f"fail-{number}"):
                until((folder / "waits").exists)
                raise InputError("the input is damaged")
        yield from super().read(unit, block_edges)

    @property
    def readers(self) -> Counter[str]:
        """How often each process has read it."""
        return Counter(path.name.split("-")[1] for path in Path(self.folder).glob("read-*"))

    def readings(self) -> int:
        """How often it was read since somebody asked."""
        paths = list(Path(self.folder).glob("read-*"))
        for path in [*paths, *Path(self.folder).glob("turn-*")]:
            path.unlink()
        return len(paths)


def _is_first(turn: Path) -> bool:
    """Whether nobody has had this turn; two that read at the same time have different ones."""
    try:
        turn.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _taken(flag: Path) -> bool:
    """Whether a flag was there, for the one who finds it."""
    try:
        flag.unlink()
    except FileNotFoundError:
        return False
    return True


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    begun = monotonic()
    while not is_so():
        assert monotonic() - begun < PAUSE_S
        sleep(0.01)


def watched(folder: Path, *, gapped: bool = False, **given: Any) -> Watched:
    made = random_source(3, vertices=VERTICES, edges=EDGES, gapped=gapped, **given)
    ids = None if gapped else (0, VERTICES)
    folder.mkdir(exist_ok=True)
    columns = {name: getattr(made, name) for name in ("u", "v", "w", "directed", "listed")}
    return Watched(**columns, id_range=ids, folder=str(folder))


def build_on(
    workplace: Any, source: Any, out: Path, progress: Any = None, **options: Any
) -> BuildReport:
    """Build on what stands for devices; the limits are the workplace's."""
    made = BuildOptions(**{"shards": SHARDS, **options})
    return building._on_device(workplace, source, out, made, progress or Said())


def sha256(report: BuildReport) -> str:
    assert report.manifest is not None
    return report.manifest.sha256


def device_state() -> DeviceState:
    """Each process has a device of its own."""
    return DeviceState((os.getpid(),), DEVICE_BYTES, DEVICE_BYTES, is_plain=True)


def shared_device() -> DeviceState:
    """All processes have one device, of which others have a bit."""
    return DeviceState((1,), DEVICE_BYTES - 5, DEVICE_BYTES, is_plain=True)


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    monkeypatch.setattr(building, "device_state", device_state)


@pytest.fixture(scope="module")
def workers() -> Iterator[Client]:
    with local_cluster(2) as client:
        client.register_plugin(Devices())
        yield client


def on(client: Client, device_bytes: int | None = None) -> OnCluster:
    # One that was killed is started again, and does not answer as soon as Dask knows of it.
    client.wait_for_workers(2, timeout=PAUSE_S)
    workplace = OnCluster(client, None, CUDA, CudaLimits(device_bytes), lambda _: None)
    until(lambda: len(workplace._workers()) == 2)
    return workplace


CASES = [
    # weights, directed, gapped, device memory
    (None, False, False, None),
    ("int64", True, True, None),
    ("float32", True, False, 5 * MIB),
    ("float64", False, True, 5 * MIB),
]


@pytest.mark.parametrize(("weight", "directed", "gapped", "limit"), CASES)
def test_all_workers_build_the_store_of_the_cpu(
    weight: str | None,
    directed: bool,
    gapped: bool,
    limit: int | None,
    tmp_path: Path,
    workers: Client,
) -> None:
    source = watched(tmp_path / "seen", weight=weight, directed=directed, gapped=gapped)
    here = build_here(source, tmp_path / "here.zarr", shards=SHARDS)
    first, said = source.readers, Said()
    there = build_on(on(workers, limit), source, tmp_path / "there.zarr", said)
    assert sha256(there) == sha256(here)
    assert (there.edges, there.arcs) == (here.edges, here.arcs)
    assert len(source.readers - first) == 2
    assert [name for name, _, _ in there.stages if name != "runs"][-3:] == [
        "renumber",
        "rows",
        "commit",
    ]
    assert sum(said.stages["sorting and writing rows"].amounts) == Stored.open(
        tmp_path / "there.zarr"
    ).attributes["rows"] * (1 + directed)
    assert said.notes == []
    assert [path.name for path in tmp_path.glob("*partial*")] == []


def test_workers_divide_what_they_share(
    tmp_path: Path, workers: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any of them has taken some; and the cores of their host."""
    monkeypatch.setattr(building, "device_state", shared_device)
    given = Mock(wraps=building.build_into)
    monkeypatch.setattr(building, "build_into", given)
    source = watched(tmp_path / "seen", weight=None)
    build_on(on(workers), source, tmp_path / "g.zarr")
    wanted = {
        "device_memory_bytes": usable_bytes(DEVICE_BYTES - 5) // 2,
        "others_bytes": 5,
        "on_host": 2,
    }
    assert given.call_args.kwargs.items() >= wanted.items()


class Ordered(Said):
    """Keeps how far rows were when each note came."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[int] = []

    def note(self, text: str) -> None:
        super().note(text)
        self.done.append(len(self.stages["sorting and writing rows"].amounts))


def test_notes_are_shown_as_tasks_end(tmp_path: Path, workers: Client) -> None:
    """And the workers' disk has no space for runs."""
    source, said = watched(tmp_path / "seen", weight="float32"), Ordered()

    def let_disk_have(free: int | None) -> None:
        usage = shutil.disk_usage if free is None else lambda _: SimpleNamespace(free=free)
        vars(cuda_sides)["shutil"] = SimpleNamespace(disk_usage=usage)

    workers.run(let_disk_have, 100)
    try:
        build_on(on(workers, 5 * MIB), source, tmp_path / "g.zarr", said)
    finally:
        workers.run(let_disk_have, None)
    assert len(said.notes) > 1
    assert all("the disk has 50 left for them" in note for note in said.notes)
    assert said.done == [*range(len(said.notes))]


def test_generated_edges(tmp_path: Path, workers: Client) -> None:
    """By the CPU's generator, in the place of the device's."""
    source = og.Kronecker(12, weighted=True)
    here = build_here(source, tmp_path / "here.zarr", shards=4)
    there = build_on(on(workers), source, tmp_path / "there.zarr", shards=4)
    assert sha256(there) == sha256(here)


def test_text_is_read_once_by_all_workers(tmp_path: Path, workers: Client) -> None:
    found = random_source(7, vertices=3000, edges=20_000, weight="int64")
    lines = (f"{u}\t{v}\t{w}\n" for u, v, w in zip(found.u, found.v, found.w, strict=True))
    (tmp_path / "edges.tsv").write_text("".join(lines))
    source = og.edges.open_source(tmp_path / "edges.tsv", header=False, weight=2)
    here = build_here(source, tmp_path / "here.zarr", shards=4)
    there = build_on(on(workers), source, tmp_path / "there.zarr", shards=4)
    assert sha256(there) == sha256(here)
    assert there.stages[0][0] == "read input"


def test_a_process_keeps_tables_until_the_build_ends(tmp_path: Path, workers: Client) -> None:
    source = random_source(3, vertices=VERTICES, edges=EDGES, weight=None, id_range=(0, VERTICES))
    build_on(on(workers), source, tmp_path / "g.zarr")
    kept = workers.run(lambda: cuda_worker._kept)
    assert set(kept.values()) == {None}


@pytest.mark.parametrize("moment", ["counting", "rows", "later rows"])
def test_a_lost_workers_tasks_are_done_again(moment: str, tmp_path: Path, workers: Client) -> None:
    """The first reading counts; others are for rows, one for each task, which sorts runs."""
    source = watched(tmp_path / "seen", weight="float32", directed=False)
    out = tmp_path / "g.zarr"
    undisturbed = build_on(on(workers, 5 * MIB), source, out)
    assert undisturbed.run_bytes > 0
    readings = source.readings()
    assert readings >= 1 + 2
    number = {"counting": 1, "rows": 2, "later rows": 3}[moment]
    flag = tmp_path / "seen" / f"kill-{number}"
    flag.touch()
    again = build_on(on(workers, 5 * MIB), source, out, overwrite=True)
    assert not flag.exists()
    assert sha256(again) == sha256(undisturbed)
    assert source.readings() == readings + 1


def many_tasks(patch: pytest.MonkeyPatch) -> None:
    """Tasks and ranges of few arcs."""
    patch.setattr(cuda_shard_ranges, "MOST_ARCS", 20_000)
    for name in ("MOST_ARCS", "CHEAP_ARCS"):
        patch.setattr(cuda_plan, name, 7_000)


def build_in_turn(folder: Path, name: str = "g.zarr", progress: Any = None) -> BuildReport:
    """One process, one task after another."""
    place = CudaHere(1 << 34, CudaLimits(1 << 30))
    with small_steps():
        return build_on(place, watched(folder / "seen", weight="int64"), folder / name, progress)


def build_until(folder: Path, number: int) -> None:
    """`build_in_turn`, and kill this process once this many checkpoints are written."""
    stand_in(pytest.MonkeyPatch())
    many_tasks(pytest.MonkeyPatch())
    real, calls = checkpoints_module.write_checkpoint, 0

    def fatal(*given: Any) -> Any:
        nonlocal calls
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        calls += 1
        return real(*given)

    pytest.MonkeyPatch().setattr(checkpoints_module, "write_checkpoint", fatal)
    build_in_turn(folder)


def kill(folder: Path, number: int) -> None:
    """Have a child build until this many checkpoints are written."""
    assert in_child(build_until, folder, number) == -signal.SIGKILL


class Counted:
    """Notes which checkpoints are written."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made, self._real = list[str](), checkpoints_module.write_checkpoint
        patch.setattr(checkpoints_module, "write_checkpoint", self)

    def __call__(self, folder: Path, attempt: Path, name: Any, *given: Any) -> Any:
        self.made.append(str(name))
        return self._real(folder, attempt, name, *given)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    many_tasks(monkeypatch)
    return Counted(monkeypatch)


def recorded(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("g.zarr.partial-*/spill/done/*.json")}


def chunks_there(folder: Path) -> dict[str, int]:
    """Files that are recorded, and which they are to the file system."""
    (partial,) = folder.glob("g.zarr.partial-*")
    records = (json.loads(path.read_text()) for path in partial.glob("spill/done/*.json"))
    paths = [entry["path"] for record in records for entry in record["entries"]]
    return {path: (partial / path).stat().st_ino for path in paths}


@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_killed_build_goes_on(number: int, tmp_path: Path, counted: Counted) -> None:
    kill(tmp_path, number)
    before, said = recorded(tmp_path), Said()
    assert len(before) == number
    assert ("tables" in before) == (number > 0)
    report = build_in_turn(tmp_path, progress=said)
    assert not before & set(counted.made)
    assert ("going on" in "".join(said.notes)) == (number > 0)
    made, counted.made = counted.made, []
    whole = build_in_turn(tmp_path, "whole.zarr")
    assert sha256(report) == sha256(whole)
    assert len(counted.made) > 4
    assert (report.edges, report.read_s > 0) == (whole.edges, whole.read_s > 0)
    assert len(before) + len(made) <= len(counted.made) + 1
    assert [path.name for path in tmp_path.glob("*partial*")] == []
    Stored.open(tmp_path / "g.zarr").verify()


def test_a_worker_says_what_it_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on within less, also with what it does next."""
    (tmp_path / "spill").mkdir()
    work = DeviceWork(
        og.Kronecker(8), BuildOptions(), NoCheckpoints(tmp_path), "first", None, 1 << 30
    )
    scarce = Scarce(monkeypatch)
    scarce.refuse(range(3, 4))
    tables = number_on_device(work, None)
    (note,) = tables.notes
    assert "(allocation 3): this part of it is begun again within" in note
    process = cuda_worker._kept
    assert process is not None
    limit = usable_bytes(DEVICE_BYTES)
    assert process.limit_bytes == limit * 3 // 4
    numbered = Numbered.of(tables.checkpoint)
    assert write_rows(work, numbered, ShardRange(0, 1)).notes == []
    assert cuda_worker._kept is process
    # Another attempt has memory of its own, and what the first one kept is given back.
    assert fit_on_device(replace(work, attempt="second"), numbered).most > 0
    assert cuda_worker._kept is not process
    cuda_worker.forget_idle()
    assert cuda_worker._kept is None


def begun(folder: Path, source: Any) -> DeviceWork:
    """A build of which nothing is done yet."""
    (folder / "spill").mkdir()
    checkpoints = Checkpoints(folder, "first", "key")
    return DeviceWork(source, BuildOptions(shards=SHARDS), checkpoints, "first", None, 1 << 30)


def test_a_task_that_fails_leaves_nothing_on_the_device(tmp_path: Path) -> None:
    source = watched(tmp_path / "seen", weight=None)
    for flag in ("fail-1", "waits"):
        (tmp_path / "seen" / flag).touch()
    work = begun(tmp_path, source)
    with pytest.raises(InputError, match="damaged"):
        number_on_device(work, None)
    assert cuda_worker._kept is None
    number_on_device(work, None)
    assert cuda_worker._kept is not None
    engine_cache.release()
    assert cuda_worker._kept is None


def test_what_cannot_be_given_back_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ooc_graph")
    number_on_device(begun(tmp_path, watched(tmp_path / "seen", weight=None)), None)
    assert cuda_worker._kept is not None
    monkeypatch.setattr(cuda_process, "free_unused", Mock(side_effect=RuntimeError("a bad launch")))
    cuda_worker.forget_idle()
    assert cuda_worker._kept is None
    assert "a bad launch" in caplog.text


def test_tasks_of_an_attempt_that_is_over_end(tmp_path: Path) -> None:
    """One at its next block, and one that waits for the device without beginning."""
    source = watched(tmp_path / "seen", weight=None)
    (tmp_path / "seen" / "wait-1").touch()
    work = begun(tmp_path, source)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(number_on_device, work, None)
        until((tmp_path / "seen" / "waits").exists)
        second = threads.submit(number_on_device, work, None)
        assert isinstance(work.checkpoints, Checkpoints)
        work.checkpoints.end()
        # A task has the device.
        cuda_worker.forget_idle()
        assert cuda_worker._kept is not None
        (tmp_path / "seen" / "go").touch()
        for task in (first, second):
            with pytest.raises(FileNotFoundError, match="this attempt to build it is over"):
                task.result(PAUSE_S)
    assert cuda_worker._kept is None
    assert sum(source.readers.values()) == 1


def test_an_error_ends_the_tasks_of_other_workers(tmp_path: Path, workers: Client) -> None:
    """Before they are waited for."""
    source, out = watched(tmp_path / "seen", weight="float32"), tmp_path / "g.zarr"
    for flag in ("wait-2", "fail-3"):
        (tmp_path / "seen" / flag).touch()
    with ThreadPoolExecutor(1) as thread:
        failing = thread.submit(build_on, on(workers, 5 * MIB), source, out)
        until((tmp_path / "seen" / "waits").exists)
        until(lambda: not list(tmp_path.glob("g.zarr.partial-*/spill/attempt-*")))
        (tmp_path / "seen" / "go").touch()
        with pytest.raises(InputError, match="damaged"):
            failing.result(PAUSE_S)
    assert set(workers.run(lambda: cuda_worker._kept).values()) == {None}
    assert [path.name for path in tmp_path.glob("*partial*")] == []


@pytest.mark.parametrize(
    ("device", "source", "matters"),
    [
        (CUDA, "kernels/cuda/build/store.cu", True),
        (CUDA, "kernels/cuda/runtime/grid.cuh", True),
        (CUDA, "kernels/cuda/build/store_rows.py", True),
        (CUDA, "kernels/cuda/runtime/rows.py", True),
        (CUDA, "shards/cuda_sides.py", True),
        ("cpu", "kernels/cuda/build/store.cu", False),
    ],
)
def test_other_code_takes_up_nothing(
    device: str, source: str, matters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version() -> str:
        kernel_cache.source_hash.cache_clear()
        return begun_with(og.Kronecker(5), BuildOptions(), device)["version"]

    before, content = version(), kernel_cache._content
    changed = kernel_cache._PACKAGE / source
    assert changed.is_file()
    monkeypatch.setattr(
        kernel_cache, "_content", lambda path: content(path) + b" " * (path == changed)
    )
    assert (version() != before) == matters
    monkeypatch.undo()
    assert version() == before


@pytest.mark.parametrize("what", ["tables", "rows"])
def test_what_was_damaged_is_made_again(what: str, tmp_path: Path, counted: Counted) -> None:
    kill(tmp_path, 4)
    before = recorded(tmp_path)
    (name,) = [name for name in before if name.startswith(what)][:1]
    (record,) = tmp_path.glob(f"g.zarr.partial-*/spill/done/{name}.json")
    entry = json.loads(record.read_text())["entries"][0]
    (damaged,) = tmp_path.glob(f"g.zarr.partial-*/{entry['path']}")
    os.truncate(damaged, 100)
    report = build_in_turn(tmp_path)
    assert set(counted.made) & before == {name}
    assert sha256(report) == sha256(build_in_turn(tmp_path, "whole.zarr"))
    Stored.open(tmp_path / "g.zarr").verify()


def test_what_devices_left_the_cpu_begins_anew(
    tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(tmp_path, 4)
    said = list[str]()
    monkeypatch.setattr("ooc_graph.types.NoProgress.note", lambda _, text: said.append(text))
    source = watched(tmp_path / "seen", weight="int64")
    report = build_here(source, tmp_path / "g.zarr", shards=SHARDS)
    assert said == ["what a stopped run left is not used: device changed"]
    assert not any(name.startswith("rows-") for name in counted.made)
    assert sha256(report) == sha256(build_in_turn(tmp_path, "whole.zarr"))


@pytest.mark.parametrize(
    ("number", "error", "waits"),
    [
        (4, DeviceBusyError("others have it"), True),
        (1, DeviceBusyError("others have it"), True),
        # Nothing that a device has made is lost.
        (0, DeviceBusyError("others have it"), False),
        (4, MemoryBudgetError("it does not fit"), False),
    ],
)
def test_a_busy_device_is_waited_for_if_it_has_made_parts(
    number: int,
    error: Exception,
    waits: bool,
    tmp_path: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A device that is chosen by ``auto``; the CPU would begin anew."""
    kill(tmp_path, number)
    before, said = recorded(tmp_path), Said()
    assert len(before) == number
    place = CudaHere(1 << 34, CudaLimits(1 << 30))
    place.wanted = "auto"
    options = BuildOptions(shards=SHARDS)
    given = place, watched(tmp_path / "seen", weight="int64"), tmp_path / "g.zarr", options, said
    monkeypatch.setattr(building, "open_device", Mock(side_effect=error))
    with small_steps():
        if waits:
            with pytest.raises(DeviceBusyError, match="others have it"):
                building.build_with_report(*given)
            assert recorded(tmp_path) == before
            assert not (tmp_path / "g.zarr").exists()
            return
        building.build_with_report(*given)
    assert f"building on the CPU: {error}" in said.notes


def test_what_one_process_left_another_cluster_finishes(
    tmp_path: Path, counted: Counted, workers: Client
) -> None:
    kill(tmp_path, 3)
    before = recorded(tmp_path)
    assert len(before) == 3
    source = watched(tmp_path / "seen", weight="int64")
    report = build_on(on(workers), source, tmp_path / "g.zarr")
    assert sha256(report) == sha256(build_in_turn(tmp_path, "whole.zarr"))
    # Nothing was counted again.
    assert [name for name, _, _ in report.stages] == ["rows", "commit"]


CLIENT = """
import os, sys
from itertools import count
from pathlib import Path
from distributed import Client
from ooc_graph.runtime import building
from tests.unit import test_cuda_builds as mine

building.device_state = mine.device_state
address, folder = sys.argv[1], Path(sys.argv[2])
with Client(address) as client:
    mine.build_slowly(client, folder)
"""


def build_slowly(client: Client, folder: Path) -> BuildReport:
    """Each task reads all edges once, and sorts runs."""
    source = watched(folder / "seen", weight="float32")
    return build_on(on(client, 5 * MIB), source, folder / "g.zarr")


def test_the_same_command_goes_on_after_its_client_was_killed(
    tmp_path: Path, workers: Client
) -> None:
    """While a worker is still at a task of the dead one, which has nowhere to write to."""
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "wait-3").touch()
    words = [sys.executable, "-c", CLIENT, workers.scheduler.address, str(tmp_path)]
    with subprocess.Popen(words, cwd=REPOSITORY) as child:
        until((tmp_path / "seen" / "waits").exists)
        until(lambda: len(recorded(tmp_path)) >= 2)
        child.kill()
    before = chunks_there(tmp_path)
    (attempt,) = tmp_path.glob("g.zarr.partial-*/spill/attempt-*")
    with ThreadPoolExecutor(1) as thread:
        again = thread.submit(build_slowly, workers, tmp_path)
        until(lambda: not attempt.exists())
        (tmp_path / "seen" / "go").touch()
        report = again.result(PAUSE_S)
    assert [name for name, _, _ in report.stages] == ["runs", "rows", "commit"]
    # What was recorded is what is in the store, not its like.
    assert len(before) > 10
    assert {path: (tmp_path / "g.zarr" / path).stat().st_ino for path in before} == before
    source = watched(tmp_path / "seen", weight="float32")
    whole = build_on(on(workers, 5 * MIB), source, tmp_path / "whole.zarr")
    assert sha256(report) == sha256(whole)
    assert [path.name for path in tmp_path.glob("*partial*")] == []
