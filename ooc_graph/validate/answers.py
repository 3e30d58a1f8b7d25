"""What a search answers, as the validator takes it: root, parents, and levels or distances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ooc_graph.errors import UsageError
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray
from ooc_graph.validate.vertices import VertexIndex

DISTANCE_TYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))


def unreached_distance(kind: np.dtype[Any]) -> Any:
    """Distance that stands for unreached, as a scalar of the given dtype."""
    return np.asarray(INT64_UNREACHED if kind == np.int64 else np.inf, dtype=kind)[()]


def _check_columns(vertices: VertexIndex, **columns: AnyArray) -> None:
    for name, column in columns.items():
        if column.shape != (vertices.count,):
            raise UsageError(f"{name} has shape {column.shape} for {vertices.count} vertices")


@dataclass(frozen=True)
class BfsAnswer:
    """A breadth-first tree.

    Parameters
    ----------
    root
        Original id of the root.
    parent
        int64 (V,): original ids by position, the root its own parent, -1 unreached.
    level
        int32 (V,): arcs from the root, -1 unreached.
    vertices
        The V vertices.
    """

    root: int
    parent: IntArray
    level: NDArray[np.int32]
    vertices: VertexIndex

    def __post_init__(self) -> None:
        _check_columns(self.vertices, parent=self.parent, level=self.level)
        if self.parent.dtype != np.int64 or self.level.dtype != np.int32:
            raise UsageError("a BFS answer has int64 parents and int32 levels")


@dataclass(frozen=True)
class SsspAnswer:
    """A tree of shortest paths; as `BfsAnswer`, with distances.

    Parameters
    ----------
    distance
        float32 or float64 (V,), +inf unreached; or int64 (V,), ``INT64_UNREACHED`` unreached.
    """

    root: int
    parent: IntArray
    distance: AnyArray
    vertices: VertexIndex

    def __post_init__(self) -> None:
        _check_columns(self.vertices, parent=self.parent, distance=self.distance)
        if self.parent.dtype != np.int64 or self.distance.dtype not in DISTANCE_TYPES:
            raise UsageError(
                "an SSSP answer has int64 parents and float32, float64 or int64 distances"
            )

    @property
    def unreached(self) -> Any:
        """Distance of vertices that the root does not reach, as a scalar of the same dtype."""
        return unreached_distance(self.distance.dtype)
