"""Second pass: tuples -> arcs of internal ids, in runs that are grouped by bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import InputError
from ooc_graph.kernels.cpu.build.arcs import Arcs, count_buckets, scatter_arcs
from ooc_graph.layout.blocks import byte_view, read_at
from ooc_graph.layout.checkpoints import Checkpoints
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.names import IN, OUT
from ooc_graph.layout.spilled import SpillWriter
from ooc_graph.shards.pieces import borrow
from ooc_graph.shards.plan import BLOCK_EDGES, Buckets
from ooc_graph.shards.tables import VertexSpace, load_buckets, load_tables
from ooc_graph.types import AnyArray


@dataclass(frozen=True)
class RunTask:
    """All that the tasks of the second pass have in common.

    The `Buckets` are in a .npz file, too large to travel with every task. ``folder`` is where runs
    are in the partial store of ``checkpoints``. ``weight_dtype`` is None if no weights are stored.
    """

    source: EdgeSource
    space: VertexSpace
    internal_of: str
    buckets_path: str
    checkpoints: Checkpoints
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


def write_run(task: RunTask, unit: Unit) -> int:
    """Write one unit's arcs, grouped by bucket, for every side; returns its tuples.

    Not again if a checkpoint has them.
    """
    facts: dict[str, Any] = {}

    def write(folder: Path) -> list[FileEntry]:
        u, v, w = _translated(task, unit)
        facts["edges"] = len(u)
        return [
            _write(task, folder, f"{unit.index:06d}-{side}", ends, w)
            for side, ends in ((OUT, (u, v)), (IN, (v, u)))
            if side in task.sides
        ]

    name = f"{Path(task.folder).name}-{unit.index:06d}"
    return int(task.checkpoints.once(name, write, facts).facts["edges"])


def _translated(task: RunTask, unit: Unit) -> tuple[AnyArray, AnyArray, AnyArray]:
    tables = load_tables(task.space, task.internal_of)
    size = unit.stop - unit.start
    u, v = borrow("u", size, task.id_dtype), borrow("v", size, task.id_dtype)
    w = borrow("w", size if task.weight_dtype else 0, task.weight_dtype or np.float32)
    done = 0
    for block in task.source.read(unit, BLOCK_EDGES):
        stop = done + len(block)
        if stop > size:
            raise InputError(
                f"{unit.path or 'the source'}: part {unit.index} has more than the {size:,} edges "
                "that it said; was it changed meanwhile?"
            )
        tables.translate(block.source, u[done:stop])
        tables.translate(block.target, v[done:stop])
        if block.weight is not None and task.weight_dtype is not None:
            # Adding zero makes minus zero plus zero: equal weights get equal keys.
            np.add(block.weight, block.weight.dtype.type(0), out=w[done:stop], casting="same_kind")
        done = stop
    return u[:done], v[:done], w[:done]


def _write(
    task: RunTask, folder: Path, name: str, ends: tuple[AnyArray, AnyArray], w: AnyArray
) -> FileEntry:
    """Write offsets by bucket, then rows, neighbours and weights, each grouped by bucket."""
    (u, v), buckets, both = ends, task.buckets, not task.source.directed
    counts = np.zeros((2, len(buckets)), np.int64)
    count_buckets(u, v, both, buckets.table, buckets.base, counts)
    offsets = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    arcs = int(offsets[-1])
    rows, neighbors = borrow("rows", arcs, buckets.row_dtype), borrow("neighbors", arcs, u.dtype)
    weights = borrow("weights", arcs if len(w) else 0, w.dtype)
    cursor = offsets[:-1].copy()
    where = (buckets.table, buckets.base, buckets.shift, buckets.first)
    scatter_arcs(u, v, w, both, where, cursor, Arcs(rows, neighbors, weights))
    with SpillWriter(folder, f"{task.folder}/{name}.run") as file:
        for column in (offsets, rows, neighbors, weights):
            file.write(column)
    return file.entry


def read_bucket(task: RunTask, side: str, bucket: int) -> Arcs:
    """All arcs of one bucket, from all runs (their order decides nothing).

    Rows count from the bucket's first.
    """
    parts = [_Segment(path, task, bucket) for path in _runs(task, side)]
    found = _columns(task, sum(part.arcs for part in parts))
    done = 0
    for part in parts:
        part.read_into(Arcs(*(column[done : done + part.arcs] for column in found)))
        done += part.arcs
    return found


def bucket_parts(task: RunTask, side: str, bucket: int, most: int) -> Iterator[Arcs]:
    """The same arcs, at most ``most`` of them at a time."""
    for path in _runs(task, side):
        part = _Segment(path, task, bucket)
        for start in range(0, part.arcs, most):
            found = _columns(task, min(most, part.arcs - start))
            part.read_into(found, start)
            yield found


def _runs(task: RunTask, side: str) -> list[Path]:
    return sorted((task.checkpoints.folder / task.folder).glob(f"*-{side}.run"))


def _columns(task: RunTask, arcs: int) -> Arcs:
    weighted = task.weight_dtype is not None
    return Arcs(
        borrow("rows", arcs, task.buckets.row_dtype),
        borrow("neighbors", arcs, task.id_dtype),
        borrow("weights", arcs if weighted else 0, task.weight_dtype or np.float32),
    )


class _Segment:
    """What one run has of one bucket; its file is open only while it is read."""

    def __init__(self, path: Path, task: RunTask, bucket: int) -> None:
        self._path, buckets = path, len(task.buckets)
        offsets = np.empty(3, np.int64)
        with path.open("rb", buffering=0) as file:
            read_at(file.fileno(), byte_view(offsets[:2]), 8 * bucket)
            read_at(file.fileno(), byte_view(offsets[2:]), 8 * buckets)
        self._start, stop, self._total = offsets.tolist()
        self.arcs, self._base = stop - self._start, 8 * (buckets + 1)

    def read_into(self, columns: Arcs, skip: int = 0) -> None:
        if not self.arcs:
            return
        base = self._base
        with self._path.open("rb", buffering=0) as file:
            for column in columns:
                if len(column):
                    offset = base + (self._start + skip) * column.itemsize
                    read_at(file.fileno(), byte_view(column), offset)
                base += self._total * column.itemsize
