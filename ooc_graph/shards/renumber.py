"""First pass: degrees of vertices; and their internal ids: ranks by falling degree, then by id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import InputError, MemoryBudgetError
from ooc_graph.kernels.cpu.build.degrees import count_dense, falling_order, merge_counts
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import INTERNAL_OF, ORIGINAL_OF, ORIGINALS, TUPLES
from ooc_graph.layout.spilled import arrays_in
from ooc_graph.layout.whole_file import renamed_file
from ooc_graph.shards.plan import BLOCK_EDGES, COUNTED_ID_BYTES, RESERVE_BYTES
from ooc_graph.shards.tables import VertexSpace, ranks_of, save
from ooc_graph.shards.tally import Tally
from ooc_graph.types import AnyArray, EdgeBlock, IntArray, distinct

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
    return Counted((save(Path(stem).parent, Path(stem).name, degree),), total, clock.read_s)


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
            ids = distinct(np.concatenate(self._loops))
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


@dataclass(frozen=True)
class Renumbered:
    """Result of the renumbering; the tables are written to the store already.

    ``kept`` vertices have at least one arc. ``internal_of`` and ``tuples`` are .npy files with the
    internal id of each position and the tuples at each internal id.
    """

    space: VertexSpace
    kept: int
    internal_of: str
    tuples: str
    specs: tuple[ArraySpec, ...]
    entries: tuple[FileEntry, ...]


def sum_dense(paths: Sequence[str], count: int) -> AnyArray:
    """Sum the counts of several tasks: uint32 if that is surely wide enough, else uint64."""
    most = sum(int(np.load(path).max(initial=0)) for path in paths)
    total: AnyArray = np.zeros(count, np.uint32 if most < 1 << 32 else np.uint64)
    for path in paths:
        total += np.load(path)
    return total


def merge_ids(
    paths: Sequence[str], source: EdgeSource, folder: Path, limit_bytes: int
) -> tuple[VertexSpace, AnyArray]:
    """Merge the ids of several tasks with those the input lists."""
    found, listed = CountedIds(), CountedIds()
    for path in paths:
        with arrays_in(path) as part:
            _refuse_unfitting(len(found.ids) + len(part["ids"]), limit_bytes)
            found.merge(part["ids"], part["counts"])
    for ids in source.vertex_blocks():
        listed.add_vertices(ids)
    listed.settle()
    if len(listed.ids):
        refuse_unlisted(found.ids, listed.ids)
        found.merge(listed.ids, listed.counts)
    ids, counts = found.ids, found.counts
    if not len(ids):
        raise InputError("the input has no edges and declares no vertices")
    if ids[-1] - ids[0] == len(ids) - 1:
        return VertexSpace(int(ids[0]), len(ids)), counts
    return VertexSpace(0, len(ids), save(folder, "originals", ids)), counts


def _refuse_unfitting(ids: int, limit_bytes: int) -> None:
    needed = ids * COUNTED_ID_BYTES // 2 + RESERVE_BYTES
    if needed > limit_bytes:
        raise MemoryBudgetError(
            f"memory limit of {limit_bytes:,} bytes is too small: the vertices of this graph alone "
            f"need about {needed:,} bytes while it is built; raise --memory-limit"
        )


def refuse_unlisted(mentioned: IntArray, listed: IntArray) -> None:
    """Refuse edges that join other vertices than the input lists; both ascend."""
    strange = np.setdiff1d(mentioned, listed, assume_unique=True)
    if len(strange):
        raise InputError(
            f"an edge names vertex {strange[0]}, which the vertex file does not list",
            advice=f"{len(strange)} such vertices; add them to the vertex file",
        )


def renumber_counted(
    paths: Sequence[str], source: EdgeSource, store: Path, spill: Path, limit_bytes: int
) -> Renumbered:
    """Order the vertices, declared ones or those named or listed; write their tables.

    Memory: about 24 bytes a vertex (32-bit case).
    """
    if source.id_range is not None:
        space = VertexSpace(*source.id_range)
        degree = sum_dense(paths, space.count)
    else:
        space, degree = merge_ids(paths, source, spill, limit_bytes)
    order = falling_order(degree)
    internal_of = ranks_of(order, space.count)
    originals = None if space.originals is None else np.load(space.originals)
    top = int(degree.max(initial=0))
    tuples = degree[order].astype(np.uint32 if top < 1 << 32 else np.uint64, copy=False)
    columns = {TUPLES: tuples, INTERNAL_OF: internal_of}
    if originals is not None:
        columns[ORIGINALS] = originals
        original_of = originals[order]
    else:
        original_of = order.astype(np.int64)
        original_of += space.first
    columns[ORIGINAL_OF] = original_of
    specs = tuple(ArraySpec(name, len(data), data.dtype) for name, data in columns.items())
    entries = tuple(
        write_chunk(store, spec, index, [columns[spec.path][slice(*spec.bounds(index))]])
        for spec in specs
        for index in range(spec.chunks)
    )
    paths = save(spill, "internal_of", internal_of), save(spill, "tuples", tuples)
    return Renumbered(space, len(order), *paths, specs, entries)
