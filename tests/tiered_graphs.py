"""Graphs whose rows may be pinned, and planned devices of any size."""

from __future__ import annotations

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.model.resources import CUDA, CudaLimits, Resources
from ooc_graph.runtime.this_process import planned
from ooc_graph.strategies.cuda import disk_budgets

HOST = 1 << 40


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind pinned memory has tests of its own."""
    monkeypatch.setattr(disk_budgets, "LOADERS", {})


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "kronecker.zarr"
    return og.build(og.Kronecker(13), path, rows="both", shards=4)


@pytest.fixture(scope="module")
def directed(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    path = tmp_path_factory.mktemp("graphs") / "directed.zarr"
    rng = np.random.default_rng(4)
    ends = rng.integers(0, 5000, (2, 30_000)) * rng.integers(0, 2, (2, 30_000))
    weight = rng.integers(1, 9, 30_000)
    return og.build((*ends, weight), path, rows="both", directed=True, shards=2)


def workplace(device_bytes: int, pinned_bytes: int | None = None) -> Resources:
    return planned(HOST, CUDA, CudaLimits(device_bytes, pinned_bytes))
