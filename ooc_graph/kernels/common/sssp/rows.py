"""Rows and the state of a push, as SSSP kernels on the host take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ooc_graph.kernels.common.dealt import Dealt
from ooc_graph.types import AnyArray, Rows


class LightRows(NamedTuple):
    """Rows whose arcs ascend by weight, ties by id; offsets as int64.

    ``lightest`` (rows,) holds each row's first weight, the largest number of its dtype for a row
    without arcs: whether a row has anything to push is seen without touching the row.
    """

    offsets: AnyArray
    neighbors: AnyArray
    weights: AnyArray
    lightest: AnyArray


class Wave(NamedTuple):
    """State of a push over (rows,) vertices.

    ``distance`` is by internal id, everything else by row; ``dealt`` says which rows these are.
    ``taken`` counts, in all but its two lowest bits, the arcs of a row that were relaxed since
    its distance improved last. ``queue`` is a ring, every vertex at most once in it (bit `QUEUED`
    of ``taken``); ``pending`` lists the rows that wait above the bound (bit `WAITING`). ``first``
    holds the vertices reached first, as many as fit. ``top`` and ``bound`` are arrays
    (1,) of the distances' dtype: the distance of what is not reached, and scratch; ``step`` (1,)
    float64 says how far the bound rises.
    """

    distance: AnyArray
    taken: AnyArray
    queue: AnyArray
    pending: AnyArray
    first: AnyArray
    top: AnyArray
    bound: AnyArray
    step: AnyArray
    dealt: Dealt


def plain_rows(rows: Rows) -> LightRows:
    """Rows as kernels take them; no weight is kept apart."""
    assert rows.weights is not None
    return LightRows(rows.offsets.view(np.int64), rows.neighbors, rows.weights, rows.weights[:0])
