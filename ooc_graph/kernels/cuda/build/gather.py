"""Tuples -> arcs as keys on a CUDA device: row << 32 | neighbour, rows in store order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.cuda.runtime.modules import THREADS, cuda, kernel
from ooc_graph.kernels.cuda.runtime.rows import NULL

GRID = 2048
"""Blocks of kernels whose threads take several tuples each."""
CHANGED = "the second pass over the edges found others than the first"
_GIVEN = {"float32": "float", "float64": "double", "int64": "i64"}


@dataclass(frozen=True)
class DeviceBlock:
    """Tuples on the device."""

    # uint32 or uint64 (m,): positions of vertices, or original ids if those have gaps.
    source: Any
    target: Any
    weight: Any = None  # float32, float64 or int64 (m,), or None

    def __len__(self) -> int:
        return len(self.source)


def id_constants(block: DeviceBlock) -> dict[str, int | str]:
    """What sources are compiled with for the ids of a block."""
    return {"ID": "u32" if block.source.dtype.itemsize == 4 else "u64"}


def or_null(array: Any) -> Any:
    """An array that may be None, as a kernel's argument."""
    return NULL if array is None else array


@dataclass(frozen=True)
class Gatherer:
    """Who is which row, and what weights are stored as."""

    internal_of: Any  # as `ooc_graph.kernels.cuda.build.store_rows.Numbering` has it
    originals: Any  # uint64 (vertices,), ascending, on the device, if blocks name these; else None
    starts: Any  # as `ooc_graph.kernels.cuda.build.store_rows.ranges_of` has it
    # Types of the tuples' weights and of those that are stored (an integer type for int64); None:
    # no light rows.
    given: np.dtype[Any] | None
    stored: np.dtype[Any] | None

    @property
    def word(self) -> np.dtype[Any] | None:
        """Type of the words that weights are sorted by, or None."""
        return None if self.stored is None else np.dtype(f"u{self.stored.itemsize}")

    @property
    def constants(self) -> dict[str, int | str]:
        """What ``store.cu`` is compiled with for these weights."""
        if self.given is None or self.stored is None:
            return {}
        return {"GIVEN": _GIVEN[self.given.name], "WORD": f"u{8 * self.stored.itemsize}"}

    def gather(self, ends: int, low: int, high: int, arcs: int) -> Gathered:
        """Begin with the arcs of rows ``low`` to ``high - 1``; parameters as of `Gathered`."""
        return Gathered(self, ends, low, high, arcs)


class Gathered:
    """Arcs of rows ``low`` to ``high - 1``, from the blocks that are added, in any order.

    ``ends`` is `ooc_graph.kernels.cuda.build.store_rows.OUT_END`, ``IN_END``, or the sum of both.
    Of ``arcs``, the most there may be, each takes 8 bytes of device memory, and a word for the
    weight.
    """

    def __init__(self, by: Gatherer, ends: int, low: int, high: int, arcs: int) -> None:
        cupy = cuda()
        self._by, self._arcs = by, arcs
        self._arrays = [cupy.empty(arcs, np.uint64)]
        self._arrays.append(None if by.word is None else cupy.empty(arcs, by.word))
        self._totals = cupy.zeros(2, np.uint64)
        self._limits = (np.uint32(ends), np.uint32(low), np.uint32(high), np.uint64(arcs))

    def add(self, block: DeviceBlock) -> None:
        """Take a block's arcs; does not wait."""
        by, (keys, words) = self._by, self._arrays
        take = kernel("store.cu", "take_dealt", {**id_constants(block), **by.constants})
        weight = NULL if words is None else block.weight
        edges = (np.uint64(len(block)), block.source, block.target, weight)
        vertices = (np.uint64(len(by.internal_of)), by.internal_of, or_null(by.originals))
        shift = np.uint32(len(by.starts).bit_length() - 1)
        where = (*vertices, shift, by.starts, *self._limits)
        take((GRID,), (THREADS,), (*edges, *where, self._totals, keys, or_null(words)))

    def add_all(self, blocks: Iterable[DeviceBlock]) -> None:
        """Take all blocks; the last one is free again."""
        for block in blocks:
            self.add(block)

    def finish(self) -> list[Any]:
        """Keys, uint64, rows counted from ``low``, and words, or None; they are nowhere else.

        In a list, so that who takes them out is the only one who has them. If there are more arcs,
        or other vertices, than were counted, that is an `InputError`.
        """
        taken, strange = (int(number) for number in self._totals.get())
        if strange or taken > self._arcs:
            raise InputError(CHANGED)
        words, keys = self._arrays.pop(), self._arrays.pop()
        return [keys[:taken], None if words is None else words[:taken]]


def sort_by_key(arcs: list[Any]) -> list[Any]:
    """Keys in ascending order, with their words; what was given is taken out of the list."""
    cupy, words, keys = cuda(), arcs.pop(), arcs.pop()
    if words is None:
        keys.sort()
        return [keys, None]
    order = cupy.argsort(keys)
    keys = keys[order]
    return [keys, words[order]]
