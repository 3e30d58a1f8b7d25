"""What makes one answer the same as another, and what is shown of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ooc_graph.answers.info import Info
from ooc_graph.answers.late import LateColumns
from ooc_graph.answers.shown import time_text
from ooc_graph.layout.html_table import html_table
from ooc_graph.layout.names import VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray


class Compared:
    """A result that equals another if the answers are equal, wherever their columns are.

    Its hash depends on the request and the size of the answer, and no column is read for it.
    """

    root: int | None
    elapsed_s: float | None
    columns: Mapping[str, AnyArray] | Stored
    info: Info
    names: Any
    unread: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compared) or self._identity() != other._identity():
            return False
        return are_same(self, other)

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        """What is asked, and how much is answered; no column is made or read for it."""
        return type(self).__name__, self.root, self.names, self._size()

    def _size(self) -> tuple[int, ...]:
        """Vertices; of many sources these first."""
        return (self._length(VERTEX),)

    def _length(self, name: str) -> int:
        if isinstance(self.columns, Stored):
            return self.columns.spec(name).length
        if isinstance(self.columns, LateColumns):
            return self.columns.size
        return len(self.columns[name])

    def _shown(self) -> str:
        """What it has, and where, in words."""
        where = "in memory" if self.unread is None else "on workers"
        if isinstance(self.columns, Stored):
            where = str(self.columns.path)
            if not self.columns.path.exists():
                return f"removed from {where}"
        return f"{self._size()[0]:,} vertices, {where}"

    def _begun_at(self) -> dict[str, object]:
        """Where the search began, by the name of the attribute."""
        return {} if self.root is None else {"root": self.root}

    def __repr__(self) -> str:
        at = "".join(f" {name}={value}" for name, value in self._begun_at().items())
        took = "" if self.elapsed_s is None else f", found in {time_text(self.elapsed_s)}"
        return f"<{type(self).__name__}{at}: {self._shown()}{took}>"

    def _repr_html_(self) -> str:
        begun = ((name, str(value)) for name, value in self._begun_at().items())
        rows = [*begun, ("answer", self._shown()), ("columns", ", ".join(self.names))]
        return html_table(type(self).__name__, [*rows, *self.info.rows()])


def are_same(one: Any, other: Any) -> bool:
    """Whether two results of a kind have the same columns, wherever these are.

    Stored ones are read by chunk, unless their manifests agree.
    """
    stored = [found.columns for found in (one, other) if isinstance(found.columns, Stored)]
    if len(stored) == 2 and stored[0].content_sha256 == stored[1].content_sha256:
        return True
    return all(_is_same_column(one, other, name) for name in one.names)


def _is_same_column(one: Any, other: Any, name: str) -> bool:
    if isinstance(one.columns, Stored) and isinstance(other.columns, Stored):
        if one.columns.spec(name) != other.columns.spec(name):
            return False
        blocks = zip(one.columns.blocks(name), other.columns.blocks(name), strict=True)
        return all(_equal(*both) for both in blocks)
    return _equal(one.on_host(name), other.on_host(name))


def _equal(one: AnyArray, other: AnyArray) -> bool:
    has_nan = one.dtype.kind == "f"
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=has_nan)
