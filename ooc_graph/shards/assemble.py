"""Assemble: merged pieces -> the chunk files of the store, each written by one task."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import LIGHT, rows_path
from ooc_graph.shards.merge import MergeTask
from ooc_graph.types import AnyArray, IntArray

_READ_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class Strip:
    """An array of the store that is the concatenation of pieces.

    Parameters
    ----------
    spec
        The array.
    pieces
        Files in order.
    first
        int64 (pieces + 1,): element at which each piece begins.
    """

    spec: ArraySpec
    pieces: tuple[str, ...]
    first: IntArray


def write_strip_chunk(store: str, strip: Strip, index: int) -> FileEntry:
    """Write one chunk of a strip."""
    return write_chunk(Path(store), strip.spec, index, _read(strip, *strip.spec.bounds(index)))


def _read(strip: Strip, start: int, stop: int) -> Iterator[AnyArray]:
    dtype = strip.spec.dtype
    number = int(np.searchsorted(strip.first, start, "right")) - 1
    while start < stop:
        until = min(stop, int(strip.first[number + 1]))
        with Path(strip.pieces[number]).open("rb", buffering=0) as file:
            file.seek((start - int(strip.first[number])) * dtype.itemsize)
            while start < until:
                data = np.fromfile(file, dtype, min(until - start, _READ_ELEMENTS))
                if not len(data):
                    raise OSError(f"{strip.pieces[number]}: ended early while it was assembled")
                yield data
                start += len(data)
        number += 1


@dataclass(frozen=True)
class Assembly:
    """One side of one shard: its offsets are written, its strips remain to be.

    Parameters
    ----------
    specs
        All arrays, offsets included.
    entries
        Chunks of the offsets.
    strips
        Arrays made of pieces.
    arcs
        Arcs of this side of this shard.
    """

    specs: tuple[ArraySpec, ...]
    entries: tuple[FileEntry, ...]
    strips: tuple[Strip, ...]
    arcs: int


def assemble_side(task: MergeTask, store: str, shard: int, side: str) -> Assembly:
    """Write the offsets of one side of one shard and lay out its other arrays.

    Memory: 8 bytes a row of the shard, and as much while they are summed.
    """
    numbers = np.flatnonzero(task.runs.buckets.shard == shard)
    offsets, first = _offsets_of(task, side, numbers)
    specs, entries, strips = [], [], []
    for order in task.orders:
        group = rows_path(shard, side, order)
        spec = ArraySpec(f"{group}/offsets", len(offsets), offsets.dtype)
        specs.append(spec)
        entries += [
            write_chunk(Path(store), spec, index, [offsets[slice(*spec.bounds(index))]])
            for index in range(spec.chunks)
        ]
        strips += _strips(task, side, order, group, numbers, first)
    specs += [strip.spec for strip in strips]
    return Assembly(tuple(specs), tuple(entries), tuple(strips), int(first[-1]))


def _offsets_of(task: MergeTask, side: str, numbers: IntArray) -> tuple[AnyArray, IntArray]:
    rows = int(task.runs.buckets.rows[numbers].sum())
    offsets = np.zeros(rows + 1, np.uint64)
    first, done = np.zeros(len(numbers) + 1, np.int64), 0
    for place, number in enumerate(numbers):
        narrow = int(task.runs.buckets.arcs[number]) < 1 << 32
        path = task.piece(side, int(number), "lengths")
        lengths = np.fromfile(path, np.uint32 if narrow else np.uint64)
        np.cumsum(lengths, out=offsets[1 + done : 1 + done + len(lengths)], dtype=np.uint64)
        offsets[1 + done : 1 + done + len(lengths)] += np.uint64(first[place])
        done += len(lengths)
        first[place + 1] = int(offsets[done])
    return offsets, first


def _strips(
    task: MergeTask, side: str, order: str, group: str, numbers: IntArray, first: IntArray
) -> list[Strip]:
    columns: dict[str, tuple[str, np.dtype[Any]]] = {"neighbors": (order, task.runs.id_dtype)}
    if order == LIGHT and task.runs.weight_dtype is not None:
        columns["weights"] = ("weights", task.runs.weight_dtype)
    return [
        Strip(
            ArraySpec(f"{group}/{name}", int(first[-1]), dtype),
            tuple(str(task.piece(side, int(number), column)) for number in numbers),
            first,
        )
        for name, (column, dtype) in columns.items()
    ]


def strip_chunks(assemblies: list[Assembly]) -> list[tuple[Strip, int]]:
    """Every chunk that remains to be written, each with only the pieces that it needs."""
    strips = itertools.chain.from_iterable(assembly.strips for assembly in assemblies)
    return [(_narrow(strip, i), i) for strip in strips for i in range(strip.spec.chunks)]


def _narrow(strip: Strip, index: int) -> Strip:
    start, stop = strip.spec.bounds(index)
    low = int(np.searchsorted(strip.first, start, "right")) - 1
    high = int(np.searchsorted(strip.first, stop, "left"))
    return Strip(strip.spec, strip.pieces[low:high], strip.first[low : high + 1])
