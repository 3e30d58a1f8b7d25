"""Small graphs of several types of weights, as edges and as stores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ooc_graph as og

EDGES = 40_000
GAP = 1 << 40


@dataclass(frozen=True)
class Case:
    """A graph as edges, and its stores."""

    edges: tuple[np.ndarray, ...]
    directed: bool
    graph: og.Graph

    @property
    def roots(self) -> list[int]:
        return [int(self.edges[0][0]), int(self.edges[1][-1])]


def make(folder: Path, dtype: str, *, directed: bool, gap: int) -> Case:
    random = np.random.default_rng(len(dtype) + gap % 7)
    source = (9_000 * random.random(EDGES) ** 3).astype(np.int64) * 3 + gap
    target = random.integers(0, 9_000, EDGES) * 3 + gap
    if dtype.startswith("int"):
        weight = random.integers(0, 50, EDGES).astype(dtype)
    else:
        weight = (random.integers(0, 4096, EDGES) / 4096).astype(dtype)
    edges = source, target, weight
    graph = og.build(edges, folder / f"{dtype}.zarr", directed=directed, shards=8, device="cpu")
    return Case(edges, directed, graph)
