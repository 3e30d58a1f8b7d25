"""Columns in as few bytes as their values take, as an answer travels between processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Columns, Ids, parent_id_dtype
from ooc_graph.layout.names import COMPONENT, LEVEL, PARENT, VERTEX
from ooc_graph.ranges import in_ranges
from ooc_graph.types import AnyArray


class Narrow(Columns):
    """Columns that are in order, in fewer bytes than their types have, in host memory.

    ``narrow`` are arrays by column, (vertices,); of `VERTEX` only if ids have gaps. ``first`` is
    the first id if they have none.
    """

    def __init__(
        self, narrow: Mapping[str, AnyArray], dtypes: Mapping[str, np.dtype[Any]], first: int | None
    ) -> None:
        size = len(next(iter(narrow.values())))
        of_rows = np.broadcast_to(np.int32(-1), size), np.empty(0, np.int64)
        super().__init__(Ids(*of_rows, first, narrow.get(VERTEX)), dtypes, {})
        self._narrow = narrow

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self._narrow.values())

    def fill(self, name: str, start: int, out: AnyArray) -> None:
        """Put values of a column into ``out``."""
        out[:] = self._narrow[name][start : start + len(out)]

    def __reduce__(self) -> tuple[Any, ...]:
        return Narrow, (self._narrow, self.dtypes, self.ids.first)


def narrowed(columns: Columns, threads: int) -> Narrow:
    """Put columns in order, and into as few bytes as their values take.

    Ids take four bytes if all of the graph do; levels one or two if there are few.
    """
    ids, narrow = columns.ids, columns.empty()
    largest = ids.original_at(columns.size - 1) if columns.size else 0
    for name in columns.dtypes:
        if name == VERTEX and ids.originals is None:
            del narrow[name]
        elif name != LEVEL or not _fill_levels(columns, narrow, threads):
            if name in (VERTEX, PARENT, COMPONENT):
                narrow[name] = np.empty(columns.size, parent_id_dtype(largest))
            columns.fill_all(name, narrow[name], threads)
    return Narrow(narrow, columns.dtypes, ids.first)


def _fill_levels(columns: Columns, narrow: dict[str, AnyArray], threads: int) -> bool:
    """Put levels in order as integers of one byte or two; whether these are enough."""
    for dtype in (np.int8, np.int16):
        levels, most = np.empty(columns.size, dtype), np.iinfo(dtype).max
        wide: list[int] = []

        def fill(
            low: int, end: int, levels: AnyArray = levels, most: int = most, wide: list[int] = wide
        ) -> None:
            for part in columns.parts(LEVEL, low, end):
                if part.max() > most:
                    wide.append(low)
                    return
                levels[low : low + len(part)] = part
                low += len(part)

        in_ranges(min(threads, columns.size >> 18), columns.size, fill)
        if not wide:
            narrow[LEVEL] = levels
            return True
    return False
