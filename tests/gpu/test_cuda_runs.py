"""Stores built on a CUDA device in sorted runs on the disk are those built on the CPU."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.edges import open_source
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import DiskFullError
from ooc_graph.layout import blocks
from ooc_graph.shards import cuda_runs, cuda_shard_ranges, cuda_sides, range_runs
from ooc_graph.shards.cuda_plan import DevicePlan
from ooc_graph.shards.range_runs import RangeRuns
from tests.gpu.building import MIB, assert_same, build_there
from tests.gpu.memory import assert_refused_without_memory
from tests.test_faults_build import names_in
from tests.unit.test_build_oracle import (
    UNHURRIED,
    WEIGHTS,
    ListSource,
    build_here,
    random_source,
    small_steps,
    sources,
)

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

LIMIT = 5 * MIB


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[RangeRuns]:
    """Runs of the next builds, all of which make some."""
    found: list[RangeRuns] = []

    class Noted(RangeRuns):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(self)

    monkeypatch.setattr(cuda_sides, "RangeRuns", Noted)
    monkeypatch.setattr(cuda_shard_ranges, "runs_pay", lambda *_: True)
    # Who makes runs keeps no tuples on the device: further passes would cost nothing.
    monkeypatch.setattr(DevicePlan, "keep", False)
    return found


@pytest.mark.parametrize("weight", [None, *WEIGHTS])
@pytest.mark.parametrize(("directed", "gapped"), [*itertools.product([False, True], [False, True])])
def test_arrays(
    weight: str | None,
    directed: bool,
    gapped: bool,
    tmp_path: Path,
    made: list[RangeRuns],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Duplicates, loops, weights below zero, equal weights; parts in several pieces."""
    monkeypatch.setattr(cuda_runs, "MOST_BUFFER", 1 << 12)
    monkeypatch.setattr(range_runs, "MOST_ARCS", 1000)
    monkeypatch.setattr(range_runs, "LEAST_ARCS", 1)
    for seed, shards in ((4, 1), (5, 4)):
        source = random_source(
            seed, vertices=5000, edges=60_000, weight=weight, directed=directed, gapped=gapped
        )
        with small_steps():
            here = build_here(source, tmp_path / "here.zarr", shards=shards, overwrite=True)
            there = build_there(
                source,
                tmp_path / "there.zarr",
                device_memory_bytes=LIMIT,
                shards=shards,
                overwrite=True,
            )
        assert_same(there, here)
        runs = made.pop()
        assert not made
        assert len(runs.lows["out"]) > 2
        assert runs._count > 2 * (1 + directed)
        assert there.run_bytes == runs.written_bytes == runs.read_bytes > 0
    assert names_in(tmp_path) == ["here.zarr", "there.zarr"]


@settings(UNHURRIED, max_examples=40)
@given(source=sources(), shards=st.sampled_from([1, 2, 4]))
def test_any_small_graph(source: ListSource, shards: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    with small_steps(chunk=24), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_shard_ranges, "runs_pay", lambda passes, *_: passes > 0)
        here = build_here(source, folder / "here.zarr", shards=shards)
        limit = (4 << 20) + (1 << 20)
        there = build_there(source, folder / "there.zarr", device_memory_bytes=limit, shards=shards)
        assert_same(there, here)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [8 * MIB, 64 * MIB, None])
def test_kronecker(
    weighted: bool, limit: int | None, tmp_path: Path, made: list[RangeRuns]
) -> None:
    """Edges that the device makes, in runs if they were wanted; one run and many."""
    source = Kronecker(15, weighted=weighted)
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr", shards=2)
        there = build_there(source, tmp_path / "there.zarr", device_memory_bytes=limit, shards=2)
    assert_same(there, here)
    # Without a limit a block is larger than a run may be.
    assert len(made) == (limit is not None)


@pytest.mark.parametrize("directed", [False, True])
def test_text_that_was_staged(directed: bool, tmp_path: Path) -> None:
    """By the plan's own choice: parsed once, copied, and sorted into runs."""
    found = random_source(7, vertices=3000, edges=40_000, weight="int64")
    lines = (f"{u}\t{v}\t{w}\n" for u, v, w in zip(found.u, found.v, found.w, strict=True))
    (tmp_path / "edges.tsv").write_text("".join(lines))

    def source() -> Any:
        return open_source(tmp_path / "edges.tsv", header=False, weight=2, directed=directed)

    with small_steps():
        here = build_here(source(), tmp_path / "here.zarr")
        there = build_there(source(), tmp_path / "there.zarr", device_memory_bytes=LIMIT)
    assert_same(there, here)
    assert there.run_bytes > 0
    assert next(name for name, _, _ in there.stages) == "read input"


def test_without_space_for_runs_the_edges_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random_source(2, vertices=5000, edges=60_000, weight="float32")
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        monkeypatch.setattr(
            cuda_sides.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})
        )
        there = build_there(source, tmp_path / "there.zarr", device_memory_bytes=LIMIT)
    assert_same(there, here)
    assert there.run_bytes == 0


def test_in_a_stream_of_the_callers_own(tmp_path: Path, made: list[RangeRuns]) -> None:
    source = random_source(3, vertices=5000, edges=60_000, weight="float64", directed=True)
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        with cupy.cuda.Stream(non_blocking=True):
            there = build_there(source, tmp_path / "there.zarr", device_memory_bytes=LIMIT)
    assert_same(there, here)
    assert len(made) == 1


@pytest.mark.parametrize("weight", [None, "float32", "float64"])
@pytest.mark.parametrize("limit", [6 * MIB, 12 * MIB, 40 * MIB])
@pytest.mark.parametrize("directed", [False, True])
def test_no_more_memory_is_taken_than_allowed(
    weight: str | None, limit: int, directed: bool, tmp_path: Path, made: list[RangeRuns]
) -> None:
    source = random_source(
        1, vertices=20_000, edges=300_000, weight=weight, gapped=True, directed=directed
    )
    pool = cupy.get_default_memory_pool()
    build_there(source, tmp_path / "g.zarr", device_memory_bytes=limit)
    pool.free_all_blocks()
    before = pool.get_limit()
    try:
        pool.set_limit(pool.used_bytes() + limit)
        build_there(source, tmp_path / "g.zarr", device_memory_bytes=limit, overwrite=True)
    finally:
        pool.set_limit(before)
    assert len(made) == 2


def test_too_little_memory_is_said_and_nothing_is_left(
    tmp_path: Path, made: list[RangeRuns]
) -> None:
    source = random_source(1, vertices=5000, edges=300_000, weight=None, id_range=(0, 5000))
    assert_refused_without_memory(
        lambda: build_there(source, tmp_path / "g.zarr", device_memory_bytes=32 * MIB),
        MIB // 16,
        "the build of this store does not fit the device",
    )
    assert names_in(tmp_path) == ["g.zarr"]
    assert made


@pytest.mark.parametrize("write", [1, 9])
def test_a_full_disk(
    write: int, tmp_path: Path, made: list[RangeRuns], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = random_source(5, vertices=5000, edges=60_000, weight="float32")
    real, calls = os.write, 0

    def full(descriptor: int, data: Any) -> int:
        nonlocal calls
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".run":
            calls += 1
            if calls >= write:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        with monkeypatch.context() as patch:
            patch.setattr(blocks.os, "write", full)
            with pytest.raises(DiskFullError, match=r"the disk is full; nothing of g\.zarr"):
                build_there(source, tmp_path / "g.zarr", device_memory_bytes=LIMIT)
        assert calls >= write
        assert names_in(tmp_path) == ["here.zarr"]
        assert_same(build_there(source, tmp_path / "g.zarr", device_memory_bytes=LIMIT), here)


KILLED = """
import os, signal, sys
from pathlib import Path
from ooc_graph.shards import cuda_shard_ranges, cuda_sides
from tests.gpu.building import build_there
from tests.unit.test_build_oracle import random_source
cuda_shard_ranges.runs_pay = lambda *_: True
cuda_sides.RunRows.rows = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
source = random_source(5, vertices=5000, edges=60_000, weight=None, id_range=(0, 5000))
build_there(source, Path(sys.argv[1]), device_memory_bytes=5 << 20)
"""


def test_a_killed_build_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    out = tmp_path / "g.zarr"
    done = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(tmp_path.glob("g.zarr.partial-*/spill/**/runs/*.run"))
    source = random_source(5, vertices=5000, edges=60_000, weight=None, id_range=(0, 5000))
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr")
        assert_same(build_there(source, out, device_memory_bytes=LIMIT), here)
    assert names_in(tmp_path) == ["g.zarr", "here.zarr"]


def test_a_row_as_long_as_the_budget_allows(tmp_path: Path, made: list[RangeRuns]) -> None:
    """Most arcs of a star are one row: a range of its own that no run has in one part only."""
    rng = np.random.default_rng(9)
    u = np.where(rng.random(60_000) < 0.3, 17, rng.integers(0, 5000, 60_000))
    source = replace(
        random_source(5, vertices=5000, edges=60_000, weight="float32"), u=u, id_range=(0, 5000)
    )
    with small_steps():
        here = build_here(source, tmp_path / "here.zarr", shards=2)
        there = build_there(source, tmp_path / "there.zarr", device_memory_bytes=7 * MIB, shards=2)
    assert_same(there, here)
    assert len(made) == 1
