"""Builds that were stopped go on: nothing is done twice, and the bytes are the same."""

from __future__ import annotations

import errno
import importlib
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import ooc_graph as og
import ooc_graph.layout.checkpoints as checkpoints_module
from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.edges.opening import open_source
from ooc_graph.errors import DiskFullError, InputError, MemoryBudgetError, UsageError
from ooc_graph.layout.stored import Stored
from ooc_graph.model.resources import CudaLimits
from ooc_graph.runtime import building
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.shards import input_stages, plan, renumber
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.types import EdgeBlock
from tests.dying import in_child
from tests.made_up_place import CudaHere
from tests.said import Said
from tests.unit.test_build_oracle import build_here, small_steps

EDGES, PARTS = 4000, 10
SIZES = {"run": EDGES // PARTS, "unit": EDGES // PARTS, "bucket": 300}
CHECKPOINTS = "ooc_graph.layout.checkpoints"
MOMENTS = {
    "staging": ("ooc_graph.shards.input_stages", "stage_unit", 4),
    "counting": ("ooc_graph.shards.input_stages", "count_ids", 1),
    "renumbering": ("ooc_graph.shards.build", "renumber_counted", 1),
    "the first run": ("ooc_graph.shards.build", "write_run", 1),
    "runs": ("ooc_graph.shards.build", "write_run", 5),
    "merging": ("ooc_graph.shards.merge_writer", "merge_buckets", 1),
    "writing chunks": ("ooc_graph.shards.merge_writer", "write_strips", 1),
    "metadata": ("ooc_graph.layout.commit", "write_durably", 2),
    "before the rename": ("ooc_graph.layout.commit", "rename_durably", 1),
}


def write_edges(folder: Path, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    # Lines of one length, so that parts have as many edges each.
    rows = np.column_stack([rng.integers(100, 1000, (EDGES, 2)), rng.integers(10, 99, EDGES)])
    np.savetxt(folder / "edges.txt", rows, "%d")


def opened(folder: Path) -> EdgeSource:
    return open_source(folder / "edges.txt", directed=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_edges(tmp_path)
    return tmp_path


class Counted:
    """Stands for `write_checkpoint`, counts what is made, and fails at a number of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self._lock, self._real = Lock(), checkpoints_module.write_checkpoint
        self.fail_at, self.error = -1, BaseException()
        patch.setattr(checkpoints_module, "write_checkpoint", self)

    def __call__(self, folder: Path, attempt: Path, name: Any, *given: Any) -> Any:
        with self._lock:
            if len(self.made) == self.fail_at:
                raise self.error
            self.made.append(str(name))
        return self._real(folder, attempt, name, *given)

    def of(self, stage: str) -> int:
        return sum(name.startswith(stage) for name in self.made)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def build_once(folder: Path, name: str = "g.zarr", **options: Any) -> str:
    """Build, check the store, and give its identity."""
    with small_steps(**SIZES):
        build_here(opened(folder), folder / name, **{"shards": 2, "slots": 1, **options})
    stored = Stored.open(folder / name)
    stored.verify()
    assert [*folder.glob("*.partial*"), *folder.glob("*.lock")] == []
    return stored.manifest.sha256


def recorded(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("g.zarr.partial-*/spill/done/*.json"))


def run_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("g.zarr.partial-*/spill/runs-*/*.run"))


def stop_at(counted: Counted, folder: Path, number: int, error: BaseException, **how: Any) -> None:
    counted.fail_at, counted.error = number, error
    with pytest.raises(type(error)):
        build_once(folder, **how)
    counted.fail_at = -1
    counted.made.clear()


def build_until(folder: Path, module: str, name: str, number: int) -> None:
    """Build, and kill this process at the start of the n-th call of a function."""
    holder, calls = importlib.import_module(module), 0
    original = getattr(holder, name)

    def fatal(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    pytest.MonkeyPatch().setattr(holder, name, fatal)
    with small_steps(**SIZES):
        build_here(opened(folder), folder / "g.zarr", shards=2)


def kill(folder: Path, module: str, name: str, number: int) -> None:
    """Have a child build until the n-th call of a function; or to the end, if there are fewer."""
    assert in_child(build_until, folder, module, name, number) in {0, -signal.SIGKILL}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_build_goes_on(moment: str, folder: Path, counted: Counted) -> None:
    kill(folder, *MOMENTS[moment])
    done = recorded(folder)
    # Just before the rename the records are aside: the store is as good as there.
    assert (moment in {"staging", "before the rename"}) == (len(done) < PARTS)
    identity = build_once(folder)
    assert not set(done) & set(counted.made)
    assert len(done) + len(counted.made) == 2 * PARTS
    assert identity == build_once(folder, "undisturbed.zarr")


def test_builds_killed_anywhere_go_on(folder: Path, counted: Counted) -> None:
    seed = 20261127
    chosen, right = random.Random(seed), build_once(folder, "undisturbed.zarr")
    for _ in range(4):
        # Every file that is recorded gets its name by this.
        kill(folder, CHECKPOINTS, "_write", chosen.randrange(2, 2 * PARTS + 2))
        done = recorded(folder)
        counted.made.clear()
        identity = build_once(folder)
        assert not set(done) & set(counted.made)
        assert identity == right, f"seed {seed}"
        shutil.rmtree(folder / "g.zarr")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_a_stopped_build_goes_on(error: BaseException, folder: Path, counted: Counted) -> None:
    for number in (PARTS // 2, PARTS // 2 + 3, 4):
        stop_at(counted, folder, number, error)
    build_once(folder)
    assert counted.made
    assert counted.of("staged") == 0
    assert 0 < counted.of("runs") < PARTS


def test_a_full_disk_keeps_what_is_finished(folder: Path, counted: Counted) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    counted.fail_at, counted.error = PARTS + 4, error
    with pytest.raises(DiskFullError, match=r"the same command continues with .* g\.zarr"):
        build_once(folder)
    counted.fail_at = -1
    counted.made.clear()
    build_once(folder)
    assert counted.of("staged") == 0
    assert counted.of("runs") == PARTS - 4


def test_refused_memory_keeps_what_is_finished(folder: Path, counted: Counted) -> None:
    stop_at(counted, folder, PARTS + 4, MemoryError())
    build_once(folder)
    assert (counted.of("staged"), counted.of("runs")) == (0, PARTS - 4)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_an_attempt_that_fails_as_it_begins_keeps_what_is_finished(
    error: BaseException, folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(counted, folder, PARTS + 4, KeyboardInterrupt())
    before = recorded(folder)

    def failing(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "_write", failing)
        with pytest.raises((DiskFullError, KeyboardInterrupt)):
            build_once(folder)
    assert recorded(folder) == before
    build_once(folder)
    assert counted.of("staged") == 0


def test_no_task_of_a_dead_run_writes_to_the_next(
    folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and tables, which depend on how many count, are in the folder of an attempt."""
    written: list[Path] = []
    for module, name in ((renumber, "count_ids"), (renumber, "save")):
        real = getattr(module, name)

        def noted(*given: Any, real: Any = real, **named: Any) -> Any:
            found = real(*given, **named)
            paths = found.paths if hasattr(found, "paths") else [found]
            written.extend(map(Path, paths))
            return found

        monkeypatch.setattr(module, name, noted)
        if hasattr(input_stages, name):
            monkeypatch.setattr(input_stages, name, noted)
    stop_at(counted, folder, PARTS + 4, KeyboardInterrupt())
    assert len(written) >= 3
    assert all(path.exists() for path in written)
    (partial,) = folder.glob("g.zarr.partial-*")
    key = checkpoints_module.key_of(partial)
    assert key is not None
    checkpoints_module.Checkpoints(partial, "next", key)
    assert not any(path.parent.exists() for path in written)


def test_work_of_another_kind_is_no_build(folder: Path) -> None:
    """As searches from many sources leave it, with a key that is a digest; and a run's trash."""
    spill = folder / "g.zarr.partial-0123456789ab" / "spill"
    (spill / "done").mkdir(parents=True)
    (spill / "key").write_text("0123456789" * 6 + "abcd")
    build_once(folder)


def test_trash_of_a_killed_attempt_goes(folder: Path, counted: Counted) -> None:
    stop_at(counted, folder, PARTS + 4, KeyboardInterrupt())
    (partial,) = folder.glob("g.zarr.partial-*")
    trash = partial / "spill" / "removed-before-0"
    trash.mkdir()
    stop_at(counted, folder, 2, KeyboardInterrupt())
    assert partial.exists()
    assert not trash.exists()


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_a_device_leaves_a_stopped_build_to_the_cpu(
    wanted: str, folder: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(counted, folder, PARTS + 4, KeyboardInterrupt())
    on_device: list[bool] = []

    def refusing(*_: Any) -> Any:
        on_device.append(True)
        raise UsageError("this device builds nothing")

    monkeypatch.setattr(building, "_on_device", refusing)
    place, said = CudaHere(1 << 34, CudaLimits(1 << 30)), Said()
    place.wanted = wanted
    given = place, opened(folder), folder / "g.zarr", BuildOptions(shards=2), said
    if wanted == "cuda":
        with pytest.raises(UsageError, match="builds nothing"):
            building.build_with_report(*given)
        assert on_device
        return
    with small_steps(**SIZES):
        building.build_with_report(*given)
    assert not on_device
    assert counted.of("staged") == 0
    assert "building on the CPU: a build that was stopped there goes on" in said.notes


@pytest.mark.parametrize(
    "error", [InputError("bad line"), MemoryBudgetError("too little"), RuntimeError("broken")]
)
def test_other_errors_keep_nothing(error: Exception, folder: Path, counted: Counted) -> None:
    stop_at(counted, folder, PARTS + 4, error)
    assert [path.name for path in folder.iterdir()] == ["edges.txt"]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


@pytest.mark.parametrize("damage", [_flip, _shorten, Path.unlink])
def test_damaged_runs_are_made_again(
    damage: Callable[[Path], None], folder: Path, counted: Counted
) -> None:
    stop_at(counted, folder, 2 * PARTS - 1, KeyboardInterrupt())
    damage(run_files(folder)[0])
    identity = build_once(folder)
    # The damaged one, and the one that was missing.
    assert counted.of("runs") == 2
    assert identity == build_once(folder, "undisturbed.zarr")


def _edit(folder: Path) -> dict[str, Any]:
    write_edges(folder, seed=2)
    return {}


def _choose(_: Path) -> dict[str, Any]:
    return {"shards": 4}


@pytest.mark.parametrize(("change", "what"), [(_edit, "source"), (_choose, "options")])
def test_another_build_begins_anew(
    change: Callable[[Path], dict[str, Any]],
    what: str,
    folder: Path,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop_at(counted, folder, 2 * PARTS - 1, KeyboardInterrupt())
    options, said = change(folder), list[str]()
    monkeypatch.setattr("ooc_graph.types.NoProgress.note", lambda _, text: said.append(text))
    identity = build_once(folder, **options)
    assert said == [f"what a stopped run left is not used: {what} changed"]
    assert len(counted.made) == 2 * PARTS
    assert identity == build_once(folder, "undisturbed.zarr", **options)


def test_runs_are_cut_again_if_there_is_less_memory(folder: Path, counted: Counted) -> None:
    stop_at(counted, folder, 2 * PARTS - 1, KeyboardInterrupt())
    small = plan.BuildBudget(1 << 26, 1, 1).slot_bytes(0) // 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan.BuildBudget, "slot_bytes", lambda *_: small)
        stop_at(counted, folder, 4, KeyboardInterrupt())
    # With more memory again the runs stay as they are.
    build_once(folder)
    assert counted.of(f"runs-{small}") == PARTS - 4
    assert len(counted.made) == PARTS - 4


def test_a_generator_is_known_again(tmp_path: Path, counted: Counted) -> None:
    source, out = og.Kronecker(8, weighted=False), tmp_path / "g.zarr"
    counted.fail_at, counted.error = 5, KeyboardInterrupt()
    with small_steps(run=512), pytest.raises(KeyboardInterrupt):
        build_here(source, out)
    counted.fail_at = -1
    counted.made.clear()
    with small_steps(run=512):
        build_here(source, out)
    assert len(counted.made) == 8 - 5


@dataclass(frozen=True)
class Watched(og.Kronecker):
    """Leaves a file for each part that is sorted; whoever finds a flag at one of them is killed."""

    folder: str = ""

    def read(self, unit: Unit, block_edges: int) -> Iterator[EdgeBlock]:
        if unit.stop - unit.start == EDGES:
            (Path(self.folder) / f"{unit.index}-{uuid4().hex}").touch()
            flag = Path(self.folder) / "kill"
            if unit.index == PARTS and flag.exists():
                flag.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        yield from super().read(unit, block_edges)


def test_parts_of_a_lost_worker_alone_are_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, scale = tmp_path / "seen", 12
    seen.mkdir()
    (seen / "kill").touch()
    monkeypatch.setattr(plan, "run_edges", lambda *_: EDGES)
    with local_cluster(2) as client:
        threads = max(client.nthreads().values())
        source = Watched(scale, folder=str(seen))
        built = og.build(source, tmp_path / "g.zarr", client=client)
    assert [path.name for path in seen.iterdir() if path.name == "kill"] == []
    parts = Counter(path.name.partition("-")[0] for path in seen.iterdir())
    whole = source.edges // EDGES
    assert len(parts) == whole
    # What was at work there, or was on its way to it.
    assert 1 <= parts.total() - whole <= 2 * threads
    right = og.build(og.Kronecker(scale), tmp_path / "undisturbed.zarr", client=False)
    assert built.identity == right.identity
