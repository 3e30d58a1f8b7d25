"""Edges of any source, read into host memory."""

from __future__ import annotations

import numpy as np

from ooc_graph.edges.arrays import ArraySource
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import InputError

_UNIT_EDGES, _BLOCK_EDGES = 1 << 22, 1 << 20


def in_memory(source: EdgeSource) -> ArraySource:
    """The edges as vectors; those that are vectors already are not copied.

    Memory: 16 bytes an edge and 8 for its weight, and half of that more at the peak.
    """
    if isinstance(source, ArraySource):
        return source
    units = source.units(_UNIT_EDGES)
    blocks = [block for unit in units for block in source.read(unit, _BLOCK_EDGES)]
    source.check_totals(sum(map(len, blocks)))
    listed = list(source.vertex_blocks())
    if not blocks and not listed and source.id_range is None:
        raise InputError("the input has no edges", advice="nothing was built")
    none = np.empty(0, np.int64)
    weight = None
    if source.weighted:
        columns = [block.weight for block in blocks if block.weight is not None]
        # Blocks of integers and blocks of floats make floats.
        weight = np.concatenate(columns or [none], dtype=source.weight_dtype)
    return ArraySource(
        np.concatenate([none, *(block.source for block in blocks)]),
        np.concatenate([none, *(block.target for block in blocks)]),
        weight,
        source.directed,
        None if weight is None else weight.dtype,
        source.id_range,
        np.concatenate(listed) if listed else None,
    )
