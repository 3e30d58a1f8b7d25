"""Launches of the kernels that look at one answer in device memory.

In all functions ``root`` is a vertex, ``parent`` uint32 or int64 (vertices,) and ``measure``, the
levels or distances, (vertices,), both contiguous on the current device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.validate.cuda_loader import NARROW, THREADS, cuda, kernel, multiprocessors

NO_VERTEX = 0xFFFFFFFF
"""Above all ids of 32 bits."""
_BLOCKS = 8
"""Blocks of each multiprocessor. Every thread adds to the counts once: more of them would queue."""


@dataclass(frozen=True)
class Survey:
    """Rules that need no edges."""

    # Smallest vertex whose parent is not a vertex, that is reached by one column only, whose
    # measure does not fit its parent's; `NO_VERTEX` for none.
    outside: int
    half: int
    step: int
    reached: int  # vertices that have a parent
    flat: int  # those that have their parent's measure


def survey(root: int, parent: Any, measure: Any) -> Survey:
    """Check every vertex against its parent; waits."""
    cupy = cuda()
    broken, counts = cupy.full(3, NO_VERTEX, np.uint32), cupy.zeros(2, np.uint64)
    arguments = (parent, measure, np.uint32(root), broken, counts)
    _launch("tree_rules", measure, arguments, parent.dtype)
    found = [*cupy.asnumpy(broken), *cupy.asnumpy(counts)]
    return Survey(*(int(number) for number in found))


def cycle_start(root: int, parent: Any, measure: Any) -> int:
    """Smallest vertex whose parents lead into a cycle, `NO_VERTEX` if there is none; waits.

    Where no parent is farther than its child, a cycle consists of equal distances. Links between
    those are doubled until all have ended or must have gone in a circle.
    """
    cupy, vertices = cuda(), len(parent)
    links = cupy.empty(vertices, np.uint32)
    arguments = (parent, measure, np.uint32(root), links)
    _launch("flat_links", measure, arguments, parent.dtype)
    start = NO_VERTEX
    for _ in range(vertices.bit_length()):
        first = cupy.full(1, NO_VERTEX, np.uint32)
        _launch("follow_links", measure, (links, first))
        start = int(cupy.asnumpy(first)[0])
        if start == NO_VERTEX:
            break
    return start


def copy_answer(
    root: int, parent: Any, measure: Any, column: int, parents: Any, measures: Any
) -> None:
    """Copy an answer into a column of ``parents`` and ``measures`` (vertices, width).

    The root is left without a parent there, since no edge need join it to one.
    """
    where = (np.uint32(parents.shape[1]), np.uint32(column))
    arguments = (parent, measure, np.uint32(root), *where, parents, measures)
    _launch("copy_answer", measure, arguments, parent.dtype)


def _launch(
    name: str, measure: Any, arguments: tuple[Any, ...], ids: np.dtype[Any] = NARROW
) -> None:
    """Launch a kernel, one thread for each vertex; parents are of type ``ids``."""
    launch = kernel(name, measure.dtype, ids)
    launch(_grid(len(measure)), (THREADS,), (np.uint32(len(measure)), *arguments))


def _grid(items: int) -> tuple[int]:
    most = _BLOCKS * multiprocessors(cuda().cuda.Device().id)
    return (max(1, min(most, -(-items // THREADS))),)


def converted(weight: Any, dtype: np.dtype[Any]) -> Any:
    """Weights (m,), contiguous, in the dtype of distances that holds them exactly."""
    cupy = cuda()
    if weight.dtype != np.float32 or dtype != np.float64:
        return cupy.ascontiguousarray(weight, dtype)
    # CuPy's own conversion takes subnormal numbers for zero.
    wide = cupy.empty(len(weight), dtype)
    narrow = cupy.ascontiguousarray(weight)
    arguments = (np.uint64(len(weight)), narrow, wide)
    kernel("widen", dtype)(_grid(len(weight)), (THREADS,), arguments)
    return wide


def item(column: Any, vertex: int) -> Any:
    """One entry as a NumPy scalar; waits."""
    return cuda().asnumpy(column[vertex : vertex + 1])[0]


def parent_at(parent: Any, vertex: int) -> int:
    """One parent, -1 for none; waits."""
    found = int(item(parent, vertex))
    return -1 if parent.dtype == np.uint32 and found == NO_VERTEX else found
