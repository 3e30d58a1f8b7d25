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
from ooc_graph.kernels.cuda_held import NULL
from ooc_graph.kernels.cuda_modules import THREADS, blocks_for, cuda, kernel

_GRID = 2048
_GIVEN = {"float32": "float", "float64": "double", "int64": "i64"}
OUT_END, IN_END = 1, 2
"""Where an edge is an arc from: its source, its target; the sum of both where from either."""


MANY_TUPLES = "a vertex has 2^32 edges or more: build on the CPU (--device cpu)"


@dataclass(frozen=True)
class DeviceBlock:
    """Tuples on the device.

    Parameters
    ----------
    source, target
        uint32 or uint64 (m,): positions of vertices, or original ids where those have gaps.
    weight
        float32, float64 or int64 (m,), or None.
    """

    source: Any
    target: Any
    weight: Any = None

    def __len__(self) -> int:
        return len(self.source)


class TupleCount:
    """Tuples at every vertex of a dense range.

    Parameters
    ----------
    vertices
        Positions are 0 to ``vertices - 1``; 4 bytes of device memory each.
    """

    def __init__(self, vertices: int) -> None:
        cupy = cuda()
        self._degree, self._totals = cupy.zeros(vertices, np.uint32), cupy.zeros(2, np.uint64)
        self._edges = 0

    def add(self, block: DeviceBlock) -> None:
        """Count a block; does not wait."""
        count = kernel("rows.cu", "count_tuples", _ids(block))
        edges, vertices = np.uint64(len(block)), np.uint64(len(self._degree))
        ends = (block.source, block.target)
        count((_GRID,), (THREADS,), (edges, vertices, *ends, self._degree, self._totals))
        self._edges += len(block)

    def finish(self) -> tuple[Any, int]:
        """Degrees, uint32 (vertices,), and the number of self-loops.

        Raises
        ------
        InputError
            An end that is no vertex.
        UsageError
            2**32 tuples or more at a vertex.
        """
        loops, strange = (int(number) for number in self._totals.get())
        if strange:
            raise InputError(
                f"{strange:,} edges have an end that is no vertex",
                advice=f"{len(self._degree):,} vertices were declared",
            )
        if int(self._degree.sum(dtype=np.uint64)) != 2 * (self._edges - loops):
            raise UsageError(MANY_TUPLES)
        return self._degree, loops


def _ids(block: DeviceBlock) -> dict[str, int | str]:
    return {"ID": "u32" if block.source.dtype.itemsize == 4 else "u64"}


@dataclass
class Numbering:
    """Internal ids by falling degree, ties by position; arrays on the device.

    Parameters
    ----------
    order
        uint32 (rows,): position of each internal id.
    internal_of
        uint32 (vertices,): internal id of each position, 2**32 - 1 where it has no arc.
    tuples
        uint32 (rows,): tuples at each internal id.
    arcs, longest
        Tuples of all rows, and of the row that has most.
    """

    order: Any
    internal_of: Any
    tuples: Any
    arcs: int
    longest: int


def number_vertices(held: list[Any]) -> Numbering:
    """Number the vertices; takes 24 bytes a vertex of device memory, degrees included.

    Parameters
    ----------
    held
        The degrees, uint32 (vertices,), on the device or the host; taken out of the list.
    """
    cupy = cuda()
    degree = cupy.asarray(held.pop())
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


def ranges_of(numbering: Numbering, starts: Any, most: int) -> list[tuple[int, int, int]]:
    """Cut rows in store order into ranges of at most ``most`` arcs, of one row at least.

    Parameters
    ----------
    numbering
        Its ``tuples``, at least as many as arcs of one side, are given up.
    starts
        uint32 (shards,), on the device: rows of the shards before each. Shards are a power of two.

    Returns
    -------
    First row, row after the last, and arcs of each range at most.
    """
    cupy, rows = cuda(), len(numbering.tuples)
    if not rows:
        return []
    dealt, shift = cupy.empty(rows, np.uint32), np.uint32(len(starts).bit_length() - 1)
    arguments = (np.uint64(rows), shift, starts, numbering.tuples, dealt)
    _run("deal_tuples", rows, {}, *arguments)
    numbering.tuples = None
    del arguments
    ends = cupy.cumsum(dealt, dtype=np.uint64)
    del dealt
    found, low, begin, arcs = [], 0, 0, int(ends[-1])
    while low < rows:
        high, end = rows, arcs
        if arcs - begin > most:
            limit = cupy.asarray([begin + most], np.uint64)
            high = max(low + 1, int(cupy.searchsorted(ends, limit, "right")[0]))
            end = int(ends[high - 1])
        found.append((low, high, end - begin))
        low, begin = high, end
    return found


@dataclass(frozen=True)
class StoreRows:
    """Rows of a range in store order, on the device.

    Parameters
    ----------
    offsets
        uint64 (rows + 1,), from 0 on.
    hub, light
        uint32 (arcs,): neighbours by ascending id; by ascending weight, or None.
    weights
        (arcs,) beside ``light``, or None.
    """

    offsets: Any
    hub: Any
    light: Any = None
    weights: Any = None


@dataclass(frozen=True)
class RowMaker:
    """Makes rows of tuples.

    Parameters
    ----------
    internal_of
        As `Numbering` has it.
    originals
        uint64 (vertices,), ascending, on the device, where blocks name original ids; else None.
    starts
        As `ranges_of` has it.
    given, stored
        dtypes of the tuples' weights and of those that are stored (an integer type for int64);
        None: no light rows.
    """

    internal_of: Any
    originals: Any
    starts: Any
    given: np.dtype[Any] | None
    stored: np.dtype[Any] | None

    def rows(
        self, blocks: Iterator[DeviceBlock], ends: int, low: int, high: int, arcs: int
    ) -> StoreRows:
        """Rows ``low`` to ``high - 1`` from all blocks.

        Parameters
        ----------
        ends
            `OUT_END`, `IN_END`, or the sum of both.
        arcs
            Arcs there may be at most.

        Raises
        ------
        InputError
            The blocks hold more, or other vertices, than were counted.
        """
        # Handed over in a list, so that nobody else holds on to what sorting has used up.
        taken = self._take(blocks, ends, low, high, arcs)
        return self._sorted(high - low, taken)

    @property
    def _constants(self) -> dict[str, int | str]:
        if self.given is None or self.stored is None:
            return {}
        return {"GIVEN": _GIVEN[self.given.name], "WORD": f"u{8 * self.stored.itemsize}"}

    def _take(
        self, blocks: Iterator[DeviceBlock], ends: int, low: int, high: int, arcs: int
    ) -> list[Any]:
        cupy = cuda()
        keys = cupy.empty(arcs, np.uint64)
        words = None if self.stored is None else cupy.empty(arcs, f"u{self.stored.itemsize}")
        totals = cupy.zeros(2, np.uint64)
        vertices = (np.uint64(len(self.internal_of)), self.internal_of, _or_null(self.originals))
        limits = (np.uint32(ends), np.uint32(low), np.uint32(high), np.uint64(arcs))
        shift = np.uint32(len(self.starts).bit_length() - 1)
        for block in blocks:
            take = kernel("store.cu", "take_dealt", {**_ids(block), **self._constants})
            weight = NULL if words is None else block.weight
            edges = (np.uint64(len(block)), block.source, block.target, weight)
            where = (*vertices, shift, self.starts, *limits)
            take((_GRID,), (THREADS,), (*edges, *where, totals, keys, _or_null(words)))
        taken, strange = (int(number) for number in totals.get())
        if strange or taken > arcs:
            raise InputError("the second pass over the edges found others than the first")
        return [keys[:taken], None if words is None else words[:taken]]

    def _sorted(self, rows: int, taken: list[Any]) -> StoreRows:
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
        place = _places(keys)
        kept = int(place[-1])
        offsets, hub = cupy.empty(rows + 1, np.uint64), cupy.empty(kept, np.uint32)
        _run("row_begins", rows + 1, {}, np.uint64(count), keys, place, np.uint64(rows), offsets)
        if words is not None:
            row_of = cupy.empty(kept, np.uint32)
            lightest = cupy.full(kept, np.iinfo(words.dtype).max, words.dtype)
        held = (keys, place, _or_null(order), _or_null(words))
        written = (hub, _or_null(row_of), _or_null(lightest))
        _run("keep_lightest", count, self._constants, np.uint64(count), *held, *written)
        return offsets, hub, row_of, lightest

    def _light(self, hub: Any, row_of: Any, lightest: Any) -> tuple[Any, Any]:
        """Neighbours by row, weight, id, and their weights; ids ascend and the sorts are stable."""
        assert self.stored is not None
        cupy, kept = cuda(), len(hub)
        if self.stored.itemsize == 4:
            keys = cupy.empty(kept, np.uint64)
            _run("light_keys", kept, self._constants, np.uint64(kept), row_of, lightest, keys)
            order = cupy.argsort(keys, kind="stable")
        else:
            order = cupy.argsort(lightest, kind="stable")
            keys = row_of[order]
            order = order[cupy.argsort(keys, kind="stable")]
        del keys
        light, weights = cupy.empty(kept, np.uint32), cupy.empty(kept, lightest.dtype)
        integral = np.uint32(self.stored.kind == "i")
        arguments = (np.uint64(kept), order, hub, lightest, integral, light, weights)
        _run("order_light", kept, self._constants, *arguments)
        return light, weights.view(self.stored)


def _places(keys: Any) -> Any:
    """Runs of equal keys up to and with each key."""
    cupy, count = cuda(), len(keys)
    mark = cupy.empty(count, np.uint8)
    _run("mark_runs", count, {}, np.uint64(count), keys, mark)
    return cupy.cumsum(mark, dtype=np.uint32)


def _or_null(array: Any) -> Any:
    return NULL if array is None else array
