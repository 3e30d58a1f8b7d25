"""Tuples -> rows in store order on a CUDA device, a range of rows at a time.

What a build of a store does on the device: count tuples, number vertices by falling degree, and
make the rows of a range from the tuples, block by block. Its bytes are those of the CPU's build.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import InputError, UsageError
from ooc_graph.kernels.cuda.build.gather import GRID, DeviceBlock, Gatherer, id_constants, or_null
from ooc_graph.kernels.cuda.runtime.modules import THREADS, blocks_for, cuda, kernel
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.types import AnyArray

OUT_END, IN_END = 1, 2
"""Where an edge is an arc from: its source, its target; the sum of both if from either."""
MANY_TUPLES = "a vertex has 2^32 edges or more: build on the CPU (--device cpu)"


class TupleCount:
    """Tuples at every vertex of a dense range of positions; 4 bytes of device memory each."""

    def __init__(self, vertices: int) -> None:
        cupy = cuda()
        self._degree, self._totals = cupy.zeros(vertices, np.uint32), cupy.zeros(2, np.uint64)
        self._edges = 0

    def add(self, block: DeviceBlock) -> None:
        """Count a block; does not wait."""
        count = kernel("store.cu", "count_tuples", id_constants(block))
        edges, vertices = np.uint64(len(block)), np.uint64(len(self._degree))
        ends = (block.source, block.target)
        count((GRID,), (THREADS,), (edges, vertices, *ends, self._degree, self._totals))
        self._edges += len(block)

    def finish(self) -> tuple[Any, int]:
        """Degrees, uint32 (vertices,), and the number of self-loops; refuses unknown ends."""
        loops, strange = (int(number) for number in self._totals.get())
        if strange:
            raise InputError(
                f"{strange:,} edges have an end that is no vertex",
                advice=f"{len(self._degree):,} vertices were declared",
            )
        if int(self._degree.sum(dtype=np.uint64)) != 2 * (self._edges - loops):
            raise UsageError(MANY_TUPLES)
        return self._degree, loops


@dataclass
class Numbering:
    """Internal ids by falling degree, ties by position; arrays on the device."""

    order: Any  # uint32 (rows,): position of each internal id
    internal_of: Any  # uint32 (vertices,): id of each position, 2**32 - 1 if it has no arc
    tuples: Any  # uint32 (rows,): tuples at each internal id
    arcs: int  # tuples of all rows
    longest: int  # and of the row that has most


def number_vertices(degrees: list[Any]) -> Numbering:
    """Number the vertices; takes 24 bytes a vertex of device memory, degrees included.

    The degrees, uint32 (vertices,), on the device or the host, are taken out of the list.
    """
    cupy = cuda()
    degree = on_device(degrees.pop())
    vertices = len(degree)
    keys = cupy.empty(vertices, np.uint64)
    _run("degree_keys", vertices, {}, np.uint64(vertices), degree, keys)
    if vertices:
        keys.sort()
    rows = int(cupy.count_nonzero(degree))
    order, tuples = (cupy.empty(rows, np.uint32) for _ in range(2))
    internal_of = cupy.full(vertices, 0xFFFFFFFF, np.uint32)
    _run("number_vertices", rows, {}, np.uint64(rows), keys, degree, order, internal_of, tuples)
    arcs, longest = int(tuples.sum(dtype=np.uint64)), int(tuples[:1].sum())
    return Numbering(order, internal_of, tuples, arcs, longest)


def _run(name: str, count: int, constants: dict[str, int | str], *arguments: Any) -> None:
    """One thread for each of ``count``."""
    kernel("store.cu", name, constants)((blocks_for(count),), (THREADS,), arguments)


def arcs_up_to(tuples: list[Any], starts: Any) -> Any:
    """Arcs of all rows in store order up to and with each row, uint64 (rows,), on the device.

    The ``tuples``, uint32 (rows,), by internal id, at least as many as arcs of one side, are taken
    out of the list. ``starts``, uint32 (shards,), on the device, are the rows of the shards before
    each; shards are a power of two.
    """
    cupy, by_id = cuda(), tuples.pop()
    rows = len(by_id)
    if not rows:
        return cupy.zeros(0, np.uint64)
    dealt, shift = cupy.empty(rows, np.uint32), np.uint32(len(starts).bit_length() - 1)
    _run("deal_tuples", rows, {}, np.uint64(rows), shift, starts, by_id, dealt)
    del by_id
    return cupy.cumsum(dealt, dtype=np.uint64)


def arcs_between(ends: Any, bounds: AnyArray) -> list[int]:
    """Arcs from each of some rows, ascending, to before the next; ``ends`` as of `arcs_up_to`."""
    if not len(ends):
        return [0] * (len(bounds) - 1)
    last = cuda().asarray(np.maximum(bounds, 1) - 1)
    upto = np.where(bounds > 0, ends[last].get(), np.uint64(0)).astype(np.int64)
    return [int(arcs) for arcs in np.diff(upto)]


def ranges_of(ends: Any, low: int, high: int, most: int) -> list[tuple[int, int, int]]:
    """Cut rows ``low`` to ``high - 1`` into ranges of at most ``most`` arcs, of one row at least.

    ``ends`` as of `arcs_up_to`. Gives the first row, the row after the last, and the arcs of each
    range at most.
    """
    cupy, found = cuda(), []
    begin = int(ends[low - 1]) if low else 0
    arcs = int(ends[high - 1]) if high > low else begin
    while low < high:
        stop, end = high, arcs
        if arcs - begin > most:
            limit = cupy.asarray([begin + most], np.uint64)
            stop = max(low + 1, int(cupy.searchsorted(ends, limit, "right")[0]))
            end = int(ends[stop - 1])
        found.append((low, stop, end - begin))
        low, begin = stop, end
    return found


@dataclass(frozen=True)
class StoreRows:
    """Rows of a range in store order, on the device."""

    offsets: Any  # uint64 (rows + 1,), from 0 on
    # uint32 (arcs,): neighbours by ascending id; by ascending weight, and these, or None.
    hub: Any
    light: Any = None
    weights: Any = None


@dataclass(frozen=True)
class RowMaker(Gatherer):
    """Makes rows of tuples, or of arcs that were gathered; parameters as of `Gatherer`."""

    def rows(
        self, blocks: Iterator[DeviceBlock], ends: int, low: int, high: int, arcs: int
    ) -> StoreRows:
        """Rows ``low`` to ``high - 1`` from all blocks; parameters and errors as of `Gathered`."""
        gathered = self.gather(ends, low, high, arcs)
        gathered.add_all(blocks)
        return self.made(high - low, gathered.finish())

    def made(self, rows: int, taken: list[Any]) -> StoreRows:
        """So many rows of arcs: keys in any order, and words, as `Gathered.finish` gives them.

        These come in a list, so that nobody else holds on to what sorting has used up.
        """
        if not len(taken[0]):
            return self._none(rows)
        offsets, hub, row_of, lightest = self._lightest(rows, taken)
        if self.stored is None:
            return StoreRows(offsets, hub)
        return StoreRows(offsets, hub, *self._light(hub, row_of, lightest))

    def _none(self, rows: int) -> StoreRows:
        cupy = cuda()
        hub = cupy.empty(0, np.uint32)
        weights = None if self.stored is None else cupy.empty(0, self.stored)
        return StoreRows(cupy.zeros(rows + 1, np.uint64), hub, hub, weights)

    def _lightest(self, rows: int, taken: list[Any]) -> tuple[Any, Any, Any, Any]:
        """Offsets, neighbours by row and id, and, where there are weights, row and lightest."""
        cupy, words, keys = cuda(), taken.pop(), taken.pop()
        order = row_of = lightest = None
        count = len(keys)
        if words is None:
            keys.sort()
        else:
            order = cupy.argsort(keys).view(np.uint64)
            keys = keys[order]
        runs = _run_numbers(keys)
        kept = int(runs[-1])
        offsets, hub = cupy.empty(rows + 1, np.uint64), cupy.empty(kept, np.uint32)
        _run("row_begins", rows + 1, {}, np.uint64(count), keys, runs, np.uint64(rows), offsets)
        if words is not None:
            row_of = cupy.empty(kept, np.uint32)
            lightest = cupy.full(kept, np.iinfo(words.dtype).max, words.dtype)
        sorted_ = (keys, runs, or_null(order), or_null(words))
        written = (hub, or_null(row_of), or_null(lightest))
        _run("keep_lightest", count, self.constants, np.uint64(count), *sorted_, *written)
        return offsets, hub, row_of, lightest

    def _light(self, hub: Any, row_of: Any, lightest: Any) -> tuple[Any, Any]:
        """Neighbours by row, weight, id, and their weights; ids ascend and the sorts are stable."""
        assert self.stored is not None
        cupy, kept = cuda(), len(hub)
        if self.stored.itemsize == 4:
            keys = cupy.empty(kept, np.uint64)
            _run("light_keys", kept, self.constants, np.uint64(kept), row_of, lightest, keys)
            order = cupy.argsort(keys, kind="stable")
        else:
            order = cupy.argsort(lightest, kind="stable")
            keys = row_of[order]
            order = order[cupy.argsort(keys, kind="stable")]
        del keys
        light, weights = cupy.empty(kept, np.uint32), cupy.empty(kept, lightest.dtype)
        integral = np.uint32(self.stored.kind == "i")
        arguments = (np.uint64(kept), order, hub, lightest, integral, light, weights)
        _run("order_light", kept, self.constants, *arguments)
        return light, weights.view(self.stored)


def _run_numbers(keys: Any) -> Any:
    """Runs of equal keys up to and with each key."""
    cupy, count = cuda(), len(keys)
    mark = cupy.empty(count, np.uint8)
    _run("mark_runs", count, {}, np.uint64(count), keys, mark)
    return cupy.cumsum(mark, dtype=np.uint32)
