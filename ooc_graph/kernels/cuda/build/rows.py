"""Edges in device memory -> rows in device memory: the arrays that `shards.in_memory` makes.

The arcs of a range of rows are gathered, sorted and cut of duplicates at a time, so that memory
beside edges and rows is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels.cuda.runtime.modules import (
    THREADS,
    blocks_for,
    cuda,
    device_bytes,
    kernel,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.rows import MOST_ROWS, NULL
from ooc_graph.types import Rows

_GRID = 2048
RANGE_ARCS = 1 << 28
"""Arcs of a range, unless memory is short."""
ARC_BYTES = 64
"""Device memory that sorting takes for each arc of a range, at most."""


@dataclass(frozen=True)
class DeviceGraph:
    """A searchable graph in device memory; all arrays are CuPy's.

    Parameters
    ----------
    directed
        False: ``into`` rows are the ``out`` rows (the same objects).
    original_of
        int64 (rows,): original id of each internal id.
    internal_of
        int32 or int64 (vertices,): internal id, -1 where a vertex has no arc.
    tuples
        uint32 (rows,): input tuples at each internal id, duplicates counted, self-loops not.
    edges, self_loops
        Input tuples, and self-loops among them.
    out_hub, into_hub, out_light, into_light
        Rows, or None where that order is not made.
    """

    directed: bool
    original_of: Any
    internal_of: Any
    tuples: Any
    edges: int
    self_loops: int
    out_hub: Rows | None
    into_hub: Rows | None
    out_light: Rows | None
    into_light: Rows | None


def build_rows(
    source: Any,
    target: Any,
    weight: Any = None,
    *,
    vertices: int,
    directed: bool = False,
    orders: tuple[str, ...] = ("hub",),
    range_arcs: int | None = None,
) -> DeviceGraph:
    """Sort edges on the device into rows.

    Parameters
    ----------
    source, target
        uint32, int64 or uint64 (m,), on the device: ids from 0 to ``vertices - 1``.
    weight
        float32 (m,), on the device, or None; wanted for light-first rows.
    vertices
        Number of vertices, isolated ones included.
    directed
        Whether an edge is an arc from its source only.
    orders
        ``"hub"``, ``"light"`` or both.
    range_arcs
        Arcs that are sorted at a time, one row at least; None: as free memory allows.

    Raises
    ------
    UsageError
        Types that are not supported, more than 2**32 - 2 vertices, 2**32 tuples at a vertex.
    InputError
        An id that is not below ``vertices``.
    MemoryBudgetError
        The device's memory is too small.
    """
    cuda()
    _check(source, target, weight, vertices, orders)
    with within_memory("sorting these edges"):
        build = _Build(source, target, weight, vertices, orders, range_arcs)
        return build.graph(directed)


def _check(source: Any, target: Any, weight: Any, vertices: int, orders: tuple[str, ...]) -> None:
    if source.dtype != target.dtype or source.dtype not in (np.uint32, np.int64, np.uint64):
        raise UsageError(
            f"edges on a device have ids of type uint32, int64 or uint64, not {source.dtype} "
            f"and {target.dtype}"
        )
    if len(source) != len(target) or (weight is not None and len(weight) != len(source)):
        raise UsageError("source, target and weight must have one length")
    if not 0 < vertices <= MOST_ROWS:
        raise UsageError(f"{vertices:,} vertices: a device takes 1 to {MOST_ROWS:,}")
    if not orders or not set(orders) <= {"hub", "light"}:
        raise UsageError(f"row orders are hub and light, not {', '.join(orders) or 'none'}")
    if "light" in orders and (weight is None or weight.dtype != np.float32):
        found = "none" if weight is None else str(weight.dtype)
        raise UsageError(f"light-first rows on a device take weights of type float32, not {found}")


class _Build:
    """One set of edges on its way to rows."""

    def __init__(
        self,
        source: Any,
        target: Any,
        weight: Any,
        vertices: int,
        orders: tuple[str, ...],
        range_arcs: int | None,
    ) -> None:
        cupy = cuda()
        self._orders, self._range = orders, range_arcs
        self._weight = cupy.ascontiguousarray(weight) if "light" in orders else None
        self._source, self._target = (cupy.ascontiguousarray(ends) for ends in (source, target))
        self._ids = {"ID": "u32" if source.dtype.itemsize == 4 else "u64"}
        self._edges = np.uint64(len(source))
        degree = self._count(vertices)
        self._number(degree)

    def _count(self, vertices: int) -> Any:
        cupy = cuda()
        degree, totals = cupy.zeros(vertices, np.uint32), cupy.zeros(2, np.uint64)
        count = kernel("rows.cu", "count_tuples", self._ids)
        ends = (self._source, self._target)
        count((_GRID,), (THREADS,), (self._edges, np.uint64(vertices), *ends, degree, totals))
        self._loops, strange = (int(number) for number in totals.get())
        if strange:
            raise InputError(
                f"{strange:,} edges have an end that is no vertex",
                advice=f"the vertices were said to be 0 to {vertices - 1}",
            )
        if int(degree.sum(dtype=np.uint64)) != 2 * (len(self._source) - self._loops):
            raise UsageError("a vertex has 2^32 edges or more")
        return degree

    def _number(self, degree: Any) -> None:
        """Internal ids by falling degree, ties by original id."""
        cupy, vertices = cuda(), len(degree)
        low = np.uint64(0xFFFFFFFF)
        keys = (low - degree.astype(np.uint64)) << np.uint64(32)
        keys |= cupy.arange(vertices, dtype=np.uint64)
        keys.sort()
        rows = int(cupy.count_nonzero(degree))
        self.original_of = (keys[:rows] & low).astype(np.int64)
        self.internal_of = cupy.full(vertices, -1, np.int32 if rows < 1 << 31 else np.int64)
        self.internal_of[self.original_of] = cupy.arange(rows, dtype=self.internal_of.dtype)
        self.tuples = degree[self.original_of]

    def graph(self, directed: bool) -> DeviceGraph:
        cupy = cuda()
        rows = len(self.tuples)
        # As 32 bits, -1 is none.
        internal_of = self.internal_of.astype(np.uint32, copy=False).view(np.uint32)
        from_, to = (cupy.empty(len(self._source), np.uint32) for _ in range(2))
        counts = cupy.zeros(rows, np.uint32) if directed else None
        rename = kernel("rows.cu", "rename_ends", self._ids)
        arguments = (self._edges, self._source, self._target, internal_of, from_, to)
        rename((_GRID,), (THREADS,), (*arguments, NULL if counts is None else counts))
        if counts is None:
            out = into = self._side(from_, to, self.tuples, both=True)
        else:
            out = self._side(from_, to, counts, both=False)
            into = self._side(to, from_, self.tuples - counts, both=False)
        return DeviceGraph(
            directed,
            self.original_of,
            self.internal_of,
            self.tuples,
            len(self._source),
            self._loops,
            out.get("hub"),
            into.get("hub"),
            out.get("light"),
            into.get("light"),
        )

    def _side(self, from_: Any, to: Any, counts: Any, *, both: bool) -> dict[str, Rows]:
        """Rows of one side in every order that is wanted."""
        cupy = cuda()
        ends = cupy.cumsum(counts, dtype=np.uint64)
        arcs = int(ends[-1]) if len(ends) else 0
        side = _Side(self._orders, len(counts), arcs)
        for low, high, most in self._ranges(ends, arcs):
            keys = cupy.empty(most, np.uint64)
            weights = None if self._weight is None else cupy.empty(most, np.uint32)
            taken = cupy.zeros(1, np.uint64)
            take = kernel("rows.cu", "take_arcs")
            edges = (self._edges, from_, to, NULL if weights is None else self._weight)
            rows = (np.uint32(both), np.uint32(low), np.uint32(high), taken)
            held = (keys, NULL if weights is None else weights)
            take((_GRID,), (THREADS,), (*edges, *rows, *held))
            side.add(low, high, keys, weights)
        return side.rows()

    def _ranges(self, ends: Any, arcs: int) -> Iterator[tuple[int, int, int]]:
        """First and last row of each range, and its arcs; one row at least."""
        cupy, rows = cuda(), len(ends)
        free_bytes, _ = device_bytes()
        most = self._range or max(1, min(RANGE_ARCS, free_bytes // ARC_BYTES))
        low, begin = 0, 0
        while low < rows:
            if arcs - begin <= most:
                high, end = rows, arcs
            else:
                limit = cupy.asarray([begin + most], np.uint64)
                high = max(low + 1, int(cupy.searchsorted(ends, limit, "right")[0]))
                end = int(ends[high - 1])
            yield low, high, end - begin
            low, begin = high, end


class _Side:
    """Rows of one side, filled range by range; what duplicates leave free stays at the end."""

    def __init__(self, orders: tuple[str, ...], rows: int, arcs: int) -> None:
        cupy = cuda()
        self._offsets = cupy.zeros(rows + 1, np.uint64)
        self._hub: Any = cupy.empty(arcs, np.uint32) if "hub" in orders else None
        self._light: Any = cupy.empty(arcs, np.uint32) if "light" in orders else None
        self._weights: Any = None if self._light is None else cupy.empty(arcs, np.uint32)
        self._kept = 0

    def add(self, low: int, high: int, keys: Any, weights: Any) -> None:
        """Take a range's keys, unordered, with their weights."""
        cupy, count = cuda(), len(keys)
        order: Any = NULL
        if weights is None:
            keys.sort()
        else:
            order = cupy.argsort(keys).astype(np.uint64, copy=False)
            keys = keys[order]
        place = self._places(keys)
        kept = int(place[-1]) if count else 0
        end = self._kept + kept
        hub = cupy.empty(kept, np.uint32) if self._hub is None else self._hub[self._kept : end]
        light = None if weights is None else cupy.empty(kept, np.uint64)
        keep = kernel("rows.cu", "keep_first")
        held = (keys, place, order, NULL if weights is None else weights)
        where = (np.uint32(low), np.uint32(high), np.uint64(self._kept))
        written = (hub, NULL if light is None else light, self._offsets[low : high + 1])
        blocks = blocks_for(count + 1)
        keep((blocks,), (THREADS,), (np.uint64(count), *held, *where, *written))
        if light is not None:
            # Stable, so that equally light neighbours stay in the order of their ids.
            order = cupy.argsort(light, kind="stable").astype(np.uint64, copy=False)
            columns = (self._light[self._kept : end], self._weights[self._kept : end])
            reorder = kernel("rows.cu", "reorder")
            arguments = (np.uint64(kept), light, order, hub, *columns)
            reorder((blocks_for(kept),), (THREADS,), arguments)
        self._kept = end

    @staticmethod
    def _places(keys: Any) -> Any:
        """Runs of equal keys up to and with each key."""
        cupy, count = cuda(), len(keys)
        mark = cupy.empty(count, np.uint8)
        kernel("rows.cu", "mark_first")(
            (blocks_for(count),), (THREADS,), (np.uint64(count), keys, mark)
        )
        return cupy.cumsum(mark, dtype=np.uint32)

    def rows(self) -> dict[str, Rows]:
        """All rows, once every range is there."""
        found = {}
        if self._hub is not None:
            found["hub"] = Rows(self._offsets, self._hub[: self._kept])
        if self._light is not None:
            weights = self._weights[: self._kept].view(np.float32)
            found["light"] = Rows(self._offsets, self._light[: self._kept], weights)
        return found
