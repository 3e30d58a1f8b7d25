"""Merge: one bucket of all runs -> its rows, in order; and merged pieces -> the store's chunks.

At the end what is under way of each side of a shard meanwhile, and what of it is used up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.forked import free_in_child
from ooc_graph.kernels.cpu.build import rows as row_kernels
from ooc_graph.kernels.cpu.build.arcs import Arcs
from ooc_graph.layout import names
from ooc_graph.layout.chunks import FileEntry, write_array, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.layout.packing import Packing
from ooc_graph.shards.pieces import Pieces, borrow
from ooc_graph.shards.runs import RunTask, bucket_parts, read_bucket
from ooc_graph.shards.tally import Packings
from ooc_graph.types import AnyArray, IntArray

LENGTHS = "lengths"

_folding = free_in_child(threading.Lock())


@dataclass(frozen=True)
class MergeTask:
    """All that the merges have in common.

    A bucket has at most ``capacity`` arcs, or is a single row. ``vertices`` are those with arcs.
    """

    runs: RunTask
    shards: int
    vertices: int
    capacity: int
    orders: tuple[str, ...]
    pieces: Pieces
    packings: Packings = field(default_factory=dict)

    def length_dtype(self, bucket: int) -> np.dtype[Any]:
        """Type of the lengths of a bucket's rows."""
        return np.dtype(np.uint32 if int(self.runs.buckets.arcs[bucket]) < 1 << 32 else np.uint64)


def piece_name(side: str, bucket: int, column: str) -> str:
    """Name of one column of one merged bucket."""
    return f"{bucket:06d}-{side}-{column}"


def merge_buckets(
    task: MergeTask, side: str, numbers: Sequence[int], used: Sequence[str]
) -> list[int]:
    """Make the pieces of some buckets, and forget those that were ``used``; arcs of each bucket."""
    task.pieces.remove(used)
    return [_merge_bucket(task, side, bucket) for bucket in numbers]


def _merge_bucket(task: MergeTask, side: str, bucket: int) -> int:
    arcs = int(task.runs.buckets.arcs[bucket])
    huge = arcs > task.capacity and int(task.runs.buckets.rows[bucket]) == 1
    merged = _fold(task, side, bucket) if huge else _sort(task, side, bucket)
    kept, neighbors, weights = merged
    lengths = kept.astype(task.length_dtype(bucket))
    # They wait until all of the shard is merged.
    task.pieces.write(piece_name(side, bucket, LENGTHS), lengths, lasting=True)
    if HUB in task.orders:
        task.pieces.write(piece_name(side, bucket, HUB), neighbors)
    if LIGHT in task.orders:
        # Ids ascend before, and the sort is stable, so ties are by id.
        keys = row_kernels.as_keys(weights)
        row_kernels.sort_rows(_offsets(kept), keys, neighbors)
        task.pieces.write(piece_name(side, bucket, LIGHT), neighbors)
        weights = row_kernels.from_keys(keys, weights.dtype)
        task.pieces.write(piece_name(side, bucket, "weights"), weights)
    return len(neighbors)


def _sort(task: MergeTask, side: str, bucket: int) -> tuple[IntArray, AnyArray, AnyArray]:
    offsets, neighbors, weights = _grouped(task, side, bucket)
    row_kernels.sort_rows(offsets, neighbors, weights)
    kept = np.empty(len(offsets) - 1, np.int64)
    total = row_kernels.drop_duplicates(offsets, neighbors, weights, kept)
    return kept, neighbors[:total], weights[:total]


def _grouped(task: MergeTask, side: str, bucket: int) -> tuple[IntArray, AnyArray, AnyArray]:
    """Arcs of a bucket in row order."""
    arcs = read_bucket(task.runs, side, bucket)
    counts = np.zeros(int(task.runs.buckets.rows[bucket]), np.int64)
    row_kernels.count_rows(arcs.rows, counts)
    offsets = _offsets(counts)
    neighbors = borrow("ordered neighbors", len(arcs.neighbors), arcs.neighbors.dtype)
    weights = borrow("ordered weights", len(arcs.weights), arcs.weights.dtype)
    ordered = Arcs(arcs.rows[:0], neighbors, weights)
    row_kernels.scatter_rows(arcs, offsets[:-1].copy(), ordered)
    return offsets, neighbors, weights


def _fold(task: MergeTask, side: str, bucket: int) -> tuple[IntArray, AnyArray, AnyArray]:
    """A row too long to sort: fold its runs into tables of size O(V), a part at a time."""
    weighted = task.runs.weight_dtype is not None
    # The tables are as large as the vertex state: one at a time in a process.
    with _folding:
        seen = np.zeros(task.vertices, np.bool_)
        lightest = np.empty(task.vertices if weighted else 0, task.runs.weight_dtype or np.float32)
        for part in bucket_parts(task.runs, side, bucket, task.capacity):
            row_kernels.fold_row(part.neighbors, part.weights, seen, lightest)
        neighbors = np.flatnonzero(seen).astype(task.runs.id_dtype)
        weights = lightest[seen] if weighted else lightest
        return np.array([len(neighbors)], np.int64), neighbors, weights


def _offsets(counts: IntArray) -> IntArray:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


@dataclass(frozen=True)
class Strip:
    """One chunk of an array of the store that is the concatenation of pieces, named in order.

    ``first``, int64 (pieces + 1,), is the element at which each piece begins.
    """

    spec: ArraySpec
    index: int
    names: tuple[str, ...]
    first: IntArray


def write_strips(
    store: str, pieces: Pieces, strips: Sequence[Strip], used: Sequence[str]
) -> list[FileEntry]:
    """Forget the pieces that were ``used`` up before; then write some chunks."""
    pieces.remove(used)
    return [
        write_chunk(Path(store), strip.spec, strip.index, _read(pieces, strip)) for strip in strips
    ]


def _read(pieces: Pieces, strip: Strip) -> Iterator[AnyArray]:
    start, stop = strip.spec.bounds(strip.index)
    for number, name in enumerate(strip.names):
        first, end = strip.first[number : number + 2].tolist()
        low, high = max(start, first), min(stop, end)
        if low < high:
            yield from pieces.read(name, strip.spec.dtype, low - first, high - first)


def write_offsets(
    task: MergeTask, store: str, side: str, numbers: IntArray, paths: tuple[str, ...]
) -> tuple[tuple[ArraySpec, ...], list[FileEntry]]:
    """Write the offsets of one side of one shard to each of ``paths``.

    Memory: 8 bytes a row of the shard, whose buckets ``numbers`` are.
    """
    offsets = _offsets_of(task, side, numbers)
    packing = task.packings.get("offsets")
    specs = tuple(ArraySpec(path, len(offsets), offsets.dtype, packing=packing) for path in paths)
    entries = [
        entry
        for spec in specs
        for entry in write_array(Path(store), spec, lambda start, stop: [offsets[start:stop]])
    ]
    return specs, entries


def _offsets_of(task: MergeTask, side: str, numbers: IntArray) -> AnyArray:
    buckets = task.runs.buckets
    offsets = np.zeros(int(buckets.rows[numbers].sum()) + 1, np.uint64)
    done = 0
    for number in numbers.tolist():
        dtype, rows = task.length_dtype(number), int(buckets.rows[number])
        parts = task.pieces.read(piece_name(side, number, LENGTHS), dtype, 0, rows)
        mine = offsets[1 + done : 1 + done + rows]
        np.cumsum(np.concatenate([*parts]), out=mine, dtype=np.uint64)
        mine += offsets[done]
        done += rows
    return offsets


@dataclass
class Column:
    """One array made of pieces: which chunks are under way, which pieces are used up."""

    path: str
    dtype: np.dtype[Any]
    piece: str
    packing: Packing | None
    asked: int = 0
    done: set[int] = field(default_factory=set)
    removed: int = 0

    @property
    def full(self) -> int:
        """Elements of a full chunk."""
        return names.CHUNK_BYTES // self.dtype.itemsize

    def spec(self, length: int) -> ArraySpec:
        """The array, so many elements long."""
        return ArraySpec(self.path, length, self.dtype, packing=self.packing)


@dataclass
class Side:
    """One side of one shard while its buckets are being merged."""

    side: str
    numbers: IntArray
    columns: list[Column]
    offsets: tuple[str, ...]
    first: list[int] = field(default_factory=lambda: [0])
    forgotten: int = 0
    kept: dict[int, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all buckets of the side are merged."""
        return len(self.first) == len(self.numbers) + 1


@dataclass
class Merged:
    """What was written: arrays, their chunks, and the arcs of each side."""

    specs: list[ArraySpec] = field(default_factory=list)
    entries: list[FileEntry] = field(default_factory=list)
    arcs: dict[str, int] = field(default_factory=dict)
