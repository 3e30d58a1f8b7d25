"""Second pass: tuples -> arcs of internal ids, in runs that are grouped by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.kernels.arcs import count_buckets, scatter_arcs
from ooc_graph.layout.names import IN, OUT
from ooc_graph.shards.plan import BLOCK_EDGES, Buckets
from ooc_graph.shards.tables import VertexSpace, load_buckets, load_tables
from ooc_graph.types import AnyArray


@dataclass(frozen=True)
class RunTask:
    """All that the tasks of the second pass have in common.

    Parameters
    ----------
    source, space, internal_of
        Edges, and who is which internal id.
    buckets_path
        .npz file with the `Buckets`, too large to travel with every task.
    folder
        Where runs are written.
    id_dtype, weight_dtype
        dtypes of rows and neighbours, and of weights (None: none are stored).
    """

    source: EdgeSource
    space: VertexSpace
    internal_of: str
    buckets_path: str
    folder: str
    id_dtype: np.dtype[Any]
    weight_dtype: np.dtype[Any] | None

    @property
    def buckets(self) -> Buckets:
        """Where rows go."""
        return load_buckets(self.buckets_path)

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides that are stored."""
        return (OUT, IN) if self.source.directed else (OUT,)


@dataclass(frozen=True)
class Columns:
    """Arcs of a run or bucket: row, neighbour and weight (length 0 where there are none)."""

    rows: AnyArray
    neighbors: AnyArray
    weights: AnyArray


def write_run(task: RunTask, unit: Unit) -> int:
    """Write one unit's arcs, grouped by bucket, for every side; returns the tuples read."""
    u, v, w = _translated(task, unit)
    for side in task.sides:
        row, neighbor = (v, u) if side == IN else (u, v)
        _write(task, f"{unit.index:06d}-{side}", row, neighbor, w)
    return len(u)


def _translated(task: RunTask, unit: Unit) -> tuple[AnyArray, AnyArray, AnyArray]:
    tables = load_tables(task.space, task.internal_of)
    size = unit.stop - unit.start
    u, v = np.empty(size, task.id_dtype), np.empty(size, task.id_dtype)
    w = np.empty(size if task.weight_dtype else 0, task.weight_dtype or np.float32)
    done = 0
    for block in task.source.read(unit, BLOCK_EDGES):
        stop = done + len(block)
        tables.translate(block.source, u[done:stop])
        tables.translate(block.target, v[done:stop])
        if block.weight is not None and task.weight_dtype is not None:
            # Adding zero makes minus zero plus zero: equal weights get equal keys.
            np.add(block.weight, block.weight.dtype.type(0), out=w[done:stop], casting="same_kind")
        done = stop
    return u[:done], v[:done], w[:done] if len(w) else w


def _write(task: RunTask, name: str, u: AnyArray, v: AnyArray, w: AnyArray) -> None:
    buckets, both = task.buckets, not task.source.directed
    counts = np.zeros((2, len(buckets)), np.int64)
    count_buckets(u, v, both, buckets.table, buckets.base, counts)
    offsets = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    arcs = int(offsets[-1])
    rows, neighbors = np.empty(arcs, task.id_dtype), np.empty(arcs, task.id_dtype)
    weights = np.empty(arcs if len(w) else 0, w.dtype)
    cursor = offsets[:-1].copy()
    scatter_arcs(u, v, w, both, buckets.table, buckets.base, cursor, rows, neighbors, weights)
    np.save(Path(task.folder) / f"{name}.npy", offsets)
    with (Path(task.folder) / f"{name}.arcs").open("wb", buffering=0) as file:
        for column in (rows, neighbors, weights):
            column.tofile(file)


def run_names(folder: str, side: str) -> list[str]:
    """Runs of one side, in the order of their units (the order decides nothing)."""
    return sorted(path.stem for path in Path(folder).glob(f"*-{side}.arcs"))


def segments(task: RunTask, side: str, bucket: int) -> Iterator[Columns]:
    """What each run has of one bucket."""
    for name in run_names(task.folder, side):
        offsets = np.load(Path(task.folder) / f"{name}.npy")
        start, stop = int(offsets[bucket]), int(offsets[bucket + 1])
        if start < stop:
            yield _segment(task, name, int(offsets[-1]), start, stop)


def _segment(task: RunTask, name: str, arcs: int, start: int, stop: int) -> Columns:
    id_bytes = task.id_dtype.itemsize
    weight = task.weight_dtype
    with (Path(task.folder) / f"{name}.arcs").open("rb", buffering=0) as file:

        def column(base: int, dtype: np.dtype[Any]) -> AnyArray:
            file.seek(base + start * dtype.itemsize)
            return np.fromfile(file, dtype, stop - start)

        rows, neighbors = column(0, task.id_dtype), column(arcs * id_bytes, task.id_dtype)
        empty: AnyArray = np.empty(0, np.float32)
        weights = column(2 * arcs * id_bytes, weight) if weight is not None else empty
    return Columns(rows, neighbors, weights)
