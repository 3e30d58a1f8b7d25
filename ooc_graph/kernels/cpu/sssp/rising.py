"""Push from the root under a rising bound, and from the inner vertices along all arcs (CPU)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.compiled import kernel, subroutine, varying
from ooc_graph.kernels.common.dealt import internal_of
from ooc_graph.kernels.common.intrinsics import atomic_lower
from ooc_graph.kernels.common.sssp.sums import path_sum, raised
from ooc_graph.kernels.cpu.sssp import push

adapt_step = kernel(decisions.adapt_step)
push_is_enough = kernel(decisions.push_is_enough)


@subroutine
def arcs_of_listed(out: Any, lengths: Any, listed: Any, begin: int, end: int) -> Any:
    """Arcs of the rows ``listed[begin:end]``, by ``lengths`` unless it is empty."""
    arcs: Any = 0
    for index in range(begin, end):
        u = np.int64(listed[index])
        if len(lengths) > 0:
            arcs += np.int64(lengths[u])
        else:
            arcs += np.int64(out.offsets[u + 1]) - np.int64(out.offsets[u])
    return arcs


@kernel
def push_inner(out: Any, wave: Any, inner: int, target: Any, found: Any) -> tuple[int, int]:
    """Relax the arcs above the bound of ``first[:inner]``, queueing nothing.

    Candidates are applied, or only listed in ``target`` and ``found`` unless these are empty.
    Returns how many are listed, and the arcs examined.
    """
    listed, examined = 0, 0
    for index in range(inner):
        u = np.int64(wave.first[index])
        at = wave.distance[internal_of(u, wave.dealt)]
        begin = out.offsets[u] + (np.int64(wave.taken[u]) >> push.FLAG_BITS)
        examined += out.offsets[u + 1] - begin
        for position in range(begin, out.offsets[u + 1]):
            candidate = path_sum(at, out.weights[position], wave.top[0])
            v = np.int64(out.neighbors[position])
            if candidate >= wave.distance[v]:
                continue
            if len(target) == 0:
                atomic_lower(wave.distance, v, candidate)
            else:
                target[listed], found[listed] = v, candidate
                listed += 1
    return listed, examined


@kernel
def push_rising(
    out: Any, lengths: Any, arcs: int, wave: Any, root: int, stop_for_pull: bool
) -> tuple[Any, Any, int, int, bool]:
    """Push from the root under a rising bound; one thread.

    ``out`` has rows, or their heads alone. What lies beyond them comes later: until then no
    distance from the smallest of it on is final. ``lengths`` are the arcs of each whole row, empty
    if ``out`` has them all, and ``arcs`` those of all rows.

    Returns ``bound``, up to which all distances are final; ``floor`` and ``inner``: the vertices
    nearest to the root are ``first[:inner]``, and the distance of every other is at least
    ``floor``; the arcs examined; and whether nothing is left to do, rather than enough pushed for
    pulling to be cheaper (only with ``stop_for_pull``). The inner vertices have few arcs, so that
    all of them may be pushed.
    """
    # Everything else is unreached and unmarked.
    wave.distance[root], wave.taken[root], wave.queue[0] = 0, push.QUEUED, root
    wave.first[0] = root
    count, pending, total, reached = varying(1), varying(0), 0, varying(1)
    bound, floor = wave.distance[root], wave.distance[root]
    inner, inner_arcs, growing = varying(0), 0, True
    while True:
        pending, reached, examined, again = push.push_below(
            out, wave, count, pending, bound, reached
        )
        total += examined
        wave.step[0] = adapt_step(wave.step[0], examined, again)
        growing = growing and reached <= len(wave.first)
        is_enough = stop_for_pull and push_is_enough(total, arcs)
        if is_enough and pending > 0 and not growing:
            return bound, floor, inner, total, False
        smallest = push.smallest_pending(out, wave, pending)
        if growing:
            inner_arcs += arcs_of_listed(out, lengths, wave.first, inner, reached)
            growing = not push_is_enough(inner_arcs, arcs)
            if growing:
                inner, floor = reached, smallest
        if smallest == wave.top[0]:
            return bound, floor, inner, total, True
        if is_enough:
            return bound, floor, inner, total, False
        bound = raised(wave.bound, smallest, wave.step[0], wave.top[0])
        count, pending = push.take_pending(out, wave, pending, bound)
