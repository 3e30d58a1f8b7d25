"""Stores built on a CUDA device are those built on the CPU, file by file."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph.layout.chunks as chunks_module
from ooc_graph.edges import open_source
from ooc_graph.edges.arrays import ArraySource
from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import (
    DiskFullError,
    InputError,
    MemoryBudgetError,
    OutputExistsError,
    UsageError,
)
from ooc_graph.kernels import cuda_pool
from ooc_graph.kernels.cuda_pool import WholePieces
from ooc_graph.layout.manifest import Manifest
from ooc_graph.shards import cuda_build, cuda_sides, cuda_tables, renumber
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_build import build_on_device
from ooc_graph.shards.cuda_plan import DevicePlan
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import NoProgress
from tests.gpu.memory import Refusing, assert_refused_without_memory
from tests.said import Said
from tests.shared_data import need_shared
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
from tests.unit.test_readers_shared import OPTIONS, REFUSED, graphs

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

MIB = 1 << 20
GRAPHS = [graph for graph in graphs() if graph["file"] not in REFUSED] or [None]


def build_there(
    source: EdgeSource,
    out: Path,
    *,
    device_memory_bytes: int | None = None,
    progress: NoProgress | None = None,
    **options: Any,
) -> BuildReport:
    """Build on the device, with threads of this process."""
    with ThreadPoolExecutor(3) as executor:
        return build_on_device(
            source,
            out,
            options=BuildOptions(**options),
            workforce=Workforce(executor, BuildBudget(1 << 30, 1, 3), lambda function: function()),
            progress=progress or NoProgress(),
            device_memory_bytes=device_memory_bytes,
        )


def manifest(report: BuildReport) -> Manifest:
    assert report.manifest is not None
    return report.manifest


def assert_same(report: BuildReport, expected: BuildReport) -> None:
    mine, theirs = manifest(report), manifest(expected)
    differ = {
        path
        for path in {*mine.files, *theirs.files}
        if mine.files.get(path) != theirs.files.get(path)
    }
    assert not differ
    assert mine.sha256 == theirs.sha256
    assert (report.edges, report.arcs) == (expected.edges, expected.arcs)


@cache
def built_here(weighted: bool, shards: int) -> BuildReport:
    with tempfile.TemporaryDirectory() as folder, small_steps():
        return build_here(Kronecker(14, weighted=weighted), Path(folder) / "g.zarr", shards=shards)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Ranges of rows that the next build makes."""
    found: list[tuple[int, int, int]] = []
    real = cuda_sides.ranges_of

    def noted(*arguments: Any) -> list[tuple[int, int, int]]:
        found[:] = real(*arguments)
        return found

    monkeypatch.setattr(cuda_sides, "ranges_of", noted)
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shards", [1, 2, 8])
@pytest.mark.parametrize(("limit", "rounds"), [(None, 1), (16 * MIB, 3), (6 * MIB, 9)])
def test_kronecker(
    weighted: bool,
    shards: int,
    limit: int | None,
    rounds: int,
    tmp_path: Path,
    ranges: list[tuple[int, int, int]],
) -> None:
    source = Kronecker(14, weighted=weighted)
    report = build_there(source, tmp_path / "g.zarr", device_memory_bytes=limit, shards=shards)
    assert_same(report, built_here(weighted, shards))
    assert len(ranges) == 1 if limit is None else len(ranges) >= rounds
    assert Manifest.load(tmp_path / "g.zarr").sha256 == manifest(report).sha256
    assert names_in(tmp_path) == ["g.zarr"]
    assert [name for name, _, _ in report.stages] == ["degrees", "renumber", "rows", "commit"]
    assert 0 < report.read_s < report.elapsed_s


def test_number_of_shards_follows_from_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cuda_build, sys.modules["ooc_graph.shards.build"]):
        monkeypatch.setattr(module, "shards_for", lambda arcs: 1 << (arcs >> 14).bit_length())
    source = Kronecker(12)
    here = build_here(source, tmp_path / "here.zarr")
    assert_same(build_there(source, tmp_path / "there.zarr"), here)


@pytest.mark.parametrize("weight", [None, *WEIGHTS])
@pytest.mark.parametrize(
    ("directed", "gapped", "limit"),
    [*itertools.product([False, True], [False, True], [None, 5 * MIB])],
)
def test_arrays(
    weight: str | None,
    directed: bool,
    gapped: bool,
    limit: int | None,
    tmp_path: Path,
    ranges: list[tuple[int, int, int]],
) -> None:
    """Duplicates, loops, weights below zero, equal weights; ids from 0 on or with gaps."""
    for seed, shards in ((4, 1), (5, 4)):
        source = random_source(
            seed, vertices=5000, edges=60_000, weight=weight, directed=directed, gapped=gapped
        )
        with small_steps():
            here = build_here(source, tmp_path / "here.zarr", shards=shards, overwrite=True)
            there = build_there(
                source,
                tmp_path / "there.zarr",
                device_memory_bytes=limit,
                shards=shards,
                overwrite=True,
            )
        assert_same(there, here)
        assert len(ranges) == 1 if limit is None else len(ranges) > shards


@settings(UNHURRIED, max_examples=60)
@given(
    source=sources(),
    chunk=st.sampled_from([8, 24, 1 << 20]),
    rows=st.sampled_from([None, "hub", "light", "both"]),
    shards=st.sampled_from([1, 2, 4]),
    limit=st.sampled_from([None, (4 << 20) + (1 << 17)]),
)
def test_any_small_graph(
    source: ListSource, chunk: int, rows: str | None, shards: int, limit: int | None
) -> None:
    if not source.weighted and rows in {"light", "both"}:
        rows = None
    with tempfile.TemporaryDirectory() as name, small_steps(chunk=chunk):
        folder = Path(name)
        here = build_here(source, folder / "here.zarr", rows=rows, shards=shards)
        there = build_there(
            source, folder / "there.zarr", device_memory_bytes=limit, rows=rows, shards=shards
        )
        assert_same(there, here)


@pytest.mark.parametrize("weight", [None, "int64", "float32"])
def test_columns_of_fewer_bits(weight: str | None, tmp_path: Path) -> None:
    source = random_source(3, vertices=5000, edges=60_000, weight=weight)
    mine = build_there(source, tmp_path / "there.zarr", shards=2, compress=True)
    assert_same(mine, build_here(source, tmp_path / "here.zarr", shards=2, compress=True))


def test_wide_internal_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from 2**31 rows on."""
    for module in (renumber, cuda_tables):
        monkeypatch.setattr(module, "internal_dtype", lambda _: np.dtype(np.int64))
    source = random_source(3, vertices=5000, edges=9000, weight=None, id_range=(0, 6000))
    here = build_here(source, tmp_path / "here.zarr")
    assert_same(build_there(source, tmp_path / "there.zarr"), here)


@pytest.mark.parametrize("id_range", [None, (7, 3), (0, 0)])
def test_nothing_but_self_loops(id_range: tuple[int, int] | None, tmp_path: Path) -> None:
    loops = np.array([7, 9, 9] if id_range != (0, 0) else [], np.int64)
    source = ListSource(loops, loops, id_range=id_range)
    here = build_here(source, tmp_path / "here.zarr", shards=2)
    assert_same(build_there(source, tmp_path / "there.zarr", shards=2), here)


def test_one_edge_many_times(tmp_path: Path) -> None:
    ends, weight = np.zeros(300_000, np.int64), np.arange(300_000, 0, -1)
    source = ListSource(ends, ends + 1, weight)
    here = build_here(source, tmp_path / "here.zarr")
    assert_same(build_there(source, tmp_path / "there.zarr"), here)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph["name"] if graph else "none")
def test_reference_graphs(graph: dict[str, Any] | None, tmp_path: Path) -> None:
    if graph is None:
        pytest.skip("reference data not there: set OOC_GRAPH_SHARED")
    path, options = need_shared("data/" + graph["file"]), OPTIONS.get(graph["file"], {})
    here = build_here(open_source(path, **options), tmp_path / "here.zarr")
    there = build_there(open_source(path, **options), tmp_path / "there.zarr")
    assert_same(there, here)


def test_bad_input_and_options_are_refused_as_by_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("1\t2\n3\tx\n")
    none, one = np.empty(0, np.int64), np.ones(1, np.int64)
    listed = ListSource(one, one * 5, listed=one)
    cases: list[tuple[EdgeSource, dict[str, Any]]] = [
        (open_source(tmp_path / "bad.tsv", header=False), {}),
        (ListSource(none, none), {}),
        (listed, {}),
        (ListSource(one, one * 2), {"rows": "light"}),
        (ListSource(one, one * 2), {"rows": "heavy"}),
    ]
    for source, options in cases:
        said = []
        for build in (build_here, build_there):
            with pytest.raises((InputError, UsageError)) as caught:
                build(source, tmp_path / "g.zarr", **options)
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]
        assert names_in(tmp_path) == ["bad.tsv"]


def test_an_existing_store_is_replaced_only_when_asked(tmp_path: Path) -> None:
    source, out = Kronecker(8), tmp_path / "g.zarr"
    build_here(Kronecker(7), out)
    with pytest.raises(OutputExistsError):
        build_there(source, out)
    report = build_there(source, out, overwrite=True)
    assert Manifest.load(out).sha256 == manifest(report).sha256


def test_ids_outside_the_declared_range(tmp_path: Path) -> None:
    ends = np.array([1, 5])
    source = ArraySource(ends, ends[::-1], None, False, None, id_range=(0, 5))
    with pytest.raises(InputError, match="2 edges have an end that is no vertex"):
        build_there(source, tmp_path / "g.zarr")
    assert names_in(tmp_path) == []


class Fickle(ListSource):
    """Its later passes give other edges."""

    def read(self, unit: Unit, block_edges: int) -> Any:
        passes = self.__dict__.setdefault("passes", [])
        passes.append(unit.index)
        other = self if passes.count(unit.index) == 1 else replace(self, v=self.u + 1)
        return ListSource.read(other, unit, block_edges)


@pytest.mark.parametrize("gapped", [False, True])
def test_edges_that_change_between_the_passes(gapped: bool, tmp_path: Path) -> None:
    ends = np.arange(0, 40_000, 2)
    ids = None if gapped else (0, 40_001)
    source = Fickle(ends, np.roll(ends, 1), id_range=ids)
    with pytest.raises(InputError, match="second pass"):
        build_there(source, tmp_path / "g.zarr", device_memory_bytes=6 * MIB)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("limit", [0, MIB, 4 * MIB])
def test_a_budget_that_cannot_do_names_both_figures(limit: int, tmp_path: Path) -> None:
    words = rf"at least [\d,]+ bytes of its memory for its vertices; {limit:,} are there"
    with pytest.raises(MemoryBudgetError, match=words):
        build_there(Kronecker(14), tmp_path / "g.zarr", device_memory_bytes=limit)
    hub = ListSource(np.zeros(200_000, np.int64), np.arange(200_000) % 1000, id_range=(0, 1000))
    with pytest.raises(MemoryBudgetError, match="for its longest row; 6,291,456 are there"):
        build_there(hub, tmp_path / "g.zarr", device_memory_bytes=6 * MIB)
    assert names_in(tmp_path) == []


def test_too_many_vertices_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"4,294,967,296 vertices: a device builds.*on the CPU"):
        build_there(Kronecker(32), tmp_path / "g.zarr")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("weight", [None, "float32", "float64"])
@pytest.mark.parametrize("limit", [6 * MIB, 12 * MIB, 40 * MIB])
def test_no_more_memory_is_taken_than_allowed(
    weight: str | None, limit: int, tmp_path: Path
) -> None:
    sources: list[EdgeSource] = [
        random_source(1, vertices=20_000, edges=300_000, weight=weight, gapped=True),
        Kronecker(15, weighted=weight is not None),
    ]
    pool = cupy.get_default_memory_pool()
    for source in sources:
        build_there(source, tmp_path / "g.zarr", device_memory_bytes=limit, overwrite=True)
        pool.free_all_blocks()
        before = pool.get_limit()
        try:
            pool.set_limit(pool.used_bytes() + limit)
            build_there(source, tmp_path / "g.zarr", device_memory_bytes=limit, overwrite=True)
        finally:
            pool.set_limit(before)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[WholePieces]:
    """What limited builds take their memory from."""
    made: list[WholePieces] = []

    class Noted(WholePieces):
        def __init__(self, limit_bytes: int) -> None:
            super().__init__(limit_bytes)
            made.append(self)

    monkeypatch.setattr(cuda_pool, "WholePieces", Noted)
    return made


@pytest.mark.parametrize("runs", [False, True])
def test_the_device_gives_no_more_than_the_limit(
    runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pools: list[WholePieces]
) -> None:
    """Counted with what is kept of what was freed."""
    monkeypatch.setattr(cuda_sides, "runs_pay", lambda *_: runs)
    monkeypatch.setattr(DevicePlan, "keep", False)
    source = random_source(1, vertices=20_000, edges=600_000, weight="float64", gapped=True)
    shared = cupy.get_default_memory_pool()
    shared.free_all_blocks()
    before, heard = shared.total_bytes(), Said()
    out = tmp_path / "g.zarr"
    report = build_there(source, out, device_memory_bytes=8 * MIB, progress=heard)
    assert (report.run_bytes > 0) == runs
    (pool,) = pools
    assert 2 * MIB < pool.most_bytes <= 8 * MIB
    assert pool.held_bytes <= 8 * MIB
    assert shared.total_bytes() == before
    assert heard.notes == []
    # With it goes what it kept.
    gone = weakref.ref(pool)
    pools.clear()
    del pool
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("of_files", [False, True])
def test_whatever_a_plan_allows_is_given(
    weighted: bool, of_files: bool, tmp_path: Path, pools: list[WholePieces]
) -> None:
    """At every limit: memory that was cut to pieces is no reason to refuse some."""
    source: EdgeSource = Kronecker(16, weighted=weighted)
    if of_files:
        weight = "float32" if weighted else None
        source = random_source(1, vertices=50_000, edges=600_000, weight=weight)
    expected, most = None, set()
    for eighths in range(8 * 12, 8 * 80, 37):
        heard = Said()
        report = build_there(
            source,
            tmp_path / "g.zarr",
            device_memory_bytes=eighths * MIB // 8,
            overwrite=True,
            progress=heard,
        )
        assert heard.notes == [], f"{eighths} eighths of a MiB"
        expected = expected or report
        assert_same(report, expected)
        most.add(pools.pop().most_bytes * 8 // MIB)
    assert len(most) > 5


class Watch:
    """Context that sees the least of the device's memory that is free."""

    def __enter__(self) -> Watch:
        self._over, self._thread = threading.Event(), threading.Thread(target=self._look)
        self.begun = self.least = cupy.cuda.runtime.memGetInfo()[0]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.001):
            self.least = min(self.least, cupy.cuda.runtime.memGetInfo()[0])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_device_itself_gives_no_more_than_the_limit(weighted: bool, tmp_path: Path) -> None:
    """Others may use it beside this test: then one of some builds is seen alone."""
    source, out, limit = Kronecker(20, weighted=weighted), tmp_path / "g.zarr", 512 * MIB
    heard, taken = Said(), []
    build_there(source, out, device_memory_bytes=limit)
    for _ in range(20):
        cupy.get_default_memory_pool().free_all_blocks()
        with Watch() as watch:
            build_there(source, out, device_memory_bytes=limit, overwrite=True, progress=heard)
        taken.append(watch.begun - watch.least)
        if limit // 2 < taken[-1] <= limit:
            break
    assert limit // 2 < taken[-1] <= limit, taken
    assert heard.notes == []


def test_memory_that_is_refused_once_has_a_build_begin_again(tmp_path: Path) -> None:
    """Each allocation in turn."""
    source, out = Kronecker(10, weighted=True), tmp_path / "g.zarr"
    expected, pool = build_there(source, out), cupy.get_default_memory_pool()
    gc.collect()
    before, allocator = pool.used_bytes(), Refusing(pool)
    with cupy.cuda.using_allocator(allocator):
        build_there(source, out, overwrite=True)
        count = allocator.made
        assert count > 20
        for refused in range(1, count + 1):
            allocator.made, allocator.refused, heard = 0, refused, Said()
            assert_same(build_there(source, out, overwrite=True, progress=heard), expected)
            (note,) = heard.notes
            assert "the device refused memory while the store was built" in note
            if pool.used_bytes() != before:
                gc.collect()
            assert pool.used_bytes() == before
    assert names_in(tmp_path) == ["g.zarr"]


def test_too_little_memory_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    assert_refused_without_memory(
        lambda: build_there(Kronecker(14), tmp_path / "g.zarr"),
        MIB // 4,
        "the build of this store does not fit the device",
    )
    assert names_in(tmp_path) == ["g.zarr"]


@pytest.mark.parametrize("write", [1, 5, 12])
def test_a_full_disk(write: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.write, 0

    def full(descriptor: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(chunks_module.os, "write", full)
        with pytest.raises(DiskFullError, match=r"the disk is full; nothing of g\.zarr"):
            build_there(Kronecker(12), tmp_path / "g.zarr", shards=4)
    assert names_in(tmp_path) == []
    build_there(Kronecker(12), tmp_path / "g.zarr")


KILLED = """
import os, signal, sys
from pathlib import Path
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.shards import cuda_tables
from tests.gpu.test_cuda_store import build_there
cuda_tables.SideWriter.finish = lambda self: os.kill(os.getpid(), signal.SIGKILL)
build_there(Kronecker(12), Path(sys.argv[1]))
"""


def test_a_killed_build_leaves_what_the_next_one_removes(tmp_path: Path) -> None:
    out = tmp_path / "g.zarr"
    done = subprocess.run([sys.executable, "-c", KILLED, str(out)], check=False)
    assert done.returncode == -signal.SIGKILL
    left = names_in(tmp_path)
    assert len(left) == 2
    assert all(name.startswith(("g.zarr.partial-", "g.zarr.lock")) for name in left)
    build_there(Kronecker(12), out)
    assert names_in(tmp_path) == ["g.zarr"]
