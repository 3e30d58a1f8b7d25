"""Builds on a device in sorted runs: all but the kernels, which NumPy stands in for."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.edges.interface import Unit
from ooc_graph.errors import DiskFullError, InputError
from ooc_graph.layout import blocks
from ooc_graph.shards import cuda_runs, cuda_sides, range_runs
from ooc_graph.shards.build_options import BuildReport
from ooc_graph.shards.cuda_shard_ranges import Fit
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.range_runs import RangeRuns, spill_bytes
from ooc_graph.types import NoProgress
from tests.gpu import building
from tests.numpy_device import CUPY, DeviceArray, stand_in
from tests.said import Said
from tests.test_faults_build import names_in
from tests.unit.test_build_oracle import ListSource, build_here, random_source, small_steps

MIB = 1 << 20
PAUSE_S = 60
Usage = namedtuple("Usage", "free")


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


build_there = partial(building.build_there, device_memory_bytes=5 * MIB)
"""A build on what stands for a device."""


def sha256(report: BuildReport) -> str:
    assert report.manifest is not None
    return report.manifest.sha256


def stages(report: BuildReport) -> list[str]:
    return [name for name, _, _ in report.stages]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[RangeRuns]:
    """Runs of the next builds."""
    found: list[RangeRuns] = []

    class Noted(RangeRuns):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(self)

    monkeypatch.setattr(cuda_sides, "RangeRuns", Noted)
    return found


CASES = [
    # weights, directed, gapped, shards
    (None, False, False, 1),
    (None, True, True, 4),
    ("int64", False, True, 4),
    ("int64", True, False, 1),
    ("float32", True, False, 2),
    ("float64", False, False, 2),
]


@pytest.mark.parametrize(("weight", "directed", "gapped", "shards"), CASES)
def test_the_store_has_the_bytes_of_the_cpus(
    weight: str | None,
    directed: bool,
    gapped: bool,
    shards: int,
    tmp_path: Path,
    made: list[RangeRuns],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Duplicates, loops, weights below zero, equal weights; several runs and ranges."""
    monkeypatch.setattr(cuda_runs, "MOST_BUFFER", 1 << 12)
    monkeypatch.setattr(range_runs, "MOST_ARCS", 1000)
    monkeypatch.setattr(range_runs, "LEAST_ARCS", 1)
    source = random_source(
        4 + shards, vertices=5000, edges=60_000, weight=weight, directed=directed, gapped=gapped
    )
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr", shards=shards)
        there = build_there(source, tmp_path / "there.zarr", shards=shards)
    assert sha256(there) == sha256(here)
    (runs,) = made
    assert len(runs.lows["out"]) > 2
    assert runs._count > 2 * (1 + directed)
    width = 8 + (0 if weight is None else 4 if weight == "float32" else source.w.itemsize)
    loops = int(np.count_nonzero(source.u == source.v))
    if weight == "int64" and int(np.abs(source.w).max()) < 1 << 31:
        width = 12
    assert there.run_bytes == runs.read_bytes == 2 * (len(source.u) - loops) * width
    assert [name for name in stages(there) if name not in ("degrees", "renumber")] == [
        "runs",
        "rows",
        "commit",
    ]
    assert names_in(tmp_path) == ["here.zarr", "there.zarr"]
    assert names_in(tmp_path / "here.zarr") == names_in(tmp_path / "there.zarr")


def test_with_ample_memory_there_are_no_runs(tmp_path: Path, made: list[RangeRuns]) -> None:
    source = random_source(1, vertices=500, edges=3000, weight=None)
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        there = build_there(source, tmp_path / "there.zarr", device_memory_bytes=64 * MIB)
    assert sha256(there) == sha256(here)
    assert made == []
    assert there.run_bytes == 0


def test_without_space_for_runs_the_edges_are_read_again(
    tmp_path: Path, made: list[RangeRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random_source(2, vertices=5000, edges=60_000, weight="float32")
    loops, heard = int(np.count_nonzero(source.u == source.v)), Said()
    needed = 2 * (60_000 - loops) * 12
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        for free in (needed - 1, needed):
            monkeypatch.setattr(cuda_sides.shutil, "disk_usage", lambda _, free=free: Usage(free))
            there = build_there(
                source, tmp_path / "there.zarr", progress=heard, overwrite=free == needed
            )
            assert sha256(there) == sha256(here)
            assert len(made) == (free == needed)
    (note,) = heard.notes
    assert f"sorted runs need {needed:,} bytes, and the disk has {needed - 1:,} left" in note


@pytest.mark.parametrize(("processes", "enough"), [(1, 1), (3, 3)])
def test_processes_divide_the_space_for_runs(
    processes: int, enough: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes a part of all arcs to the same disk."""
    said, part = Said(), 1 / 4
    work = SimpleNamespace(processes=processes)
    known: Any = SimpleNamespace(arcs=1 << 20), SimpleNamespace(weight_bytes=4)
    process: Any = SimpleNamespace(work=work, progress=said)
    sides, fit = cuda_sides.Sides(tmp_path, process, *known, []), Fit(1, 1, 1, 1, 1, 12, 1)
    needed = int(spill_bytes(1 << 20, 4) * part)
    for free, has_space in ((needed * enough - 1, False), (needed * enough, True)):
        monkeypatch.setattr(cuda_sides.shutil, "disk_usage", lambda _, free=free: Usage(free))
        assert sides._has_space(fit, part) == has_space
    assert len(said.notes) == 1


def test_what_was_staged_is_read_for_the_rows(tmp_path: Path, made: list[RangeRuns]) -> None:
    source = replace(
        random_source(3, vertices=5000, edges=60_000, weight="float64"), rereadable=False
    )
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        there = build_there(source, tmp_path / "there.zarr")
    assert sha256(there) == sha256(here)
    assert stages(there)[0] == "read input"
    assert len(made) == 1


@pytest.mark.parametrize("write", [1, 9])
def test_a_full_disk(write: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, calls = random_source(5, vertices=5000, edges=60_000, weight=None), 0
    real, before = os.write, threading.active_count()

    def full(descriptor: int, data: Any) -> int:
        nonlocal calls
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".run":
            calls += 1
            if calls >= write:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    with small_steps(), monkeypatch.context() as patch:
        patch.setattr(blocks.os, "write", full)
        with pytest.raises(DiskFullError, match=r"the disk is full; nothing of g\.zarr") as caught:
            build_there(source, tmp_path / "g.zarr")
    assert caught.value.exit_code == 75
    assert calls >= write
    assert names_in(tmp_path) == []
    writers = [t for t in threading.enumerate() if t.name.startswith("run-writer")]
    assert writers == [], f"{before} threads before"


class Fickle(ListSource):
    """Its second pass gives other edges: of other vertices, or more of some."""

    def read(self, unit: Unit, block_edges: int) -> Any:
        passes = self.__dict__.setdefault("passes", [])
        passes.append(unit.index)
        other = self if passes.count(unit.index) == 1 else self.__dict__["other"]
        return ListSource.read(other, unit, block_edges)


@pytest.mark.parametrize("kind", ["strange", "more"])
def test_edges_that_change_between_the_passes(
    kind: str, tmp_path: Path, made: list[RangeRuns]
) -> None:
    u = np.tile(np.arange(0, 20_000, 2), 6)
    v, at = np.roll(u, 1), np.arange(len(u))
    source = Fickle(u, v, id_range=(0, 20_001))
    changed = u + 1 if kind == "strange" else np.where(at > 40_000, 0, v)
    source.__dict__["other"] = ListSource(u, changed, id_range=(0, 20_001))
    with small_steps(), pytest.raises(InputError, match="second pass"):
        build_there(source, tmp_path / "g.zarr")
    assert len(made) == 1
    assert names_in(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import pytest
from ooc_graph.shards import cuda_sides
from tests.numpy_device import stand_in
from tests.unit.test_build_oracle import random_source
from tests.unit.test_cuda_runs import build_there
stand_in(pytest.MonkeyPatch())
cuda_sides.RunRows.rows = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
build_there(random_source(5, vertices=5000, edges=60_000, weight=None, id_range=(0, 5000)),
            Path(sys.argv[1]))
"""


def test_a_killed_build_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    out = tmp_path / "g.zarr"
    done = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(tmp_path.glob("g.zarr.partial-*/spill/**/runs/*.run"))
    with small_steps():
        build_there(random_source(5, vertices=5000, edges=60_000, weight=None), out)
    assert names_in(tmp_path) == ["g.zarr"]


def test_the_next_run_is_made_while_one_is_written(tmp_path: Path) -> None:
    """It is asked for before the first is written, and not handed over before that is done."""
    may_write, asked = threading.Event(), threading.Event()
    events: list[str] = []

    class Slow(DeviceArray):
        def get(self, out: Any = None) -> Any:
            assert may_write.wait(PAUSE_S)
            events.append("written")
            return super().get(out)

    def runs() -> Iterator[tuple[int, dict[str, list[Any]]]]:
        keys = np.arange(10, dtype=np.uint64) << np.uint64(32)
        yield 5, {"out": [keys.view(Slow), None]}
        events.append("made")
        asked.set()
        yield 5, {"out": [keys.view(DeviceArray), None]}
        events.append("handed over")

    kept = RangeRuns(tmp_path, {"out": [0]}, None)
    writer = cuda_runs.RunWriter(kept, BuildBudget(1 << 30, 1, 2))
    done = threading.Thread(target=cuda_runs.write_runs, args=(runs(), writer, NoProgress()))
    done.start()
    assert asked.wait(PAUSE_S)
    may_write.set()
    done.join(PAUSE_S)
    writer.close()
    assert events == ["made", "written", "handed over"]
    assert kept.arcs("out", 0) == 20


def test_a_device_too_small_for_runs_makes_passes(
    tmp_path: Path, made: list[RangeRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is said of the disk then."""
    monkeypatch.setattr(cuda_sides.shutil, "disk_usage", lambda _: Usage(0))
    source, heard = random_source(2, vertices=5000, edges=60_000, weight="float64"), Said()
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        limit = 4 * MIB + 820_000
        there = build_there(
            source, tmp_path / "there.zarr", device_memory_bytes=limit, progress=heard
        )
    assert sha256(there) == sha256(here)
    assert made == []
    assert heard.notes == []


class Scarce:
    """Counts what is allocated, and refuses some of it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made, self.refused = 0, range(0)
        for name in ("empty", "zeros", "full", "cumsum", "argsort", "asarray"):
            patch.setattr(CUPY, name, partial(self._make, getattr(CUPY, name)))

    def _make(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.made += 1
        if self.made in self.refused:
            raise MemoryError(f"allocation {self.made}")
        return real(*arguments, **named)

    def refuse(self, which: range) -> None:
        self.made, self.refused = 0, which


@pytest.mark.parametrize(("limit", "gapped"), [(64 * MIB, False), (6 * MIB, True)])
def test_a_build_that_is_refused_memory_begins_again_within_less(
    limit: int, gapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = None if gapped else (0, 5000)
    source = random_source(5, vertices=5000, edges=60_000, weight="float32", id_range=ids)
    scarce, out = Scarce(monkeypatch), tmp_path / "there.zarr"
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        scarce.refuse(range(0))
        assert (build_there(source, out, device_memory_bytes=limit).run_bytes > 0) == gapped
        count = scarce.made
        for refused in {*range(1, count, max(1, count // 20)), count}:
            scarce.refuse(range(refused, refused + 1))
            heard = Said()
            there = build_there(
                source, out, device_memory_bytes=limit, progress=heard, overwrite=True
            )
            assert sha256(there) == sha256(here)
            (note,) = heard.notes
            assert (
                f"(allocation {refused}): this part of it is begun again within {limit * 3 // 4:,}"
                in note
            )
            assert names_in(out) == names_in(tmp_path / "here.zarr")
            assert names_in(tmp_path) == ["here.zarr", "there.zarr"]
    assert count > 20


@pytest.mark.parametrize("begin", [1, 15])
def test_a_build_that_is_refused_the_least_says_what_was_refused(
    begin: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, heard = random_source(5, vertices=5000, edges=60_000, weight=None), Said()
    Scarce(monkeypatch).refuse(range(begin, 1 << 30))
    with small_steps(), pytest.raises(MemoryError, match="allocation"):
        build_there(source, tmp_path / "g.zarr", device_memory_bytes=64 * MIB, progress=heard)
    assert len(heard.notes) == 10  # 64 MiB to 3.6, below the least of 4.1
    assert names_in(tmp_path) == []


def test_less_of_the_device_does_not_help_where_the_host_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, heard = random_source(5, vertices=5000, edges=60_000, weight=None), Said()
    monkeypatch.setattr(CUPY, "cumsum", lambda *_, **__: np.empty(1 << 62, np.uint8))
    with small_steps(), pytest.raises(MemoryError, match="Unable to allocate"):
        build_there(source, tmp_path / "g.zarr", device_memory_bytes=64 * MIB, progress=heard)
    assert heard.notes == []
    assert names_in(tmp_path) == []


def test_what_was_staged_is_read_again_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first allocation, and of the last one, when rows are made."""
    source = random_source(3, vertices=5000, edges=60_000, weight="float64")
    scarce, out = Scarce(monkeypatch), tmp_path / "g.zarr"
    with small_steps():
        here = sha256(build_here(source, tmp_path / "here.zarr"))
        source = replace(source, rereadable=False)
        scarce.refuse(range(0))
        assert build_there(source, out, device_memory_bytes=6 * MIB).run_bytes > 0
        for refused in (1, scarce.made):
            scarce.refuse(range(refused, refused + 1))
            heard = Said()
            there = build_there(
                source, out, device_memory_bytes=6 * MIB, progress=heard, overwrite=True
            )
            assert sha256(there) == here
            assert len(heard.notes) == 1
    assert names_in(tmp_path) == ["g.zarr", "here.zarr"]
