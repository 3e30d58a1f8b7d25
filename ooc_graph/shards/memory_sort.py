"""Edges in memory -> rows in memory, in place: buckets are sorted by threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.kernels.cpu.build.arcs import Arcs
from ooc_graph.kernels.cpu.build.bucket_sort import sort_by_weight, sort_strips, split_strips
from ooc_graph.kernels.cpu.build.rows import drop_duplicates, from_keys
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.shards.memory_vertices import InThreads, Vertices
from ooc_graph.shards.plan import Buckets
from ooc_graph.types import AnyArray, IntArray, Rows

# Two strips of scratch stay in a core's own cache.
STRIP_ARCS = 1 << 15


@dataclass(frozen=True)
class Plan:
    """What both passes need to know; ``weight_dtype`` is None if no weights are kept."""

    source: EdgeSource
    vertices: Vertices
    buckets: Buckets
    id_dtype: np.dtype[Any]
    weight_dtype: np.dtype[Any] | None
    orders: tuple[str, ...]
    in_threads: InThreads

    @property
    def kept(self) -> int:
        """Rows."""
        return len(self.vertices.tuples)

    @property
    def key_dtype(self) -> np.dtype[Any]:
        """Unsigned type of a weight's size."""
        return np.dtype(f"u{self.weight_dtype.itemsize if self.weight_dtype else 4}")


@dataclass(frozen=True)
class Arrays:
    """Final arrays, and the columns that arcs wait in, which are the same memory."""

    hub: AnyArray | None
    light: AnyArray | None
    keys: AnyArray
    rows: AnyArray

    @property
    def neighbors(self) -> AnyArray:
        """Where neighbours wait."""
        kept = self.light if self.hub is None else self.hub
        assert kept is not None
        return kept


class Sorting:
    """Sorts buckets by threads, in order as far as their final positions go."""

    def __init__(self, plan: Plan, starts: IntArray, arrays: Arrays) -> None:
        self._plan, self._starts, self._arrays = plan, starts.tolist(), arrays
        self._offsets = np.empty(plan.kept + 1, np.uint64)
        self._offsets[0] = 0
        self._bits = max(1, (plan.kept - 1).bit_length())
        self._turn = threading.Condition()
        self._next, self._merged, self._end = 0, 0, 0
        self._failed = False

    def run(self) -> dict[str, Rows]:
        """Sort all buckets; the arrays are cut to what is left of them."""
        self._plan.in_threads(self._work)
        arrays, kept = self._arrays, self._end
        for array in (arrays.hub, arrays.light, arrays.keys):
            if array is not None and len(array):
                array.resize(kept, refcheck=False)
        rows = {}
        if arrays.hub is not None:
            rows[HUB] = Rows(self._offsets, arrays.hub)
        if arrays.light is not None and self._plan.weight_dtype is not None:
            weights = arrays.keys.view(self._plan.weight_dtype)
            rows[LIGHT] = Rows(self._offsets, arrays.light, weights)
        return rows

    def _work(self) -> None:
        scratch = _Scratch()
        try:
            while (bucket := self._take()) is not None:
                self._bucket(bucket, scratch)
        except BaseException:
            with self._turn:
                self._failed = True
                self._turn.notify_all()
            raise

    def _take(self) -> int | None:
        with self._turn:
            if self._next == len(self._plan.buckets):
                return None
            self._next += 1
            return self._next - 1

    def _bucket(self, bucket: int, scratch: _Scratch) -> None:
        part = slice(self._starts[bucket], self._starts[bucket + 1])
        arrays, buckets = self._arrays, self._plan.buckets
        first = int(buckets.first[bucket])
        tuples = self._plan.vertices.tuples[first : first + int(buckets.rows[bucket])]
        arcs = Arcs(arrays.rows[part], arrays.neighbors[part], arrays.keys[part])
        split = scratch.like("split", arcs, part.stop - part.start)
        strips = np.empty(int(buckets.arcs[bucket]) // STRIP_ARCS + 2, np.int64)
        offsets = np.empty(len(tuples) + 1, np.int64)
        largest = split_strips(arcs, tuples, STRIP_ARCS, strips, offsets, split)
        spare = scratch.like("a", arcs, largest), scratch.like("b", arcs, largest)
        sort_strips(strips, offsets, self._bits, split, *spare)
        lengths = np.empty(len(tuples), np.int64)
        kept = drop_duplicates(offsets, split.neighbors, split.weights, lengths)
        merged = Arcs(split.rows[:0], split.neighbors[:kept], split.weights[:kept])
        start = self._start_of(bucket, kept)
        final = slice(start, start + kept)
        ends = self._offsets[first + 1 : first + 1 + len(lengths)]
        np.cumsum(lengths, out=ends.view(np.int64))
        ends += np.uint64(start)
        if arrays.hub is not None:
            arrays.hub[final] = merged.neighbors
        if arrays.light is not None and self._plan.weight_dtype is not None:
            out = Arcs(merged.rows, arrays.light[final], arrays.keys[final])
            sort_by_weight(strips, lengths, merged, *spare, out)
            from_keys(out.weights, self._plan.weight_dtype)

    def _start_of(self, bucket: int, kept: int) -> int:
        """First position of a bucket, known when all before it have been sorted."""
        with self._turn:
            self._turn.wait_for(lambda: self._merged == bucket or self._failed)
            if self._failed:
                raise RuntimeError("another thread failed")
            start = self._end
            self._end += kept
            self._merged += 1
            self._turn.notify_all()
            return start


class _Scratch:
    """Columns of a thread, as large as the largest that it asked for."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, int], AnyArray] = {}

    def like(self, name: str, columns: Arcs, length: int) -> Arcs:
        """Uninitialised columns of the same types; those of no length stay so."""
        return Arcs(
            *(
                self._one((name, i), length if len(column) else 0, column.dtype)
                for i, column in enumerate(columns)
            )
        )

    def _one(self, key: tuple[str, int], length: int, dtype: np.dtype[Any]) -> AnyArray:
        buffer = self._buffers.get(key)
        if buffer is None or len(buffer) < length:
            self._buffers.pop(key, None)
            buffer = self._buffers[key] = np.empty(length, dtype)
        return buffer[:length]
