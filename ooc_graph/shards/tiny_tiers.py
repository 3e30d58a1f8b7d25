"""Rows in host memory bound to a tiny tier: what compiles the kernels, and what tests search."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.distances import distance_dtype, largest_of
from ooc_graph.kernels.common.sssp.rows import Known, Survey, survey
from ooc_graph.kernels.common.store.rows import FIRST_LOOK, WINDOW_ROWS, HeadRows, TierRows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import APSP
from ooc_graph.memory.heads import HeadRule
from ooc_graph.types import AnyArray, Dealing, IntArray, Rows

_BLOCK_BYTES = 16
# So long that a search takes all ways: BFS goes from pushing to pulling, and back.
_RING = {"bfs": 160, "sssp": 64, APSP: 64}
# Of weights that potentials shift, so that some are negative.
_HEIGHTS = 5
_STEPS = np.array([-1, 1, -2, 2, -3, 3])


def bind_rows(
    rows: Rows,
    rule: HeadRule,
    *,
    block_bytes: int = _BLOCK_BYTES,
    batch_blocks: int = 4,
    window: int = WINDOW_ROWS,
    look: int = FIRST_LOOK,
    narrow: str = "int32",
) -> TierRows:
    """Rows with heads by a rule, whose other arcs come from a tier in memory."""
    offsets = rows.offsets.astype(np.int64)
    lengths = np.diff(offsets).astype(narrow)
    kept = rule.of(lengths)
    starts = np.zeros(len(offsets), narrow)
    np.cumsum(kept, out=starts[1:])
    columns = [rows.neighbors] if rows.weights is None else [rows.neighbors, rows.weights]
    positions = np.repeat(offsets[:-1] - starts[:-1], kept) + np.arange(int(starts[-1]))
    heads = [column[positions] for column in columns]
    some = lengths > 0
    first = np.zeros(len(lengths), columns[-1].dtype)
    if rows.weights is not None:
        first[:] = largest_of(rows.weights.dtype)
    first[some] = columns[-1][offsets[:-1][some]]
    weights = heads[1] if len(heads) > 1 else np.empty(0, rows.neighbors.dtype)
    tier = MemoryTier(columns, block_bytes, batch_blocks)
    bound = HeadRows(starts, lengths, offsets[:-1:64].copy(), heads[0], weights, first)
    return TierRows(bound, tier, window, look)


def search_of(
    kernel: str, out: TierRows, into: TierRows, rows: Rows, tuples: AnyArray, device: CpuDevice
) -> Any:
    """Search of rows that `bind_rows` made of ``rows`` (those of out-arcs)."""
    if kernel == "bfs":
        return device.tier_bfs(out, into)
    assert rows.weights is not None
    if kernel == APSP:
        return device.tier_apsp(out, rows.weights.max(initial=0))
    known = Known(survey(rows, tuples), rows.weights.max(initial=0))
    return device.tier_sssp(out, into, known)


def ring_search(
    kernel: str, directed: bool, ids: np.dtype[Any], weights: str | None, device: CpuDevice
) -> Any:
    """Search of a ring on which everyone has six neighbours, and one arc of each is in memory."""
    rows = _ring_rows(kernel, ids, weights)
    out = bind_rows(rows, HeadRule(1))
    into = bind_rows(rows, HeadRule(1)) if directed else out
    return search_of(kernel, out, into, rows, np.ones(_RING[kernel], np.uint32), device)


def ring_rank(
    kernel: str, directed: bool, ids: np.dtype[Any], weights: str | None, device: CpuDevice
) -> tuple[Any, Any]:
    """As `ring_search`, a rank that has the whole ring, and what it shares. SSSP pulls."""
    rows, ring = _ring_rows(kernel, ids, weights), _RING[kernel]
    out = bind_rows(rows, HeadRule(1))
    into = bind_rows(rows, HeadRule(1)) if directed else out
    if rows.weights is None:
        return device.tier_bfs_rank(Dealing(ring), out, into, ring), device.bfs_shared(ring, 1)
    known = Known(Survey(1, 1, 1, 1, 1.0), rows.weights.max())
    rank = device.tier_sssp_rank(Dealing(ring), out, into, known, ring)
    return rank, device.sssp_shared(ring, distance_dtype(rows.weights))


def ring_owner(ids: np.dtype[Any], weights: str | None, device: CpuDevice) -> tuple[Any, Any]:
    """As `ring_rank`, a rank that has the distances of its own rows alone; all is one plateau."""
    rows, ring = _ring_rows("sssp", ids, weights), _RING["sssp"]
    assert rows.weights is not None
    rows.weights[:] = 0
    known = Known(Survey(1, 1, 1, 1, 1.0), rows.weights.max())
    out = bind_rows(rows, HeadRule(1))
    rank = device.store_owned_sssp_rank(Dealing(ring), out, known, directed=False)
    return rank, device.owned_sssp_shared(ring, 1, distance_dtype(rows.weights))


def _ring_rows(kernel: str, ids: np.dtype[Any], weights: str | None) -> Rows:
    ring = _RING[kernel]
    neighbors = (np.arange(ring)[:, None] + _STEPS) % ring
    offsets = np.arange(0, neighbors.size + 1, len(_STEPS)).astype(np.uint64)
    weight = None
    if kernel == "bfs":
        neighbors.sort(axis=1)
    elif weights is not None:
        weight = np.tile(abs(_STEPS), ring).astype(weights)
        if kernel == APSP:
            neighbors, weight = _reweighted(neighbors, weight)
    return Rows(offsets, neighbors.ravel().astype(ids), weight)


def _reweighted(neighbors: IntArray, weight: AnyArray) -> tuple[IntArray, AnyArray]:
    """Rows of arcs whose weights are shifted by potentials, light first again."""
    rows, degree = neighbors.shape
    height = np.arange(rows) % _HEIGHTS
    io_stats = weight.reshape(rows, degree) + height[:, None] - height[neighbors]
    order = np.argsort(io_stats, axis=1, kind="stable")
    light = np.take_along_axis(io_stats, order, axis=1).astype(weight.dtype)
    return np.take_along_axis(neighbors, order, axis=1), light.ravel()


class MemoryTier:
    """Columns in host memory as a tier: what a disk would give, from arrays."""

    def __init__(self, columns: Sequence[AnyArray], block_bytes: int, batch_blocks: int) -> None:
        self.block_bytes, self.batch_blocks = block_bytes, batch_blocks
        self.dtypes = tuple(column.dtype for column in columns)
        self.given = 0
        """Blocks given."""
        self._columns = [_in_blocks(column, block_bytes) for column in columns]

    def stage(
        self, batches: Iterator[Sequence[IntArray]]
    ) -> Generator[tuple[AnyArray, ...], None, None]:
        """Give batch after batch of blocks."""
        for batch in batches:
            self.given += sum(map(len, batch))
            yield tuple(
                column[blocks].reshape(-1)
                for column, blocks in zip(self._columns, batch, strict=True)
            )


def _in_blocks(column: AnyArray, block_bytes: int) -> AnyArray:
    """Whole blocks, the last one filled up with zeros."""
    each = block_bytes // column.dtype.itemsize
    padded = np.zeros(-(-len(column) // each) * each, column.dtype)
    padded[: len(column)] = column
    return padded.reshape(-1, each)
