"""First pass: which vertices there are, and how many tuples meet at each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.kernels.cpu.build.degrees import count_dense, merge_counts
from ooc_graph.layout.whole_file import renamed_file
from ooc_graph.shards.plan import BLOCK_EDGES, COUNTED_ID_BYTES
from ooc_graph.shards.tally import Tally
from ooc_graph.types import AnyArray, EdgeBlock, IntArray

_LEAST_BUFFER = 1 << 18


@dataclass(frozen=True)
class Counted:
    """What one task of the first pass found.

    ``paths`` are a .npy file with uint32 counts by position (dense ids); or .npz files with
    ascending ids and their counts. ``read_s``: seconds that the source took to give the tuples.
    """

    paths: tuple[str, ...]
    total: Tally
    read_s: float


class _Clock:
    """Times what a source takes, apart from what is done with its tuples."""

    def __init__(self) -> None:
        self.read_s = 0.0

    def blocks(self, source: EdgeSource, unit: Unit) -> Iterator[EdgeBlock]:
        blocks = source.read(unit, BLOCK_EDGES)
        while True:
            begun = perf_counter()
            block = next(blocks, None)
            self.read_s += perf_counter() - begun
            if block is None:
                return
            yield block


def count_units(
    source: EdgeSource, units: Sequence[Unit], stem: str, id_range: tuple[int, int]
) -> Counted:
    """Count the tuples of some units at every vertex of a dense range of ids."""
    first, count = id_range
    degree, low = np.zeros(count, np.uint32), np.zeros(count, np.uint8)
    total, clock = Tally(), _Clock()
    for unit in units:
        for block in clock.blocks(source, unit):
            total.add(block, count_dense(block.source, block.target, first, low, degree))
    degree += low
    path = f"{stem}.npy"
    with renamed_file(path) as partial, partial.open("wb") as file:
        np.save(file, degree)
    return Counted((path,), total, clock.read_s)


class CountedIds:
    """Ascending distinct ids with their counts, grown block by block.

    Memory: about `COUNTED_ID_BYTES` a distinct id while it grows.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.ids: IntArray = np.empty(0, np.int64)
        self.counts: AnyArray = np.empty(0, np.uint64)
        self._ends: list[IntArray] = []
        self._loops: list[IntArray] = []
        self._buffered = 0

    def add_edges(self, block: EdgeBlock) -> int:
        """Take in tuples; returns how many are self-loops."""
        loop = block.source == block.target
        loops = int(np.count_nonzero(loop))
        if loops:
            self._loops.append(block.source[loop])
            block = EdgeBlock(block.source[~loop], block.target[~loop])
        self._ends += [block.source, block.target]
        self._grow(2 * len(block) + loops)
        return loops

    def add_vertices(self, ids: IntArray) -> None:
        """Take in vertices that no tuple need name."""
        self._loops.append(ids)
        self._grow(len(ids))

    def _grow(self, entries: int) -> None:
        self._buffered += entries
        if self._buffered >= max(_LEAST_BUFFER, len(self.ids) // 2):
            self.settle()

    def settle(self) -> None:
        """Merge what is buffered."""
        if self._ends:
            ids, counts = np.unique(np.concatenate(self._ends), return_counts=True)
            self.merge(ids, counts.astype(np.uint64))
        if self._loops:
            ids = np.unique(np.concatenate(self._loops))
            self.merge(ids, np.zeros(len(ids), np.uint64))
        self._ends, self._loops, self._buffered = [], [], 0

    def merge(self, ids: IntArray, counts: AnyArray) -> None:
        """Merge an ascending run."""
        out_ids = np.empty(len(self.ids) + len(ids), np.int64)
        out_counts = np.empty(len(out_ids), np.uint64)
        used = merge_counts(self.ids, self.counts, ids, counts, out_ids, out_counts)
        self.ids, self.counts = out_ids[:used].copy(), out_counts[:used].copy()


def count_ids(source: EdgeSource, units: Sequence[Unit], stem: str, most_bytes: int) -> Counted:
    """Count the tuples of some units at every id that they name.

    When the ids take ``most_bytes`` of memory, they are written and counting begins again.
    """
    found, total, clock, paths = CountedIds(), Tally(), _Clock(), list[str]()
    for unit in units:
        for block in clock.blocks(source, unit):
            total.add(block, found.add_edges(block))
            if len(found.ids) * COUNTED_ID_BYTES > most_bytes:
                paths.append(_write_ids(found, f"{stem}-{len(paths)}.npz"))
    paths.append(_write_ids(found, f"{stem}-{len(paths)}.npz"))
    return Counted(tuple(paths), total, clock.read_s)


def _write_ids(found: CountedIds, path: str) -> str:
    found.settle()
    with renamed_file(path) as partial, partial.open("wb") as file:
        np.savez(file, ids=found.ids, counts=found.counts)
    found.forget()
    return path
