"""What a cluster of CUDA workers is started with, and what is said where RMM is broken; no GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import ClusterLostError
from ooc_graph.runtime import cluster, devices
from tests.command_line import call
from tests.unit.test_devices import fake_cupy


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Options of the clusters that are started, none of which begins to work."""
    found: list[dict[str, Any]] = []

    def start(**options: Any) -> None:
        found.append(options)
        raise RuntimeError("no workers in this test")

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    monkeypatch.setitem(sys.modules, "dask_cuda", SimpleNamespace(LocalCUDACluster=start))
    return found


def install_rmm(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a module of that name, which runs ``text``, before all others."""
    (folder / "rmm.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    # Twice, so that what is imported here is forgotten at the end.
    monkeypatch.setitem(sys.modules, "rmm", ModuleType("rmm"))
    monkeypatch.delitem(sys.modules, "rmm")


def test_workers_have_rmm_where_it_is_installed(
    started: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> None:
        with pytest.raises(ClusterLostError, match="no workers"), cluster.local_cuda_cluster():
            pass

    install_rmm(tmp_path, "", monkeypatch)
    start()
    monkeypatch.setattr(devices, "find_spec", lambda _: None)
    start()
    assert [options.get("rmm_async", False) for options in started] == [True, False]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ImportError('librmm.so: no such file\\nin any folder')", "no such file in any"),
        ("raise OSError('wrong ELF class')", "wrong ELF class"),
        ("raise RuntimeError", "RuntimeError"),
    ],
)
def test_a_broken_rmm_is_told_in_one_line(
    text: str,
    why: str,
    started: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends, path = (np.array([1, 2]), np.array([2, 3])), tmp_path / "g.zarr"
    og.build(ends, path, device="cpu")
    install_rmm(tmp_path, text, monkeypatch)
    out = tmp_path / "bfs.zarr"
    ended = call(monkeypatch, capsys, "bfs", path, "--source", 1, "--out", out, "--device", "cuda")
    assert (ended.code, ended.err.count("\n")) == (2, 1), ended
    assert why in ended.err
    assert "use --device cpu" in ended.err
    assert started == []
    assert not out.exists()
