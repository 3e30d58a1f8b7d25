"""Builds on a CUDA device that are refused, fail or are killed leave nothing, and say why."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph.layout.chunks as chunks_module
from ooc_graph.edges import open_source
from ooc_graph.edges.arrays import ArraySource
from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import DiskFullError, InputError, OutputExistsError, UsageError
from ooc_graph.layout.manifest import Manifest
from tests.gpu.building import MIB, build_there, manifest
from tests.test_faults_build import names_in
from tests.unit.test_build_oracle import ListSource, build_here

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")


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


def test_too_many_vertices_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"4,294,967,296 vertices: a device builds.*on the CPU"):
        build_there(Kronecker(32), tmp_path / "g.zarr")
    assert names_in(tmp_path) == []


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
from tests.gpu.building import build_there
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
