"""Rows of a graph in host memory: of one shard, or of several as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import LIGHT, rows_path
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing, IntArray, Rows


class Arrays(Protocol):
    """Where the arrays of a graph are: `Stored`, or memory (`ooc_graph.shards.memory_graph`)."""

    @property
    def path(self) -> Path:
        """Folder of the store, or a name of the same form."""

    @property
    def attributes(self) -> dict[str, Any]:
        """Canonical attributes."""

    @property
    def identity(self) -> str:
        """What no other graph has that can stand at this path."""

    @property
    def content_sha256(self) -> str:
        """Hash over everything that the graph holds."""

    def spec(self, array: str) -> ArraySpec:
        """Length and dtype of an array."""

    def chunk(self, spec: ArraySpec, index: int) -> AnyArray:
        """Elements of one chunk."""

    def read(self, array: str) -> AnyArray:
        """Whole array in host memory."""


Allocator = Callable[[int, np.dtype[Any]], AnyArray]
"""Makes an array of so many elements of a type."""


@dataclass(frozen=True)
class RowLoader:
    """Brings rows of a graph into host memory, every chunk checked.

    ``allocate`` makes the arrays of neighbours and weights; None: they are of ordinary memory.
    """

    stored: Arrays
    shards: int
    allocate: Allocator | None = None

    def load(self, side: str, stored_order: str, order: str, dealing: Dealing) -> Rows:
        """Rows of one side, as a search of ``order`` wants them except for the order itself.

        With weights if that is ``light``; ``stored_order`` is one that the graph has. The rows of
        ``dealing``, of as many shards as the store has or fewer, come in its order.
        """
        names = ["neighbors", *(["weights"] if order == LIGHT else [])]
        # A shard of fewer is itself dealt to some of the store's, in turn.
        stored = range(dealing.shard, self.shards, dealing.shards)
        if len(stored) == 1:
            group = rows_path(stored[0], side, stored_order)
            columns = [self._column(f"{group}/{name}") for name in names]
            return Rows(self.stored.read(f"{group}/offsets"), *columns)
        groups = [rows_path(number, side, stored_order) for number in stored]
        local = [self.stored.read(f"{group}/offsets").astype(np.int64) for group in groups]
        offsets = _joined_offsets(local, dealing.rows)
        columns = [
            self._interleave([f"{group}/{name}" for group in groups], local, offsets)
            for name in names
        ]
        return Rows(offsets.astype(np.uint64), *columns)

    def _column(self, array: str) -> AnyArray:
        """One column of a shard."""
        if self.allocate is None:
            return self.stored.read(array)
        spec = self.stored.spec(array)
        whole = self.allocate(spec.length, spec.dtype)
        for index in range(spec.chunks):
            whole[slice(*spec.bounds(index))] = self.stored.chunk(spec, index)
        return whole

    def _interleave(
        self, arrays: Sequence[str], local: Sequence[IntArray], offsets: IntArray
    ) -> AnyArray:
        """One column of some shards, their rows in the order of ids, chunk by chunk."""
        specs = [self.stored.spec(array) for array in arrays]
        whole = (self.allocate or np.empty)(int(offsets[-1]), specs[0].dtype)
        for shard, spec in enumerate(specs):
            starts = local[shard][:-1:DEAL_BLOCK]
            target = offsets[:-1][shard * DEAL_BLOCK :: len(specs) * DEAL_BLOCK]
            for index in range(spec.chunks):
                _copy_blocks(
                    self.stored.chunk(spec, index), spec.bounds(index)[0], starts, target, whole
                )
        return whole


def _joined_offsets(local: Sequence[IntArray], rows: int) -> IntArray:
    lengths = np.empty(rows, np.int64)
    for shard, offsets in enumerate(local):
        Dealing(rows, len(local), shard).put(np.diff(offsets), lengths)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _copy_blocks(
    chunk: AnyArray, first: int, starts: IntArray, target: IntArray, whole: AnyArray
) -> None:
    """Copy a chunk's pieces of dealing blocks to where the blocks are when joined."""
    stop = first + len(chunk)
    block = max(0, int(np.searchsorted(starts, first, "right")) - 1)
    position = first
    while position < stop:
        until = stop if block + 1 == len(starts) else min(stop, int(starts[block + 1]))
        start = int(target[block]) + position - int(starts[block])
        whole[start : start + until - position] = chunk[position - first : until - first]
        position, block = until, block + 1
