"""Builds on a CUDA device take what they are allowed, and are refused memory."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import pool as cuda_pool
from ooc_graph.kernels.cuda.runtime.pool import WholePieces
from ooc_graph.shards import cuda_shard_ranges
from ooc_graph.shards.cuda_plan import DevicePlan
from tests.gpu.building import MIB, assert_same, build_there
from tests.gpu.memory import Refusing, assert_refused_without_memory
from tests.said import Said
from tests.test_faults_build import names_in
from tests.unit.test_build_oracle import ListSource, random_source

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.mark.parametrize("limit", [0, MIB, 4 * MIB])
def test_a_budget_that_cannot_do_names_both_figures(limit: int, tmp_path: Path) -> None:
    words = rf"at least [\d,]+ bytes of its memory for its vertices; {limit:,} are there"
    with pytest.raises(MemoryBudgetError, match=words):
        build_there(Kronecker(14), tmp_path / "g.zarr", device_memory_bytes=limit)
    hub = ListSource(np.zeros(200_000, np.int64), np.arange(200_000) % 1000, id_range=(0, 1000))
    with pytest.raises(MemoryBudgetError, match="for its longest row; 6,291,456 are there"):
        build_there(hub, tmp_path / "g.zarr", device_memory_bytes=6 * MIB)
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
    monkeypatch.setattr(cuda_shard_ranges, "runs_pay", lambda *_: runs)
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
    assert pool.used_bytes <= 8 * MIB
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
            assert "memory was refused while the store was built" in note
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
