"""What is otherwise in an answer than in an earlier one, vertex by vertex."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.export import write_tables
from ooc_graph.answers.result import Result
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import VERTEX
from ooc_graph.layout.stored import Cursor, Stored
from ooc_graph.types import AnyArray, IntArray, distinct

_ROWS = 1 << 18
"""Rows of each answer that are in memory at once."""


@dataclass
class Changes:
    """How many vertices have another value, are in the later answer alone, or in the earlier."""

    changed: int = 0
    new: int = 0
    gone: int = 0

    def as_dict(self) -> dict[str, int]:
        """The counts by name."""
        return asdict(self)


def write_changes(before: Result | None, after: Result, path: Path) -> Changes:
    """Write ``vertex``, ``before`` and ``after`` of all that changed, by ascending id.

    The values are levels, distances, components or scores; a vertex that an answer lacks has none
    there. Both answers are stored. The file is .csv or .parquet, and is there whole or not at all.
    Without an earlier answer it has no rows.

    Raises
    ------
    UsageError
        The answers are of several kinds, roots or types of distance, or pyarrow is needed and not
        installed.
    """
    found = Changes()
    write_tables(_tables(before, after, found), path)
    return found


def count_changes(before: Result, after: Result) -> Changes:
    """What `write_changes` finds; nothing is written."""
    found = Changes()
    for _ in _tables(before, after, found):
        pass
    return found


class _Rows:
    """A stored answer from front to back."""

    def __init__(self, answer: Result) -> None:
        stored = answer.columns
        assert isinstance(stored, Stored)
        # The columns have chunks of different length.
        self._ids = Cursor(stored.chunk, stored.spec(VERTEX))
        self._values = Cursor(stored.chunk, stored.spec(answer.measure))
        self.dtype, self._at = self._values.spec.dtype, 0

    def ids(self) -> IntArray:
        """Ids of the next rows; none at the end."""
        return self._ids.read(self._at, min(self._at + _ROWS, self._ids.spec.length))

    def take(self, count: int) -> AnyArray:
        """Values of the next rows, which are over then."""
        values = self._values.read(self._at, self._at + count)
        self._at += count
        return values


def _tables(before: Result | None, after: Result, found: Changes) -> Iterator[dict[str, Any]]:
    """Tables of what changed, an empty one first; what they have is counted."""
    new = _Rows(after)
    none = np.empty(0, new.dtype)
    yield {VERTEX: np.empty(0, np.int64), "before": none, "after": none}
    if before is None:
        return
    old = _Rows(before)
    _refuse_unlike(before, after, old, new)
    while True:
        ids = old.ids(), new.ids()
        if not any(map(len, ids)):
            return
        # Up to here both are known.
        last = min(some[-1] for some in ids if len(some))
        ids = (ids[0][: _until(ids[0], last)], ids[1][: _until(ids[1], last)])
        every = distinct(np.concatenate(ids))
        left, right = _spread(every, ids[0], old), _spread(every, ids[1], new)
        is_new, is_gone = left.mask, right.mask
        is_other = ~is_new & ~is_gone & (left.data != right.data)
        found.changed += int(is_other.sum())
        found.new += int(is_new.sum())
        found.gone += int(is_gone.sum())
        rows = is_new | is_gone | is_other
        if rows.any():
            yield {VERTEX: every[rows], "before": left[rows], "after": right[rows]}


def _until(ids: IntArray, last: int) -> int:
    return int(np.searchsorted(ids, last, side="right"))


def _spread(every: IntArray, ids: IntArray, rows: _Rows) -> Any:
    """Values of the next ids among all ids; masked where there is none."""
    is_there = np.isin(every, ids, assume_unique=True)
    values = np.zeros(len(every), rows.dtype)
    values[is_there] = rows.take(len(ids))
    return np.ma.MaskedArray(values, mask=~is_there)


def _refuse_unlike(before: Result, after: Result, old: _Rows, new: _Rows) -> None:
    names = "kernel", "root", "type of values", "limit", "sources"
    kinds = [
        (one.kernel, one.root, str(rows.dtype), *(getattr(one, name, None) for name in names[3:]))
        for one, rows in ((before, old), (after, new))
    ]
    for name, one, other in zip(names, *kinds, strict=True):
        if one != other:
            assert isinstance(before.columns, Stored)
            raise UsageError(
                f"{before.columns.path}: cannot be compared: its {name} is {one}, now it is "
                f"{other}; give the folder of an earlier run, or an answer of the same search"
            )
