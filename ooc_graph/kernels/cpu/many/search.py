"""Many sources at once on a graph in memory: batches, threads, and which arcs are kept (CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, words_for
from ooc_graph.kernels.common.completion import OnDone, starts
from ooc_graph.kernels.common.sssp.distances import (
    INTEGER_TOP,
    distance_dtype,
    require_fit,
    unreached,
)
from ooc_graph.kernels.common.sssp.rows import LightRows, plain_rows
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.common.tuning import BATCH_SIZE, FIRST_SPAN, PRUNED_FROM
from ooc_graph.kernels.cpu.many import prune as many_prune
from ooc_graph.kernels.cpu.many.batch import Batch, Wanted, all_wanted
from ooc_graph.kernels.cpu.many.prune import floors_of, tells_apart
from ooc_graph.kernels.cpu.many.sssp import Task, search_batch
from ooc_graph.kernels.cpu.many.vectors import slots_for
from ooc_graph.types import AnyArray, IntArray, Rows


class CpuManySearch:
    """Distances from any number of sources; rows are read once for a batch of sources.

    Every thread searches batches of its own, so threads never wait for each other. In addition to
    the rows each has ``batch_size`` distances a vertex, and 16 to 24 bytes a vertex more.

    ``out`` and ``into`` are light-first rows with weights >= 0 (the same object when undirected). A
    batch has ``batch_size`` sources at most, 64 or less; rounded up to whole vectors. ``longest``
    bounds a path's length, if integer weights have a bound that is lower than vertices times
    heaviest weight. InputError: it might not fit the distances' dtype.
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        team: Team,
        batch_size: int = BATCH_SIZE,
        longest: int | None = None,
    ) -> None:
        plain = plain_rows(out)
        self.rows = plain, plain if into is out else plain_rows(into)
        """All out- and in-arcs, with the weights that are searched."""
        self.vertices, self.team = len(plain.offsets) - 1, team
        self.dtype = distance_dtype(plain.weights)
        self._batch_size = batch_size
        self._pruned: tuple[LightRows, LightRows] | None = None
        self._floors: AnyArray = np.empty(0, self.dtype)
        self.counts: IntArray = np.zeros((team.threads, 4), np.int64)
        heaviest = plain.weights.max(initial=0)
        require_fit(heaviest, self.vertices, self.dtype, longest)
        # Distances above floors that lie below 0 must fit, too.
        bound = float(heaviest) * self.vertices if longest is None else longest
        self._has_range = 4 * bound < highest(self.dtype)

    def expect(self, sources: int) -> None:
        """Drop arcs that nobody needs if so many sources, in all runs to come, pay for it."""
        if self.prunes_for(sources) and self._pruned is None and self.vertices:
            counted = self.counts.copy()
            self._pruned = self._prune()
            # Of searches that were asked for alone.
            self.counts = counted

    @staticmethod
    def prunes_for(sources: int) -> bool:
        """Whether so many sources pay for finding arcs that nobody needs."""
        return sources >= PRUNED_FROM

    def search(
        self,
        wanted: Wanted,
        batch_size: int | None = None,
        on_done: OnDone | None = None,
        *,
        pruning: bool = True,
    ) -> None:
        """Search from some sources: each row of the answer has the bits of a single search.

        A batch has up to ``batch_size`` sources, by default those of this object. With ``pruning``,
        arcs that nobody needs are dropped first if so many sources pay for it.
        """
        if pruning:
            self.expect(len(wanted.sources))
        out, into = self.rows if self._pruned is None else self._pruned
        if len(wanted.sources):
            self._search(out, into, wanted, batch_size or self._batch_size, self._floors, on_done)

    def _search(
        self,
        out: LightRows,
        into: LightRows,
        wanted: Wanted,
        most: int,
        floors: AnyArray,
        on_done: OnDone | None = None,
    ) -> None:
        dtype, count, threads = wanted.answer.dtype, len(wanted.sources), self.team.threads
        slots = slots_for(dtype, min(even_batch(count, most, threads), WORD_BITS))
        begins = starts(count, slots, on_done, most, threads)
        longest = int(np.diff(begins).max())
        states = [_state(self.vertices, dtype, longest, counts) for counts in self.counts]
        step = np.array([step_of(out, dtype)], dtype)
        task = Task(out, into, leaves_of(out, into), floors, step, begins, wanted)
        run_batches(self.team, search_batch, states, task, on_done)

    def _prune(self) -> tuple[LightRows, LightRows]:
        """Rows without arcs that no shortest path needs: of out-arcs, and of in-arcs."""
        out, into = self.rows
        same = into is out
        landmarks = np.arange(min(many_prune.LANDMARKS, self.vertices))
        dtype = np.dtype(np.float64 if self.dtype.kind == "f" else np.int64)
        eps = epsilon(self.dtype)
        top = unreached(dtype)[0]
        span = FIRST_SPAN * float(out.weights.max(initial=0))
        while True:
            error = 4 * eps * span
            longer = many_prune.inflated(out, error)
            back = longer if same else many_prune.inflated(into, error)
            away = np.empty((len(landmarks), self.vertices), dtype)
            given = self._batch_size, np.empty(0, dtype)
            self._search(longer, back, all_wanted(landmarks, away), *given)
            to = away if same else np.empty_like(away)
            if not same:
                self._search(back, longer, all_wanted(landmarks, to), *given)
            found = many_prune.span_of(to, away, top)
            if found <= span or eps == 0:
                break
            span = 2 * found
        if self._has_range and tells_apart(out, error):
            self._floors = floors_of(to, top, out, self.dtype)
        margin = np.array(error).astype(dtype)[()]
        pruned = []
        for rows, near, far in ((out, to, away), (into, away, to)):
            needed = np.empty(len(rows.neighbors), np.bool_)
            many_prune.mark_needed(rows, near, far, margin, top, needed)
            pruned.append(many_prune.kept_rows(rows, needed))
            if same:
                return pruned[0], pruned[0]
        return pruned[0], pruned[1]


def leaves_of(out: LightRows, into: LightRows) -> IntArray:
    """Rows that no shortest path leads through: one neighbour, the same in and out, or none out."""
    arcs_out, arcs_in = np.diff(out.offsets), np.diff(into.offsets)
    ends = np.flatnonzero(arcs_out == 0)
    single = np.flatnonzero((arcs_out == 1) & (arcs_in == 1))
    same = out.neighbors[out.offsets[single]] == into.neighbors[into.offsets[single]]
    return np.sort(np.concatenate([ends, single[same]]))


def even_batch(sources: int, most: int, threads: int) -> int:
    """Sources in a batch if all threads are to have as many batches, as long as each other."""
    rounds = max(1, -(-sources // (most * threads)))
    return max(1, -(-sources // (rounds * threads)))


def epsilon(dtype: np.dtype[Any]) -> float:
    """Distance from 1 to the next number of a float dtype; 0 for integers."""
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0


def step_of(rows: LightRows, dtype: np.dtype[Any]) -> Any:
    """How far the bound rises at a time: mean weight by mean degree, as in delta-stepping."""
    if len(rows.weights) == 0:
        return dtype.type(0)
    degree = len(rows.weights) / (len(rows.offsets) - 1)
    # The sum may overflow though no path does: all rows push in each sweep then.
    with np.errstate(over="ignore"):
        mean = float(rows.weights.mean(dtype=np.float64))
    return np.array(mean / degree).astype(dtype)[()]


def _state(rows: int, dtype: np.dtype[Any], slots: int, counts: IntArray) -> Batch:
    """State of one batch; what it does is added to ``counts``."""
    slots = slots_for(dtype, min(slots, WORD_BITS))
    limits: list[Any] = [INTEGER_TOP, 2 * INTEGER_TOP, 0]
    if dtype.kind == "f":
        limits = [np.inf, np.nan, 8 * epsilon(dtype)]
    return Batch(
        np.empty((rows, slots), dtype),
        np.empty(rows, dtype),
        np.empty(rows, dtype),
        np.empty(slots, dtype),
        np.array(limits, dtype),
        np.empty(words_for(rows), np.uint64),
        np.empty(rows, np.uint64),
        counts,
    )


def run_batches(
    team: Team, search_batch: Any, states: Sequence[Any], task: Any, on_done: OnDone | None
) -> None:
    """Search batch after batch by all threads, each with a state of its own.

    The kernel ``search_batch`` searches the next one of ``task``: its number, below 0 if none is.
    """

    def batches(thread: int, _: int, control: IntArray) -> None:
        while (number := search_batch(control, states[thread], task)) >= 0:
            if on_done is not None:
                on_done(int(task.begins[number]), int(task.begins[number + 1]))

    team.launch(batches, new_control())


def highest(dtype: np.dtype[Any]) -> float:
    """No distance lies as high: `INTEGER_TOP`, or the largest float."""
    return float(np.finfo(dtype).max) if dtype.kind == "f" else INTEGER_TOP
