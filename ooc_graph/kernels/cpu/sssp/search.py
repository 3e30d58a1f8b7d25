"""SSSP on a graph that one rank holds whole: the rows, the buffers and the fused call (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.decisions import (
    ENOUGH_PUSHED,
    WEIGHT_SPREAD,
    SsspTree,
    first_step,
    pull_pays,
)
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.sssp.fused import (
    FINISHED,
    PULLED,
    PUSHED,
    Answer,
    overflowed,
    search,
)
from ooc_graph.kernels.cpu.sssp.parents import CHUNK_ROWS, EXAMINED, UNRESOLVED
from ooc_graph.kernels.cpu.sssp.plateaus import Plateau, list_lacking, resolve_plateaus
from ooc_graph.kernels.cpu.sssp.push import FLAG_BITS, HEADS, HeadedRows, LightRows, Wave
from ooc_graph.kernels.cpu.sssp.shared import unreached
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray, Rows

SAMPLED_ROWS = 4096
"""At most this many of the first 1 % of the rows are looked at to choose a strategy."""


MOST_FIRST = 4096
"""Vertices that are pushed whole, with all of their arcs, are among this many reached first."""


def distance_dtype(weights: AnyArray) -> np.dtype[np.generic]:
    """Distances have the weights' kind: float32, float64, or int64 for all integers."""
    return weights.dtype if weights.dtype.kind == "f" else np.dtype(np.int64)


def light_rows(rows: Rows) -> LightRows:
    """Rows with offsets as int64, which uint64 would turn to float in a sum."""
    assert rows.weights is not None
    offsets, dtype = rows.offsets.view(np.int64), rows.weights.dtype
    lightest = np.full(len(offsets) - 1, _heaviest_of(dtype), dtype)
    _copy_heads(offsets, 0, [(rows.weights, lightest)])
    return LightRows(offsets, rows.neighbors, rows.weights, lightest)


def headed_rows(rows: LightRows) -> HeadedRows:
    """The same rows with their heads copied to the front."""
    shape = HEADS, len(rows.offsets) - 1
    neighbors = np.empty(shape, rows.neighbors.dtype)
    neighbors[:] = np.arange(shape[1])
    weights = np.full(shape, _heaviest_of(rows.weights.dtype), rows.weights.dtype)
    for column in range(HEADS):
        pairs = [(rows.neighbors, neighbors[column]), (rows.weights, weights[column])]
        _copy_heads(rows.offsets, column, pairs)
    return HeadedRows(rows.offsets, rows.neighbors, rows.weights, neighbors, weights)


def _copy_heads(offsets: IntArray, column: int, pairs: Sequence[tuple[AnyArray, AnyArray]]) -> None:
    """Copy arc number ``column`` of each row that has so many, from arcs to rows."""
    position = offsets[:-1] + column
    longer = np.flatnonzero(position < offsets[1:])
    position = position[longer]
    for arcs, heads in pairs:
        heads[longer] = arcs[position]


def _heaviest_of(dtype: np.dtype[Any]) -> Any:
    """Largest number of a weights' dtype: +inf, or the largest integer."""
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


@dataclass(frozen=True)
class Survey:
    """What the first 1 % of some rows are like: the ground for the strategy."""

    head_tuples: int
    tuples: int
    spread_rows: int
    sampled_rows: int
    step: float

    @property
    def head_share(self) -> float:
        """Share of the input tuples at the first 1 % of the rows."""
        return self.head_tuples / max(self.tuples, 1)


def survey(rows: LightRows | Rows, tuples: AnyArray) -> Survey:
    """Look at the first 1 % of the rows (`SAMPLED_ROWS` at most for the weights)."""
    assert rows.weights is not None
    sampled = sampled_rows(len(tuples))
    begin, end = rows.offsets[:sampled], rows.offsets[1 : sampled + 1]
    begin, end = begin[begin < end], end[begin < end]
    held = int(tuples[: first_rows(len(tuples))].sum(dtype=np.uint64))
    total = int(tuples.sum(dtype=np.uint64))
    return survey_of(held, total, rows.weights[begin], rows.weights[(begin + end) // 2])


def first_rows(rows: int) -> int:
    """The first 1 % of so many rows, one at least."""
    return max(1, rows // 100)


def sampled_rows(rows: int) -> int:
    """Rows whose weights a survey looks at, of so many."""
    return min(SAMPLED_ROWS, first_rows(rows), rows)


def survey_of(held: int, total: int, lightest: AnyArray, typical: AnyArray) -> Survey:
    """What follows from the tuples at the first rows and at all, and from two weights a row.

    Parameters
    ----------
    held, total
        Input tuples at the `first_rows`, and at all rows.
    lightest, typical
        First and middle weight of each of the `sampled_rows` that has arcs.
    """
    light, middle = lightest.astype(np.float64), typical.astype(np.float64)
    medians = (float(np.median(w)) if len(w) else 0.0 for w in (light, middle))
    return Survey(
        held,
        total,
        int((light <= middle / WEIGHT_SPREAD).sum()),
        len(light),
        first_step(*medians),
    )


def may_pull(found: Survey) -> bool:
    """`pull_pays` of what a survey found."""
    return pull_pays(found.head_share, found.spread_rows / max(found.sampled_rows, 1))


def new_wave(parent: AnyArray, dtype: np.dtype[Any], arcs: int, longest: int) -> Wave:
    """Room for a push.

    Parameters
    ----------
    parent
        Ids (rows,): the queue, as nobody has a parent before all distances are final.
    dtype
        Of the distances.
    arcs, longest
        Of all rows, and of the longest.
    """
    rows, ids = len(parent), parent.dtype
    return Wave(
        np.empty(rows, dtype),
        np.empty(rows, np.uint32 if longest >> (32 - FLAG_BITS) == 0 else np.uint64),
        parent,
        np.empty(rows, ids),
        np.empty(min(MOST_FIRST, max(1, arcs // ENOUGH_PUSHED)), ids),
        unreached(dtype),
        np.zeros(1, dtype),
        np.zeros(1, np.float64),
    )


class CpuSsspSearch:
    """SSSP searches of one whole graph, one at a time; buffers are allocated once.

    Beside the rows, their heads and the answer it holds 8 bytes a vertex (32-bit ids, rows below
    2**30 arcs), and a bit more while plateaus are resolved.

    Parameters
    ----------
    out, into
        Light-first rows of out- and in-arcs (the same object when undirected).
    tuples
        Input tuples at each row.
    team
        Threads that search together.
    """

    def __init__(self, out: Rows, into: Rows, tuples: AnyArray, team: Team) -> None:
        self._out = light_rows(out)
        self._into = headed_rows(self._out if into is out else light_rows(into))
        if into is out:
            # The same numbers: one copy is enough.
            self._out = self._out._replace(lightest=self._into.head_weights[0])
        self._team = team
        rows, ids = len(out.offsets) - 1, out.neighbors.dtype
        dtype = distance_dtype(self._out.weights)
        found = survey(self._out, tuples)
        self._may_pull = may_pull(found)
        self._step = found.step
        longest = int(np.diff(self._out.offsets).max(initial=0))
        parent = np.empty(rows, ids)
        self._wave = new_wave(parent, dtype, len(self._out.neighbors), longest)
        self._answer = Answer(
            parent,
            np.zeros(4, dtype),
            np.empty((team.threads, 2), dtype),
            np.empty((team.threads, CHUNK_ROWS), np.int32),
            np.empty((team.threads, CHUNK_ROWS), dtype),
        )
        self._heaviest = self._out.weights.max(initial=0)
        self._may_overflow = sums_may_overflow(self._heaviest, rows, dtype)

    @property
    def layout_bytes(self) -> int:
        """Bytes of rows that were copied: heads, and each row's lightest weight."""
        heads, lightest = self._into.head_weights, self._out.lightest
        own = 0 if np.shares_memory(heads, lightest) else lightest.nbytes
        return int(self._into.head_neighbors.nbytes + heads.nbytes + own)

    def run(self, root: int) -> SsspTree:
        """Search from internal id ``root``; the arrays stay this search's until the next run.

        Raises
        ------
        InputError
            A shortest distance exceeds the distances' dtype.
        AssertionError
            The graph's out- and in-arcs contradict each other.
        """
        control = new_control()
        self._wave.step[0] = self._step
        start = perf_counter()
        self._team.launch(
            search,
            control,
            self._out,
            self._into,
            self._wave,
            self._answer,
            self._may_pull,
            root,
        )
        self._resolve_plateaus(control)
        self._require_whole(control)
        elapsed_s = perf_counter() - start
        phase_arcs = {
            "push": int(control[PUSHED]),
            "pull": int(control[PULLED]),
            "finish": int(control[FINISHED]),
            "parents": int(control[EXAMINED]),
        }
        return SsspTree(self._answer.parent, self._wave.distance, elapsed_s, phase_arcs)

    def _resolve_plateaus(self, control: IntArray) -> None:
        """Find the parents that ways of weight zero lead to; rare, so its bitmap is not kept."""
        if control[UNRESOLVED]:
            wave, parent = self._wave, self._answer.parent
            lacking = np.empty(words_for(len(parent)), np.uint64)
            plateau = Plateau(wave.distance, parent, lacking, wave.pending, wave.top[0])
            left = list_lacking(plateau)
            control[UNRESOLVED] = resolve_plateaus(self._out, self._into, plateau, left)

    def _require_whole(self, control: IntArray) -> None:
        """Refuse an answer in which reached vertices lack a distance or a parent."""
        distance, top = self._wave.distance, self._wave.top[0]
        if self._may_overflow and overflowed(self._out, distance, self._heaviest, top):
            raise overflow_error(distance.dtype)
        if control[UNRESOLVED]:
            raise AssertionError(f"{control[UNRESOLVED]} reached vertices have no parent")


def sums_may_overflow(heaviest: float, vertices: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether a path of ``vertices`` could be too long; a rounded sum at most doubles."""
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else float(INT64_UNREACHED)
    return 2.0 * float(heaviest) * vertices >= largest


def overflow_error(dtype: np.dtype[Any]) -> InputError:
    """Error for weights whose shortest path sums do not fit the distances' dtype."""
    if dtype.kind != "f":
        return InputError(
            "a shortest distance exceeds the largest 64-bit integer",
            advice="integer weights are summed exactly; give them as floats for rounded sums",
        )
    wider = "use float64 weights" if dtype.itemsize < np.dtype("f8").itemsize else "scale them down"
    return InputError(f"a shortest distance exceeds the largest {dtype}", advice=wider)
