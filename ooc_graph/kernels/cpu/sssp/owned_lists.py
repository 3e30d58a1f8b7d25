"""Own rows of an SSSP rank, and its list of the best candidates for rows of others (CPU)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.compiled import subroutine
from ooc_graph.kernels.common.dealt import Dealt
from ooc_graph.kernels.common.sssp.plateaus import is_better_parent
from ooc_graph.kernels.common.sssp.rows import Wave
from ooc_graph.types import AnyArray

EMPTY = -1
"""Slot of `Listed` without an entry."""
_HASH, _HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


class Own(NamedTuple):
    """What a rank knows of its own rows; all arrays are by row.

    ``wave`` has their distances, and takes them for a whole graph; ``dealt`` says which vertices
    they are. ``near`` is the distance of the parent, and that of what is not reached if there is
    none.
    """

    wave: Wave
    parent: AnyArray
    near: AnyArray
    dealt: Dealt


class Listed(NamedTuple):
    """Candidates for other ranks' rows, each target once, and a hash table of where they stand.

    ``slots`` (a power of two, at least twice as many as entries) has indices of entries.
    """

    slots: AnyArray
    target: AnyArray
    found: AnyArray
    near: AnyArray
    parent: AnyArray


@subroutine
def list_best(listed: Any, count: int, v: int, candidate: Any, near: Any, u: int) -> int:
    """List a candidate, or the better one of two for a vertex; how many are listed then."""
    slots = listed.slots
    last = len(slots) - 1
    slot = np.int64((np.uint64(v) * _HASH) >> _HIGH) & last
    while slots[slot] != EMPTY:
        entry = np.int64(slots[slot])
        if np.int64(listed.target[entry]) == v:
            before = listed.found[entry]
            is_better = candidate < before
            if candidate == before:
                is_better = is_better_parent(
                    near, u, listed.near[entry], np.int64(listed.parent[entry])
                )
            if is_better:
                listed.found[entry], listed.near[entry] = candidate, near
                listed.parent[entry] = u
            return count
        slot = (slot + 1) & last
    slots[slot] = count
    listed.target[count], listed.parent[count] = v, u
    listed.found[count], listed.near[count] = candidate, near
    return count + 1


def new_listed(entries: int, ids: np.dtype[Any], distances: np.dtype[Any]) -> Listed:
    """Buffers for at most ``entries`` candidates."""
    slots = np.full(1 << (2 * entries - 1).bit_length(), EMPTY, np.int32)
    columns = [np.empty(entries, dtype) for dtype in (ids, distances, distances, ids)]
    return Listed(slots, *columns)
