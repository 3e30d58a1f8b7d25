"""Columns of an answer that are put in order when they are first read, or go to given arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.narrow import Narrow
from ooc_graph.answers.scatter import Columns, fill_dense
from ooc_graph.answers.unread import Unread
from ooc_graph.errors import UsageError
from ooc_graph.forked import free_in_child
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import VERTEX
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray


class LateColumns(Mapping[str, AnyArray]):
    """Columns by original id, in host memory; each is made when it is first read.

    They are made of arrays that the next search overwrites. Whoever starts that search calls
    `settle` before. Those of a worker are `Narrow` ones, and travel as such if none was read, or
    `Unread` ones that are still there.
    Memory for all columns is allocated at once unless they are on a worker, since a search can be
    planned anew if memory is refused, and a read cannot. ``seconds["order"]`` is what making
    columns has taken so far.
    """

    def __init__(self, columns: Columns, threads: int) -> None:
        self._arrays, self._threads, self._size = columns.empty(), threads, columns.size
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
        # Not in turn with who reads: that needs Dask's event loop, which may be what pickles.
        if (unread := self.unread) is not None:
            return late_columns, (unread,)
        with self._lock:
            if isinstance(self._columns, (Narrow, Unread)) and len(self._left) == len(self):
                return late_columns, (self._columns,)
        return dict, (dict(self),)

    @property
    def size(self) -> int:
        """Vertices."""
        return self._size

    @property
    def unread(self) -> Unread | None:
        """The columns if they are still on a worker."""
        columns = self._columns
        return columns if isinstance(columns, Unread) and columns.there else None

    @property
    def narrow(self) -> Narrow | None:
        """The columns as they travel, if they do in few bytes."""
        columns = self._columns
        return columns if isinstance(columns, Narrow) else None

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
        if len(self._arrays[name]) < self._size:
            self._arrays[name] = np.empty(self._size, self._arrays[name].dtype)
        if self._columns is None:
            fill_dense(self._first or 0, self._arrays[name], self._threads)
        else:
            self._columns.fill_all(name, self._arrays[name], self._threads)
        self._left.discard(name)
        if not self._left - {VERTEX} and (not self._left or self._first is not None):
            self._columns = None  # which may hold memory of a device
        self.seconds["order"] += perf_counter() - begun


def late_columns(columns: Columns) -> LateColumns:
    """Columns that are made by all cores of this process when they are read."""
    return LateColumns(columns, cores())


def require_no_store(into: object, out: Path | None) -> None:
    """Refuse arrays and a store at once."""
    if into is not None and out is not None:
        raise UsageError("into= and out=: give one of them, an array or a store")


def require_array(name: str, into: Any, spec: ArraySpec) -> None:
    """Refuse an array that an answer cannot go to; ``name`` is the caller's."""
    wanted = spec.shape(spec.length)
    # Of its kinds a matrix keeps two dimensions in each row.
    is_array = isinstance(into, np.ndarray) and not isinstance(into, np.matrix)
    if not is_array or into.dtype != spec.dtype or into.shape != wanted:
        found = type(into).__name__
        if is_array:
            found = f"{into.dtype} {into.shape}"
        raise UsageError(f"{name}: give a NumPy array of {spec.dtype} {wanted}, not {found}")
    if not into.flags.carray:
        raise UsageError(
            f"{name}: give an array that is C-contiguous, aligned, and may be written to"
        )


def require_columns(into: Any, specs: Mapping[str, ArraySpec]) -> None:
    """Refuse arrays, by the names of columns, that these cannot go to."""
    if not isinstance(into, Mapping):
        raise UsageError(f"into: give a dictionary of arrays by column, not {type(into).__name__}")
    for name, array in into.items():
        if name not in specs:
            raise UsageError(f"into: there is no column {name!r}: choose {', '.join(specs)}")
        require_array(f"into[{name!r}]", array, specs[name])


def columns_into(
    columns: Mapping[str, AnyArray], into: Mapping[str, AnyArray]
) -> Mapping[str, AnyArray]:
    """The columns, of which some lie in the arrays of the caller now."""
    if isinstance(columns, LateColumns):
        columns.put_into(into)
        return columns
    for name, array in into.items():
        np.copyto(array, columns[name])
    return {**columns, **into}
