"""Assemble: merged pieces -> the chunk files of the store, each written by one task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
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


def write_offsets(
    task: MergeTask, store: str, side: str, numbers: IntArray, paths: tuple[str, ...]
) -> tuple[tuple[ArraySpec, ...], list[FileEntry]]:
    """Write the offsets of one side of one shard, once for each row order.

    Memory: 8 bytes a row of the shard.

    Parameters
    ----------
    numbers
        The shard's buckets.
    paths
        Arrays to write.
    """
    offsets = _offsets_of(task, side, numbers)
    specs = tuple(ArraySpec(path, len(offsets), offsets.dtype) for path in paths)
    return specs, [
        write_chunk(Path(store), spec, index, [offsets[slice(*spec.bounds(index))]])
        for spec in specs
        for index in range(spec.chunks)
    ]


def _offsets_of(task: MergeTask, side: str, numbers: IntArray) -> AnyArray:
    buckets = task.runs.buckets
    offsets = np.zeros(int(buckets.rows[numbers].sum()) + 1, np.uint64)
    done = 0
    for number in numbers.tolist():
        narrow = int(buckets.arcs[number]) < 1 << 32
        path = task.piece(side, number, "lengths")
        lengths = np.fromfile(path, np.uint32 if narrow else np.uint64)
        mine = offsets[1 + done : 1 + done + len(lengths)]
        np.cumsum(lengths, out=mine, dtype=np.uint64)
        mine += offsets[done]
        done += len(lengths)
    return offsets
