"""The tables of size O(V) that a build's tasks read: who is which internal id."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.forked import free_in_child, in_child
from ooc_graph.kernels.cpu.build.arcs import translate_dense, translate_sorted
from ooc_graph.layout.names import internal_dtype
from ooc_graph.layout.whole_file import renamed_file
from ooc_graph.shards.pieces import forget_pieces
from ooc_graph.shards.plan import Buckets
from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True)
class VertexSpace:
    """The vertices of an input, by position: id - first if ids are dense.

    If they have gaps only ``count`` has a meaning, and ``originals`` is a .npy file with the
    ascending original ids (int64).
    """

    first: int
    count: int
    originals: str | None = None


@dataclass(frozen=True)
class Tables:
    """`VertexSpace` with the internal id of every position, in host memory."""

    space: VertexSpace
    internal_of: AnyArray
    originals: IntArray | None

    def translate(self, ids: IntArray, out: AnyArray) -> None:
        """Internal ids of original ids; InputError if one is not a vertex of the input."""
        if self.originals is None:
            translate_dense(ids, self.space.first, self.internal_of, out)
            return
        missing = translate_sorted(ids, self.originals, self.internal_of, out)
        if missing >= 0:
            raise InputError(f"vertex {ids[missing]} appeared only in the second pass")


_lock = free_in_child(threading.Lock())
_loaded: dict[str, Tables] = {}
_buckets: dict[str, Buckets] = {}


def load_tables(space: VertexSpace, internal_of: str) -> Tables:
    """Tables of the build in hand; one copy a process, until `forget_tables`."""
    with _lock:
        if internal_of not in _loaded:
            _loaded.clear()
            originals = None if space.originals is None else np.load(space.originals)
            _loaded[internal_of] = Tables(space, np.load(internal_of), originals)
        return _loaded[internal_of]


def load_buckets(path: str) -> Buckets:
    """Buckets of the build in hand; one copy a process, until `forget_tables`."""
    with _lock:
        if path not in _buckets:
            _buckets.clear()
            _buckets[path] = Buckets.load(path)
        return _buckets[path]


# A build that is at work at a fork is the parent's.
@in_child
def forget_tables(spill: str | None = None) -> None:
    """Give the memory of tables, buffers and pieces back; no task of the build may be at work.

    Pieces of the one build with this folder, or of every build. Tables and buffers of all builds
    are given back: one that is at work loads them again.
    """
    forget_pieces(spill)
    with _lock:
        _loaded.clear()
        _buckets.clear()


def ranks_of(order: AnyArray, count: int) -> AnyArray:
    """Internal id of each of ``count`` positions by their order, -1 for those not in it."""
    internal_of = np.full(count, -1, internal_dtype(len(order)))
    internal_of[order] = np.arange(len(order), dtype=internal_of.dtype)
    return internal_of


def table_bytes(space: VertexSpace) -> int:
    """Bytes of the tables in one process."""
    each = 4 if space.count < 1 << 31 else 8
    return space.count * (each + (8 if space.originals else 0))


def save(folder: Path, name: str, data: AnyArray) -> str:
    """Write a table where the other workers find it."""
    path = folder / f"{name}.npy"
    with renamed_file(path) as partial, partial.open("wb") as file:
        np.save(file, data)
    return str(path)
