"""Degrees -> internal ids: ranks by falling degree, ties by original id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import InputError, MemoryBudgetError
from ooc_graph.kernels.cpu.build.degrees import falling_order
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import INTERNAL_OF, ORIGINAL_OF, ORIGINALS, TUPLES
from ooc_graph.shards.degrees import CountedIds
from ooc_graph.shards.plan import COUNTED_ID_BYTES, RESERVE_BYTES
from ooc_graph.shards.tables import VertexSpace, ranks_of, save
from ooc_graph.types import AnyArray, IntArray


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
        with np.load(path) as part:
            _refuse_unfitting(len(found.ids) + len(part["ids"]), limit_bytes)
            found.merge(part["ids"], part["counts"])
    for ids in source.vertex_blocks():
        listed.add_vertices(ids)
    listed.settle()
    if len(listed.ids):
        _refuse_unlisted(found.ids, listed.ids)
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


def _refuse_unlisted(mentioned: IntArray, listed: IntArray) -> None:
    position = np.minimum(np.searchsorted(listed, mentioned), len(listed) - 1)
    strange = mentioned[listed[position] != mentioned]
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
