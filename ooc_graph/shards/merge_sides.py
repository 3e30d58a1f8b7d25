"""Sides of shards while their buckets are merged: what is under way, and what is used up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ooc_graph.layout import names
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.packing import Packing
from ooc_graph.types import IntArray


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
