"""Parents of many sources from final distances, one source a thread (CPU).

The rule is that of single searches (`ooc_graph.kernels.cpu.sssp.parents`), on the same rows: the
neighbour u with ``d(u) + w == d(v)`` and ``d(u) < d(v)`` that has the smallest ``(d(u), id)``, and
on plateaus the nearest in hops. So parents form trees whatever weights of zero there are, those
that potentials make of all arcs of a shortest path included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.compiled import kernel, subroutine
from ooc_graph.kernels.common.dealt import WHOLE
from ooc_graph.kernels.common.sssp.distances import path_sum, unreached
from ooc_graph.kernels.common.sssp.plateaus import resolve_plateaus
from ooc_graph.kernels.common.sssp.rows import LightRows, Wave
from ooc_graph.kernels.common.team import ABORT, CHUNK, Team, atomic_add, atomic_load, new_control
from ooc_graph.types import AnyArray, IntArray


class Scratch(NamedTuple):
    """Scratch of every thread: (threads, rows) ids, and (threads, words) bitmaps of zeros.

    ``left`` (threads,) counts reached rows that found no parent.
    """

    pending: AnyArray
    unresolved: AnyArray
    listed: AnyArray
    left: IntArray


@subroutine
def _parent(into: Any, distance: Any, row: int, at: Any, top: Any) -> Any:
    """Parent among neighbours nearer than ``at``, -1 if there is none."""
    parent, nearest = np.int64(-1), at
    for position in range(into.offsets[row], into.offsets[row + 1]):
        weight = into.weights[position]
        if weight > at:
            break
        u = np.int64(into.neighbors[position])
        away = distance[u]
        if away > nearest or away >= at or path_sum(away, weight, top) != at:
            continue
        if away < nearest or u < parent:
            parent, nearest = u, away
    return parent


@kernel
def parents_of_sources(
    thread: int,
    threads: int,  # noqa: ARG001
    control: Any,
    out: Any,
    into: Any,
    wave: Any,
    scratch: Any,
    sources: Any,
    answer: Any,
    parents: Any,
) -> None:
    """Find the parents of source after source, each on one thread.

    Parameters
    ----------
    out, into
        `LightRows` of all arcs, weights >= 0.
    wave
        Gives the arrays that plateaus do not look at.
    sources
        int64 (sources,).
    answer, parents
        (sources, rows): final distances, and ids, written; all ones where unreached.
    """
    pending, top = scratch.pending[thread], wave.top[0]
    while atomic_load(control, ABORT) == 0:
        index = atomic_add(control, CHUNK, 1)
        if index >= len(sources):
            break
        distance, parent = answer[index], parents[index]
        none, count = parent.dtype.type(-1), 0
        for row in range(len(distance)):
            at = distance[row]
            parent[row] = none
            if at >= top or row == sources[index]:
                continue
            found = _parent(into, distance, row, at, top)
            if found >= 0:
                parent[row] = found
            else:
                pending[count] = row
                count += 1
        parent[sources[index]] = sources[index]
        if count > 0:
            mine = Wave(
                distance,
                wave.taken,
                wave.queue,
                pending,
                wave.first,
                wave.top,
                wave.bound,
                wave.step,
                wave.dealt,
            )
            unresolved, listed = scratch.unresolved[thread], scratch.listed[thread]
            left = resolve_plateaus(out, into, mine, parent, count, unresolved, listed)
            scratch.left[thread] += left


def find_parents(
    out: LightRows,
    into: LightRows,
    team: Team,
    sources: IntArray,
    answer: AnyArray,
    parents: AnyArray | None = None,
) -> AnyArray:
    """Parents of the searches from ``sources``: ids (sources, rows), all ones where unreached.

    Parameters
    ----------
    out, into
        Rows of all arcs, with the weights that were searched.
    team
        Threads that share the sources.
    answer
        (sources, rows): final distances.
    parents
        Ids (sources, rows) to write to.

    Raises
    ------
    AssertionError
        The graph's out- and in-arcs contradict each other.
    """
    rows, ids, dtype = answer.shape[1], out.neighbors.dtype, answer.dtype
    if parents is None:
        parents = np.empty(answer.shape, ids)
    shape, words = (team.threads, rows), (team.threads, words_for(rows))
    scratch = Scratch(
        np.empty(shape, ids),
        np.zeros(words, np.uint64),
        np.zeros(words, np.uint64),
        np.zeros(team.threads, np.int64),
    )
    none = np.empty(0, ids)
    wave = Wave(
        answer[:0].reshape(-1),
        none,
        none,
        none,
        none,
        unreached(dtype),
        unreached(dtype),
        np.zeros(1),
        WHOLE,
    )
    team.launch(
        parents_of_sources, new_control(), out, into, wave, scratch, sources, answer, parents
    )
    if scratch.left.any():
        raise AssertionError(f"{scratch.left.sum()} reached vertices have no parent")
    return parents
