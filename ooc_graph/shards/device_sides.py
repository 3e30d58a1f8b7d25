"""Rows of a store for a CUDA device, of which host memory has their lengths and places alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ooc_graph.kernels.common.store.rows import HeadRows
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.disk import DiskUnits
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import arrays_of, columns_of, read_lengths
from ooc_graph.types import AnyArray


def bare_side(
    graph: Graph,
    side: str,
    order: str,
    length: np.dtype[Any],
    *,
    batch_units: int,
    kept_bytes: int,
    readers: int,
    room: Callable[[int], AnyArray] | None,
) -> tuple[HeadRows, DiskUnits]:
    """Rows of one side of the whole graph in the store, and the units that all of them are in.

    Host memory is that of ``length`` and an eighth of a byte a row, and what units are staged in.

    Parameters
    ----------
    graph
        Opened from a store that has its rows in this order.
    side, order
        Which rows; weights are fetched with those in the order ``light``.
    length
        Type of a length.
    batch_units, kept_bytes, readers, room
        As of `ooc_graph.memory.cpu.disk.DiskUnits`, whose threads are the caller's to end.

    Raises
    ------
    CorruptStoreError
        Names the chunk.
    MemoryError, MemoryBudgetError
        Memory is refused.
    """
    stored = graph.stored
    assert isinstance(stored, Stored)
    offsets = arrays_of(graph, side, order, "offsets")
    lengths, places, first = read_lengths(stored, offsets, graph.rows, length)
    units = DiskUnits(
        stored,
        [arrays_of(graph, side, order, column) for column in columns_of(order)],
        first,
        batch_units=batch_units,
        kept_bytes=kept_bytes,
        readers=readers,
        room=room,
    )
    none, last = (np.empty(0, units.dtypes[column]) for column in (0, -1))
    return HeadRows(np.empty(0, length), lengths, places, none, last, last), units
