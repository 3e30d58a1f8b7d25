"""Assemble: merged pieces -> the chunk files of the store, each written by one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ooc_graph.layout.chunks import FileEntry, write_array, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.shards.merge import LENGTHS, MergeTask, piece_name
from ooc_graph.shards.pieces import Pieces
from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True)
class Strip:
    """One chunk of an array of the store that is the concatenation of pieces.

    Parameters
    ----------
    names
        Pieces in order, those that the chunk needs.
    first
        int64 (pieces + 1,): element at which each piece begins.
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
