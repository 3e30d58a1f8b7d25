"""Parents of many sources from final distances, one source a thread (CPU).

The rule is that of single searches (`ooc_graph.kernels.cpu.sssp.parents`), on the same rows. So
parents form trees whatever weights of zero there are, those that potentials make of all arcs of a
shortest path included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import put, words_for
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.dealt import WHOLE
from ooc_graph.kernels.common.sssp.distances import unreached
from ooc_graph.kernels.common.sssp.plateaus import Plateau, best_parent, resolve_plateaus
from ooc_graph.kernels.common.sssp.rows import LightRows
from ooc_graph.kernels.common.team import ABORT, CHUNK, Team, atomic_add, atomic_load, new_control
from ooc_graph.types import AnyArray, IntArray


class Scratch(NamedTuple):
    """Scratch of every thread: (threads, rows) ids, and (threads, words) bitmaps of zeros.

    ``left`` (threads,) counts reached rows that found no parent.
    """

    queue: AnyArray
    lacking: AnyArray
    left: IntArray


@kernel
def parents_of_sources(
    thread: int,
    threads: int,  # noqa: ARG001
    control: Any,
    out: Any,
    into: Any,
    top: Any,
    scratch: Any,
    sources: Any,
    answer: Any,
    parents: Any,
) -> None:
    """Find the parents of source after source, each on one thread; see `find_parents`."""
    queue, lacking, zero = scratch.queue[thread], scratch.lacking[thread], answer.dtype.type(0)
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
            start, stop = into.offsets[row], into.offsets[row + 1]
            columns = into.neighbors[start:stop], into.weights[start:stop]
            found, _ = best_parent(distance, at, *columns, np.int64(-1), zero, top)
            if found >= 0:
                parent[row] = found
            else:
                put(lacking, row)
                count += 1
        parent[sources[index]] = sources[index]
        if count > 0:
            plateau = Plateau(distance, parent, lacking, queue, top, WHOLE)
            scratch.left[thread] += resolve_plateaus(out, into, plateau, count)


def find_parents(
    out: LightRows,
    into: LightRows,
    team: Team,
    sources: IntArray,
    answer: AnyArray,
    parents: AnyArray,
) -> None:
    """Find the parents of the searches from ``sources``, all ones where unreached.

    ``out`` and ``into`` have all arcs, with the weights >= 0 that were searched; ``answer``
    (sources, rows) has the final distances, and ``parents``, ids (sources, rows), are written.
    AssertionError: the graph's out- and in-arcs contradict each other.
    """
    rows, ids, dtype = answer.shape[1], out.neighbors.dtype, answer.dtype
    shape, words = (team.threads, rows), (team.threads, words_for(rows))
    left = np.zeros(team.threads, np.int64)
    scratch = Scratch(np.empty(shape, ids), np.zeros(words, np.uint64), left)
    top, given = unreached(dtype)[0], (scratch, sources, answer, parents)
    team.launch(parents_of_sources, new_control(), out, into, top, *given)
    if scratch.left.any():
        raise AssertionError(f"{scratch.left.sum()} reached vertices have no parent")
