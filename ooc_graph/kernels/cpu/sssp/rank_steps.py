"""SSSP steps on the rows of one shard, compiled (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.dealt import WHOLE, arcs_of, internal_of
from ooc_graph.kernels.common.sssp.plateaus import find_beside
from ooc_graph.kernels.cpu.sssp import push
from ooc_graph.types import DEAL_BLOCK


@kernel
def ready(
    out: Any, wave: Any, improved: Any, count: int, pending: int, has_risen: bool, bound: Any
) -> tuple[int, int, int]:
    """Queue own rows that improved, and under a new bound those pending; their arcs left.

    ``queue[:count]`` has rows already, but none under a new bound.
    """
    if has_risen:
        count, pending = push.take_pending(out, wave, pending, bound)
    count, pending = push.queue_improved(out, wave, improved, count, pending, bound)
    return count, pending, arcs_of(out.offsets, WHOLE, wave.queue[:count])


@kernel
def list_within(wave: Any, bound: Any, rows: Any) -> int:
    """List the rows with a distance of at most ``bound``; how many."""
    count = 0
    for base in range(0, len(wave.taken), DEAL_BLOCK):
        shift = internal_of(base, wave.dealt) - base
        for row in range(base, min(base + DEAL_BLOCK, len(wave.taken))):
            rows[count] = row
            count += wave.distance[row + shift] <= bound
    return count


@kernel
def find_beside_rows(into: Any, plateau: Any, rows: Any) -> None:
    """Give rows the smallest neighbour on their plateau that has a parent, if there is one."""
    for index in range(len(rows)):
        row = np.int64(rows[index])
        start, stop = into.offsets[row], into.offsets[row + 1]
        find_beside(plateau, row, into.neighbors[start:stop], into.weights[start:stop])


@kernel
def take_solved(parent: Any, lacking: Any, count: int, solved: Any) -> tuple[int, int]:
    """Move rows that have a parent now from ``lacking`` to ``solved``; how many, and those left."""
    found, left, none = 0, 0, parent.dtype.type(-1)
    for index in range(count):
        row = np.int64(lacking[index])
        if parent[row] == none:
            lacking[left] = row
            left += 1
        else:
            solved[found] = row
            found += 1
    return found, left
