"""SSSP steps on the rows of one shard, compiled (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.dealt import internal_of, local_of
from ooc_graph.kernels.common.sssp.plateaus import plateau_parent
from ooc_graph.kernels.cpu.sssp.push import (
    push_once,
    queue_improved,
    smallest_pending,
    take_pending,
)
from ooc_graph.types import DEAL_BLOCK


@kernel
def ready(
    out: Any, wave: Any, improved: Any, count: int, pending: int, has_risen: bool, bound: Any
) -> tuple[int, int, int]:
    """Queue own rows that improved, and under a new bound those pending; their arcs left.

    ``queue[:count]`` has rows already, but none under a new bound.
    """
    if has_risen:
        count, pending = take_pending(out, wave, pending, bound)
    count, pending = queue_improved(out, wave, improved, count, pending, bound)
    arcs = 0
    for index in range(count):
        row = np.int64(wave.queue[index])
        arcs += out.offsets[row + 1] - out.offsets[row]
    return count, pending, arcs


@kernel
def push_queued(
    out: Any, wave: Any, count: int, pending: int, bound: Any, target: Any, found: Any
) -> tuple[int, int, int, int, int, Any]:
    """Push once; as `push_once`, and the smallest candidate of the pending rows."""
    done, listed, pending, examined, again = push_once(
        out, wave, count, pending, bound, target, found
    )
    return done, listed, pending, examined, again, smallest_pending(out, wave, pending)


@kernel
def arcs_of(offsets: Any, dealt: Any, vertices: Any) -> int:
    """Arcs of own rows, named by internal ids."""
    arcs = 0
    for index in range(len(vertices)):
        row = local_of(np.int64(vertices[index]), dealt)
        arcs += offsets[row + 1] - offsets[row]
    return arcs


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
def resolve_rows(
    into: Any, wave: Any, unresolved: Any, parent: Any, count: int, solved: Any
) -> tuple[int, int]:
    """Give rows in ``pending`` the plateau parent that they can have now; solved, still left."""
    found, kept = 0, 0
    for index in range(count):
        row = np.int64(wave.pending[index])
        v = internal_of(row, wave.dealt)
        u = plateau_parent(into, wave.distance, unresolved, row, wave.distance[v], wave.top[0])
        if u >= 0:
            parent[row] = u
            solved[found] = v
            found += 1
        else:
            wave.pending[kept] = row
            kept += 1
    return found, kept
