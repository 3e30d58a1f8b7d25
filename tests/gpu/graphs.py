"""Graphs on which both devices are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from tests.strategies import Arcs, arcs_of, grid, skewed


def kronecker(scale: int) -> Arcs:
    return arcs_of(*Kronecker(scale).block(0, 16 << scale), directed=False)


def path(length: int, *, directed: bool = False) -> Arcs:
    at = np.arange(length)
    weight = np.random.default_rng(1).random(length).astype(np.float32)
    return arcs_of(at, at + 1, weight, directed=directed)


def star(leaves: int) -> Arcs:
    """A hub of many arcs, and a chain that hangs on one of its leaves."""
    at = np.arange(1, leaves + 1)
    source = np.concatenate([np.zeros(leaves, np.int64), leaves + np.arange(40)])
    target = np.concatenate([at, leaves + 1 + np.arange(40)])
    weight = np.random.default_rng(2).random(leaves + 40).astype(np.float32)
    return arcs_of(source, target, weight, directed=False)


def pieces(count: int) -> Arcs:
    """Triangles apart from each other."""
    first = 3 * np.arange(count)
    source = np.concatenate([first, first + 1, first])
    target = np.concatenate([first + 1, first + 2, first + 2])
    return arcs_of(source, target, np.ones(3 * count, np.float32), directed=False)


def valued(arcs: Arcs, values: list[float]) -> Arcs:
    """The same arcs with weights from a few values, alike in both directions."""
    low, high = np.minimum(arcs.source, arcs.target), np.maximum(arcs.source, arcs.target)
    mixed = (low * 2654435761 + high * 40503) % (1 << 32) >> 7
    weight = np.array(values, np.float32)[mixed % len(values)]
    return Arcs(**{**vars(arcs), "weight": weight})


def sparse(dtype: str, *, directed: bool) -> Arcs:
    """Hubs, leaves and pieces apart, over a few dealing blocks."""
    return skewed(6_000, 20_000, dtype, directed=directed, seed=3)


def flat(arcs: Arcs) -> Arcs:
    """The same arcs with few weights, zero among them, so that there are plateaus."""
    few = np.floor(arcs.weight * 3 / arcs.weight.max())
    return replace(arcs, weight=few.astype(arcs.weight.dtype))


WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "float32": lambda weight: weight,
    "float64": lambda weight: weight.astype(np.float64),
    "int32": lambda weight: np.floor(weight * 256.0).astype(np.int32),
    "int64": lambda weight: np.floor(weight * 1000.0).astype(np.int64),
    # Paths of a few arcs are longer than 32 bits.
    "long paths": lambda weight: np.floor(np.minimum(weight, 1) * 2.0**31).astype(np.int64),
    "long arcs": lambda weight: np.floor(weight.astype(np.float64) * 2.0**34).astype(np.int64),
}
"""Weights of other types, made from those of `GRAPHS`."""


def typed(arcs: Arcs, weights: str) -> Arcs:
    """The same arcs with weights of one of `WEIGHTS`."""
    return Arcs(**{**vars(arcs), "weight": WEIGHTS[weights](arcs.weight)})


GRAPHS: dict[str, Callable[[], Arcs]] = {
    **{f"kronecker {scale}": lambda scale=scale: kronecker(scale) for scale in range(4, 17)},
    "skewed": lambda: skewed(24_000, 140_000, "float32", directed=False, seed=3),
    "skewed, directed": lambda: skewed(24_000, 140_000, "float32", directed=True, seed=3),
    "dense, directed": lambda: skewed(3000, 900_000, "float32", directed=True, seed=4),
    "sparse, directed": lambda: skewed(60_000, 80_000, "float32", directed=True, seed=5),
    "path": lambda: path(600),
    "path, directed": lambda: path(300, directed=True),
    "path of 254 levels": lambda: path(253),
    "path of 255 levels": lambda: path(254),
    "star": lambda: star(150_000),
    "pieces": lambda: pieces(5000),
    "grid": lambda: grid(150, "float32"),
    "one edge": lambda: path(1),
    "zero weights": lambda: valued(skewed(3000, 9000, "float32", directed=False, seed=2), [0]),
    "equal weights": lambda: valued(kronecker(12), [0.25]),
    "plateaus": lambda: valued(kronecker(13), [0, 0, 0.25, 0.5]),
    "plateaus, directed": lambda: valued(
        skewed(20_000, 90_000, "float32", directed=True, seed=6), [0, 0.125, 0.5]
    ),
    "absorbed weights": lambda: valued(kronecker(12), [1e-9, 1e6, 0.3, 0]),
    "grid of plateaus": lambda: valued(grid(60, "float32"), [0, 0, 1]),
}


def roots(arcs: Arcs) -> list[int]:
    """Hub, middle, leaf, and a few by chance."""
    chance = np.random.default_rng(7).integers(0, arcs.vertices, 3).tolist()
    return [0, arcs.vertices // 2, arcs.vertices - 1, *chance]
