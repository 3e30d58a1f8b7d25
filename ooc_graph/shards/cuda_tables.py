"""What a store of a build on a CUDA device holds; arrays there -> arrays of the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.kernels.cuda.build.store_rows import IN_END, OUT_END, Numbering, StoreRows
from ooc_graph.layout.names import (
    HUB,
    IN,
    INTERNAL_OF,
    LIGHT,
    ORIGINAL_OF,
    ORIGINALS,
    OUT,
    TUPLES,
    internal_dtype,
    rows_path,
)
from ooc_graph.shards.chunk_sink import ChunkSink, Column
from ooc_graph.shards.cuda_shard_ranges import ShardRange, Span
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.tally import Packings, Tally, store_attributes
from ooc_graph.types import IntArray

_PIECE = 1 << 21
_NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class StoreLayout:
    """Vertices, shards and columns of a store."""

    source: EdgeSource
    space: VertexSpace
    total: Tally  # what was counted
    orders: tuple[str, ...]
    weight_dtype: np.dtype[Any] | None  # of stored weights
    starts: IntArray  # int64 (shards + 1,): first row of each shard in store order; and all rows
    packings: Packings  # how columns are packed

    @property
    def shards(self) -> int:
        """Number of virtual shards."""
        return len(self.starts) - 1

    @property
    def rows(self) -> int:
        """Rows of a side."""
        return int(self.starts[-1])

    @property
    def weight_bytes(self) -> int:
        """Bytes of a stored weight, 0 without."""
        return self.weight_dtype.itemsize if self.weight_dtype else 0

    @property
    def sides(self) -> dict[str, int]:
        """Which ends of an edge are arcs of a side."""
        if self.source.directed:
            return {OUT: OUT_END, IN: IN_END}
        return {OUT: OUT_END | IN_END}

    def spans(self, shard_range: ShardRange) -> list[Span]:
        """Shards of each side in a range of shards."""
        return shard_range.spans(self.sides, self.shards)

    def rows_of(self, shard_range: ShardRange) -> int:
        """Rows of all sides in a range of shards."""
        spans = self.spans(shard_range)
        return sum(int(self.starts[stop] - self.starts[first]) for _, first, stop in spans)

    def attributes(self, arcs: dict[str, int], description: dict[str, Any]) -> dict[str, Any]:
        """Attributes of the store, given the arcs of each side and what the source says."""
        return store_attributes(
            self.total,
            description,
            directed=self.source.directed,
            weight_dtype=self.weight_dtype,
            vertices=self.space.count,
            rows=self.rows,
            first_id=None if self.space.originals else self.space.first,
            arcs=arcs,
            shards=self.shards,
            orders=self.orders,
            compressed=bool(self.packings),
        )


def write_tables(sink: ChunkSink, numbering: Numbering, first: int, originals: Any) -> None:
    """Write who is which internal id, and the tuples of each.

    The numbering drops its ``order`` as soon as it is written. ``first`` is the original id of
    position 0 if there are no gaps; else ``originals``, uint64 (vertices,), are on the device.
    """
    original_of = sink.column(ORIGINAL_OF, np.int64)
    for start in range(0, len(numbering.order), _PIECE):
        order = numbering.order[start : start + _PIECE]
        if originals is None:
            original_of.append(order.astype(np.int64) + first)
        else:
            original_of.append(originals[order].view(np.int64))
    original_of.finish()
    numbering.order = None
    internal_of = sink.column(INTERNAL_OF, internal_dtype(len(numbering.tuples)))
    _write_internal(internal_of, numbering.internal_of, internal_dtype(len(numbering.tuples)))
    tuples = sink.column(TUPLES, np.uint32)
    tuples.append(numbering.tuples)
    tuples.finish()
    if originals is not None:
        column = sink.column(ORIGINALS, np.int64)
        column.append(originals.view(np.int64))
        column.finish()


def _write_internal(column: Column, internal_of: Any, dtype: np.dtype[Any]) -> None:
    """As signed numbers, -1 where a position has no internal id."""
    if dtype == np.int32:
        column.append(internal_of.view(np.int32))
    else:
        for start in range(0, len(internal_of), _PIECE):
            piece = internal_of[start : start + _PIECE].astype(np.int64)
            piece[piece == _NONE] = -1
            column.append(piece)
    column.finish()


class SideWriter:
    """Writes the rows of one side, shard after shard; ``starts`` as of `StoreLayout`.

    Those of ``shards``, from one to before another; None: of all.
    """

    def __init__(
        self,
        sink: ChunkSink,
        side: str,
        orders: Sequence[str],
        starts: IntArray,
        weight_dtype: np.dtype[Any] | None,
        packings: Packings | None = None,
        shards: tuple[int, int] | None = None,
    ) -> None:
        self._packings = packings or {}
        self._sink, self._side, self._orders = sink, side, orders
        self._starts, self._weight_dtype = starts, weight_dtype
        self._shard, self._stop = (0, len(starts) - 1) if shards is None else shards
        self.arcs = 0  # written so far, in one row order
        self._open()

    @property
    def _is_complete(self) -> bool:
        return self._shard == self._stop

    def _open(self) -> None:
        """Begin the columns of a shard."""
        self._in_shard = 0
        self._offsets, self._columns = list[Column](), dict[str, Column]()
        for order in self._orders:
            group = rows_path(self._shard, self._side, order)
            offsets = self._column(group, "offsets", np.uint64)
            offsets.append(np.zeros(1, np.uint64))
            self._offsets.append(offsets)
            self._columns[order] = self._column(group, "neighbors", np.uint32)
        if LIGHT in self._orders and self._weight_dtype is not None:
            group = rows_path(self._shard, self._side, LIGHT)
            self._columns["weights"] = self._column(group, "weights", self._weight_dtype)

    def _column(self, group: str, name: str, dtype: Any) -> Column:
        return self._sink.column(f"{group}/{name}", dtype, self._packings.get(name))

    def _close(self) -> None:
        for column in (*self._offsets, *self._columns.values()):
            column.finish()
        self._shard += 1
        if not self._is_complete:
            self._open()

    def add(self, low: int, high: int, rows: StoreRows) -> None:
        """Write rows ``low`` to ``high - 1``, which follow the last ones."""
        at = low
        while at < high:
            end = int(self._starts[self._shard + 1])
            stop = min(high, end)
            if at < stop:
                self._append(at - low, stop - low, rows)
            at = stop
            if at == end:
                self._close()

    def _append(self, low: int, high: int, rows: StoreRows) -> None:
        begin, end = int(rows.offsets[low]), int(rows.offsets[high])
        # Modulo 2**64, as the addition is.
        shift = np.uint64((self._in_shard - begin) % (1 << 64))
        offsets = rows.offsets[low + 1 : high + 1] + shift
        for column in self._offsets:
            column.append(offsets)
        parts = {HUB: rows.hub, LIGHT: rows.light, "weights": rows.weights}
        for name, column in self._columns.items():
            column.append(parts[name][begin:end])
        self._in_shard += end - begin
        self.arcs += end - begin

    def finish(self) -> None:
        """No more rows come: what is left are shards without any."""
        while not self._is_complete:
            self._close()
