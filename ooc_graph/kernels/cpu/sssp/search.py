"""SSSP on a graph that one rank holds whole: the rows, the buffers and the fused call (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.dealt import WHOLE
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp import distances
from ooc_graph.kernels.common.sssp.plateaus import Plateau, list_lacking, resolve_plateaus
from ooc_graph.kernels.common.sssp.rows import MOST_FIRST, LightRows, Wave, may_pull, survey
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.common.tuning import ENOUGH_PUSHED
from ooc_graph.kernels.cpu.sssp import fused
from ooc_graph.kernels.cpu.sssp.parents import EXAMINED, UNRESOLVED, new_scratches
from ooc_graph.kernels.cpu.sssp.push import FLAG_BITS, HEADS, HeadedRows
from ooc_graph.types import AnyArray, Dealing, IntArray, Rows


def light_rows(rows: Rows) -> LightRows:
    """Rows with offsets as int64, which uint64 would turn to float in a sum."""
    assert rows.weights is not None
    offsets, dtype = rows.offsets.view(np.int64), rows.weights.dtype
    lightest = np.full(len(offsets) - 1, distances.largest_of(dtype), dtype)
    _copy_heads(offsets, 0, [(rows.weights, lightest)])
    return LightRows(offsets, rows.neighbors, rows.weights, lightest)


def headed_rows(rows: LightRows, dealing: Dealing) -> HeadedRows:
    """The same rows with their heads copied to the front."""
    shape = HEADS, dealing.rows
    neighbors = np.empty(shape, rows.neighbors.dtype)
    neighbors[:] = dealing.owned()
    weights = np.full(shape, distances.largest_of(rows.weights.dtype), rows.weights.dtype)
    for column in range(HEADS):
        columns = [(rows.neighbors, neighbors[column]), (rows.weights, weights[column])]
        _copy_heads(rows.offsets, column, columns)
    return HeadedRows(rows.offsets, rows.neighbors, rows.weights, neighbors, weights)


def _copy_heads(
    offsets: IntArray, column: int, columns: Sequence[tuple[AnyArray, AnyArray]]
) -> None:
    """Copy arc number ``column`` of each row that has so many, from arcs to rows."""
    position = offsets[:-1] + column
    longer = np.flatnonzero(position < offsets[1:])
    position = position[longer]
    for arcs, heads in columns:
        heads[longer] = arcs[position]


def new_wave(queue: AnyArray, dtype: np.dtype[Any], arcs: int, longest: int) -> Wave:
    """Buffers for a push along so many arcs in all, and in the ``longest`` row.

    The ``queue`` (rows,) may become the parents, once all distances (``dtype``) are final.
    """
    rows, ids = len(queue), queue.dtype
    # The arcs of the longest row and the flags fit it.
    taken = np.uint32 if longest >> (32 - FLAG_BITS) == 0 else np.uint64
    return Wave(
        np.empty(rows, dtype),
        np.empty(rows, taken),
        queue,
        np.empty(rows, ids),
        np.empty(min(MOST_FIRST, max(1, arcs // ENOUGH_PUSHED)), ids),
        distances.unreached(dtype),
        np.zeros(1, dtype),
        np.zeros(1, np.float64),
        WHOLE,
    )


class CpuSsspSearch:
    """SSSP searches of one whole graph, one at a time; buffers are allocated once.

    In addition to the rows, their heads and the answer it has 8 bytes a vertex (32-bit ids, rows
    below 2**30 arcs), and a bit more while plateaus are resolved. ``out`` and ``into`` are
    light-first rows (the same object when undirected); ``tuples`` (rows,) counts input tuples.
    """

    def __init__(self, out: Rows, into: Rows, tuples: AnyArray, team: Team) -> None:
        self._out = light_rows(out)
        whole = Dealing(len(out.offsets) - 1)
        self._into = headed_rows(self._out if into is out else light_rows(into), whole)
        if into is out:
            # The same numbers: one copy is enough.
            self._out = self._out._replace(lightest=self._into.head_weights[0])
        self._team = team
        rows, ids = len(out.offsets) - 1, out.neighbors.dtype
        dtype = distances.distance_dtype(self._out.weights)
        found = survey(self._out, tuples)
        self._heaviest = self._out.weights.max(initial=0)
        self._may_overflow = distances.sums_may_overflow(self._heaviest, rows, dtype)
        self._may_pull = may_pull(found)
        self._step = found.step
        parent = np.empty(rows, ids)
        longest = int(np.diff(self._out.offsets).max(initial=0))
        self._wave = new_wave(parent, dtype, len(self._out.neighbors), longest)
        self._answer = fused.Answer(
            parent,
            np.zeros(4, dtype),
            np.empty((team.threads, 2), dtype),
            new_scratches(team.threads, dtype),
            self._may_overflow,
        )

    def run(self, root: int) -> SsspTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        InputError: a shortest distance exceeds the distances' dtype. AssertionError: the graph's
        out- and in-arcs contradict each other.
        """
        control = new_control()
        self._wave.step[0] = self._step
        start = perf_counter()
        given = self._out, self._into, self._wave, self._answer, self._may_pull, root
        self._team.launch(fused.search, control, *given)
        self._resolve_plateaus(control)
        self._require_whole(control)
        elapsed_s = perf_counter() - start
        phase_arcs = {
            "push": int(control[fused.PUSHED]),
            "pull": int(control[fused.PULLED]),
            "finish": int(control[fused.FINISHED]),
            "parents": int(control[EXAMINED]),
        }
        return SsspTree(self._answer.parent, self._wave.distance, elapsed_s, phase_arcs)

    def _resolve_plateaus(self, control: IntArray) -> None:
        """Find the parents that ways of weight zero lead to; rare, so its bitmap is not kept."""
        if control[UNRESOLVED]:
            wave, parent = self._wave, self._answer.parent
            lacking = np.empty(words_for(len(parent)), np.uint64)
            plateau = Plateau(wave.distance, parent, lacking, wave.pending, wave.top[0], WHOLE)
            left = list_lacking(plateau)
            control[UNRESOLVED] = resolve_plateaus(self._out, self._into, plateau, left)

    def _require_whole(self, control: IntArray) -> None:
        """Refuse an answer in which reached vertices lack a distance or a parent."""
        distance, top = self._wave.distance, self._wave.top[0]
        if self._may_overflow and fused.overflowed(self._out, distance, WHOLE, self._heaviest, top):
            raise distances.overflow_error(distance.dtype)
        if control[UNRESOLVED]:
            raise AssertionError(f"{control[UNRESOLVED]} reached vertices have no parent")
