"""Columns of an answer that are put in order when they are first read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from time import perf_counter
from typing import Any

from ooc_graph.answers.scatter import Columns, fill_dense
from ooc_graph.forked import free_in_child
from ooc_graph.layout.names import VERTEX
from ooc_graph.types import AnyArray


class LateColumns(Mapping[str, AnyArray]):
    """Columns by original id, in host memory; each is made when it is first read.

    They are made of arrays that the next search overwrites. Whoever starts that search calls
    `settle` before. Memory for all columns is allocated at once, since a search can be planned
    anew if memory is refused, and a read cannot. ``seconds["order"]`` is what making columns has
    taken so far.
    """

    def __init__(self, columns: Columns, threads: int) -> None:
        self._arrays, self._threads = columns.empty(), threads
        self._left, self._first = set(self._arrays), columns.ids.first
        self._columns: Columns | None = columns
        self._lock = free_in_child(threading.RLock())
        self.seconds = {"order": 0.0}

    def __getitem__(self, name: str) -> AnyArray:
        with self._lock:
            if name in self._left:
                self._make(name)
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def put_into(self, arrays: Mapping[str, AnyArray]) -> None:
        """Have some columns in the arrays that are given for them, made now or copied."""
        with self._lock:
            for name, array in arrays.items():
                if name in self._left:
                    self._arrays[name] = array
                    self._make(name)
                else:
                    # Another thread's search has had it made meanwhile.
                    array[:] = self._arrays[name]
                    self._arrays[name] = array

    def settle(self) -> None:
        """Make the columns that need the search's arrays, and let go of these."""
        with self._lock:
            for name in sorted(self._left):
                # Ids without gaps are numbers, of which nothing need be kept.
                if name != VERTEX or self._first is None:
                    self._make(name)
            self._columns = None

    def _make(self, name: str) -> None:
        begun = perf_counter()
        if self._columns is None:
            fill_dense(self._first or 0, self._arrays[name], self._threads)
        else:
            self._columns.fill_all(name, self._arrays[name], self._threads)
        self._left.discard(name)
        self.seconds["order"] += perf_counter() - begun
