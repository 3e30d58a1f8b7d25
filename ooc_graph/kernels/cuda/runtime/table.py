"""Candidates for rows of other ranks, of each target the best, in a hash table on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.steps import EMITTED, Steps, values_at
from ooc_graph.types import AnyArray


class TargetTable:
    """Takes ``entries`` before it has to be emptied; ``table.cuh`` puts them in.

    A push goes on while half of the table is free, along as many arcs at a time as there are free
    entries. ``steps`` count the entries. ``most`` has the largest value of each column beside the
    targets: the column is filled with it, and kernels make it smaller. What is moved to host memory
    to make room stays there until it is taken.
    """

    def __init__(self, steps: Steps, entries: int, ids: np.dtype[Any], most: Sequence[Any]) -> None:
        cupy, slots = cuda(), slots_for(entries)
        self._steps, self.entries, self._most = steps, entries, most
        self._last = np.uint64(slots - 1)
        self._keys = cupy.empty(slots, ids)
        self._taken = cupy.empty(entries, np.uint32)
        self.columns = [cupy.empty(slots, one.dtype) for one in most]
        self._moved: list[list[AnyArray]] = []
        self._clear()

    def _clear(self) -> None:
        self._steps.zero(EMITTED)
        self._keys.fill(np.iinfo(self._keys.dtype).max)
        for column, most in zip(self.columns, self._most, strict=True):
            column.fill(most)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What kernels are given as ``TABLE``."""
        return self._last, self._keys, self._taken

    @property
    def free(self) -> int:
        """Entries that it can still take; waits for the device."""
        return self.entries - self._steps.fetch()[EMITTED]

    @property
    def has_moved(self) -> bool:
        """Whether entries wait in host memory."""
        return bool(self._moved)

    def make_room(self) -> int:
        """Move all to host memory if more than half of it is taken; entries that are free then."""
        free = self.free
        if 2 * free >= self.entries:
            return free
        self._move(self.entries - free)
        return self.entries

    def _move(self, count: int) -> None:
        slots = self._taken[:count]
        self._moved.append([values_at(one, slots) for one in (self._keys, *self.columns)])
        self._clear()

    def take(self) -> list[AnyArray]:
        """Targets, in any order, and their columns; the table is empty then.

        A target stands there once for each time that it was moved.
        """
        if count := self.entries - self.free:
            self._move(count)
        moved, self._moved = self._moved, []
        if len(moved) == 1:
            return moved[0]
        nothing = [np.empty(0, one.dtype) for one in (self._keys, *self.columns)]
        return [np.concatenate(column) for column in zip(nothing, *moved, strict=True)]


def slots_for(entries: int) -> int:
    """Number of slots: a power of two, at least twice the number of entries."""
    return 1 << (2 * max(entries, 1) - 1).bit_length()


def table_bytes(entries: int, ids: int, values: int) -> int:
    """Device memory of a table; ``ids`` and ``values`` are bytes of an entry."""
    return slots_for(entries) * (ids + values) + 4 * entries
