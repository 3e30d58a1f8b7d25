"""Stores that several files of tests search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ooc_graph as og

EDGES = 40_000


def kronecker(
    folders: pytest.TempPathFactory, scale: int, *, edge_factor: int = 16, **options: Any
) -> og.Graph:
    """A Kronecker graph in a folder of its own; by the CPU, of both orders, unless told."""
    path = folders.mktemp("kronecker") / f"{scale}.zarr"
    given = {"rows": "both", "device": "cpu", **options}
    return og.build(og.Kronecker(scale, edge_factor=edge_factor), path, **given)


def skewed(dtype: str) -> tuple[np.ndarray, ...]:
    """Ids with gaps, hubs, weights that spread; some vertices have no arc."""
    random = np.random.default_rng(12)
    source = (5_000 * random.random(EDGES) ** 3).astype(np.int64) * 3 + 1
    target = (5_000 * random.random(EDGES) ** 2).astype(np.int64) * 3 + 1
    weight = random.random(EDGES) if dtype.startswith("f") else random.integers(0, 50, EDGES)
    return source, target, weight.astype(dtype)
