"""Parents on plateaus, whose vertices are reached over arcs of weight zero only.

The rule is that of `ooc_graph.kernels.cpu.sssp.parents`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import drop, has, put, put_all
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.sssp.distances import path_sum


@subroutine
def plateau_parent(into: Any, distance: Any, unresolved: Any, row: int, at: Any, top: Any) -> Any:
    """Smallest neighbour at the same distance that is resolved, -1 if there is none yet."""
    parent = np.int64(-1)
    for position in range(into.offsets[row], into.offsets[row + 1]):
        if path_sum(at, into.weights[position], top) > at:
            break
        u = np.int64(into.neighbors[position])
        if distance[u] == at and not has(unresolved, u) and (parent < 0 or u < parent):
            parent = u
    return parent


@subroutine
def _next_to(out: Any, wave: Any, unresolved: Any, listed: Any, begin: int, end: int) -> int:
    """List the unresolved rows beside ``pending[begin:end]`` behind these, each once; their end."""
    last, top = end, wave.top[0]
    for index in range(begin, end):
        u = np.int64(wave.pending[index])
        at = wave.distance[u]
        for position in range(out.offsets[u], out.offsets[u + 1]):
            if path_sum(at, out.weights[position], top) > at:
                break
            v = np.int64(out.neighbors[position])
            if wave.distance[v] == at and has(unresolved, v) and not has(listed, v):
                put(listed, v)
                wave.pending[last] = v
                last += 1
    for index in range(end, last):
        drop(listed, np.int64(wave.pending[index]))
    return last


@kernel
def resolve_plateaus(
    out: Any, into: Any, wave: Any, parent: Any, count: int, unresolved: Any, listed: Any
) -> int:
    """Give the rows on plateaus, ``pending[:count]``, their parents, hop by hop; one thread.

    Returns how many rows found none: above zero only where out- and in-arcs contradict each other.

    Parameters
    ----------
    unresolved, listed
        Scratch bitmaps of zeros. The wave's ``pending`` is scratch, too: the rows that found a
        parent stand in it hop after hop, and behind them those that look for one in the next hop.
    """
    put_all(unresolved, wave.pending, count)
    begin, end = 0, count
    while begin < end:
        found = begin
        for index in range(begin, end):
            v = np.int64(wave.pending[index])
            at = wave.distance[v]
            u = plateau_parent(into, wave.distance, unresolved, v, at, wave.top[0])
            if u >= 0:
                parent[v] = u
                wave.pending[found] = v
                found += 1
        for index in range(begin, found):
            drop(unresolved, np.int64(wave.pending[index]))
        begin, end = found, _next_to(out, wave, unresolved, listed, begin, found)
    return count - begin
