"""Paths from the source of a search, by the parents of its answer, and predecessors one by one."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ooc_graph.errors import CorruptStoreError, NoPathError, UnknownVertexError, UsageError
from ooc_graph.layout.names import PARENT, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.types import AnyArray, IntArray

# Chunks of a stored column that are kept while paths are followed, 16 MiB each.
_KEPT_CHUNKS = 4


class Parents(ABC):
    """Vertices of an answer and their parents, both by position among all vertices."""

    size: int

    @abstractmethod
    def positions(self, ids: IntArray) -> IntArray:
        """Position of each id, -1 if the answer has no such vertex."""

    @abstractmethod
    def parents(self, positions: IntArray) -> IntArray:
        """Parent at each position, -1 if it is not reached."""

    @abstractmethod
    def blocks(self) -> Iterator[tuple[IntArray, IntArray]]:
        """All vertices with their parents, some at a time."""


class InMemory(Parents):
    """Columns in host memory, (vertices,)."""

    def __init__(self, vertex: IntArray, parent: IntArray) -> None:
        self.size, self._vertex, self._parent = len(vertex), vertex, parent

    def positions(self, ids: IntArray) -> IntArray:
        """Position of each id, or -1."""
        return _found_in(self._vertex, ids)

    def parents(self, positions: IntArray) -> IntArray:
        """Parent at each position, or -1."""
        return self._parent[positions]

    def blocks(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Everything at once."""
        yield self._vertex, self._parent


class InStore(Parents):
    """Columns of a store, of which a few chunks are in memory at a time."""

    def __init__(self, stored: Stored) -> None:
        self._stored, self._spec = stored, {name: stored.spec(name) for name in (VERTEX, PARENT)}
        self.size = self._spec[VERTEX].length
        self._chunk = lru_cache(maxsize=_KEPT_CHUNKS)(self._read)
        self._first: dict[int, int] = {}

    def _read(self, name: str, index: int) -> AnyArray:
        return self._stored.chunk(self._spec[name], index)

    def positions(self, ids: IntArray) -> IntArray:
        """Position of each id, or -1; ids without gaps are computed, others are looked for."""
        spec = self._spec[VERTEX]
        first = self._first_of(0)
        last = int(self._chunk(VERTEX, spec.chunks - 1)[-1])
        if last - first == self.size - 1:
            return np.where((ids >= first) & (ids <= last), ids - first, -1)
        found = np.full(len(ids), -1)
        chunks = np.array([self._chunk_of(one) for one in ids.tolist()], np.int64)
        for index in np.unique(chunks).tolist():
            within = chunks == index
            at = _found_in(self._chunk(VERTEX, index), ids[within])
            found[within] = np.where(at < 0, -1, at + spec.bounds(index)[0])
        return found

    def _first_of(self, index: int) -> int:
        if index not in self._first:
            self._first[index] = int(self._chunk(VERTEX, index)[0])
        return self._first[index]

    def _chunk_of(self, one: int) -> int:
        """The chunk that an id is in, if in any."""
        low, high = 0, self._spec[VERTEX].chunks
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if one < self._first_of(middle) else (middle, high)
        return low

    def parents(self, positions: IntArray) -> IntArray:
        """Parent at each position, or -1."""
        spec = self._spec[PARENT]
        found, chunks = np.empty(len(positions), np.int64), positions // spec.chunk
        for index in np.unique(chunks).tolist():
            within = chunks == index
            found[within] = self._chunk(PARENT, index)[positions[within] - spec.bounds(index)[0]]
        return found

    def blocks(self) -> Iterator[tuple[IntArray, IntArray]]:
        """A chunk of both at a time: they are as wide, and so cut alike."""
        yield from zip(self._stored.blocks(VERTEX), self._stored.blocks(PARENT), strict=True)


def _found_in(vertex: IntArray, ids: IntArray) -> IntArray:
    """Position of each id in ascending ones, -1 if it is not there."""
    at = np.minimum(np.searchsorted(vertex, ids), max(len(vertex) - 1, 0))
    return np.where(vertex[at] == ids, at, -1) if len(vertex) else np.full(len(ids), -1)


def vertex_id(given: Any) -> int:
    """A vertex id of a caller; TypeError if it is no integer, and truth values are none."""
    if isinstance(given, bool):
        raise TypeError
    return operator.index(given)


def vertex_ids(given: Any) -> IntArray:
    """Vertex ids of a caller, int64; UsageError if they are none."""
    try:
        return np.array([vertex_id(one) for one in given], np.int64)
    except (TypeError, OverflowError):
        raise UsageError(f"vertices {given!r}: give a list of vertex ids, integers") from None


def paths_to(parents: Parents, targets: IntArray) -> list[IntArray]:
    """The path to each target: vertices from the source to it, both included.

    All are followed at the same time, so that a chunk is read once for a step of all of them.
    UnknownVertexError, NoPathError: name the first target that is none, or is not reached.
    """
    positions = parents.positions(targets)
    for unknown in targets[positions < 0].tolist():
        raise UnknownVertexError(f"vertex {unknown} is not in the graph that was searched")
    steps: list[tuple[IntArray, IntArray]] = []
    left, ids = np.arange(len(targets)), targets
    lengths = np.zeros(len(targets), np.int64)
    while len(left):
        if len(steps) > parents.size:
            raise CorruptStoreError("parents lead in a circle; search again")
        steps.append((left, ids))
        lengths[left] += 1
        above = parents.parents(positions)
        for lost in ids[above < 0].tolist():
            if len(steps) > 1:
                raise CorruptStoreError(f"vertex {lost} is a parent, and not reached; search again")
            raise NoPathError(f"vertex {lost} was not reached: there is no path to it")
        goes_on = above != ids
        left, ids = left[goes_on], above[goes_on]
        positions = parents.positions(ids)
    paths = [np.empty(length, np.int64) for length in lengths.tolist()]
    for depth, (some, at) in enumerate(steps, 1):
        for index, vertex in zip(some.tolist(), at.tolist(), strict=True):
            paths[index][-depth] = vertex
    return paths


class Predecessors(Mapping[int, int]):
    """The vertex before each that was reached, as networkx has them: the source has none.

    Looked up one by one; a stored answer is read by chunk.
    """

    def __init__(self, parents: Parents) -> None:
        self._parents = parents

    def __getitem__(self, vertex: int) -> int:
        ids = vertex_ids([vertex])
        positions = self._parents.positions(ids)
        parent = int(self._parents.parents(positions)[0]) if positions[0] >= 0 else -1
        if parent in (-1, vertex):
            raise KeyError(vertex)
        return parent

    def __iter__(self) -> Iterator[int]:
        for vertex, parent in self._parents.blocks():
            yield from vertex[(parent >= 0) & (parent != vertex)].tolist()

    def __len__(self) -> int:
        return sum(
            int(np.count_nonzero((parent >= 0) & (parent != vertex)))
            for vertex, parent in self._parents.blocks()
        )

    def __repr__(self) -> str:
        return f"<Predecessors of {self._parents.size:,} vertices>"
