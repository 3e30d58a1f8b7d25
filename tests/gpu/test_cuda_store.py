"""Stores built on a CUDA device are those built on the CPU, file by file."""

from __future__ import annotations

import itertools
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.edges import open_source
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.layout.manifest import Manifest
from ooc_graph.shards import cuda_stages, cuda_tables, tables
from ooc_graph.shards.build_options import BuildReport
from ooc_graph.shards.cuda_sides import Sides
from tests.gpu.building import MIB, assert_same, build_there, manifest
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
GRAPHS = [graph for graph in graphs() if graph["file"] not in REFUSED] or [None]


@cache
def built_here(weighted: bool, shards: int) -> BuildReport:
    with tempfile.TemporaryDirectory() as folder, small_steps():
        return build_here(Kronecker(14, weighted=weighted), Path(folder) / "g.zarr", shards=shards)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Ranges of rows that the next build makes, of one side."""
    found: list[tuple[int, int, int]] = []
    real = Sides._ranges

    def noted(*arguments: Any) -> dict[str, list[tuple[int, int, int]]]:
        made = real(*arguments)
        found[:] = made["out"]
        return made

    monkeypatch.setattr(Sides, "_ranges", noted)
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
    for module in (cuda_stages, sys.modules["ooc_graph.shards.build"]):
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
    for module in (tables, cuda_tables):
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
