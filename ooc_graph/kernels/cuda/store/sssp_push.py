"""Push from the root along heads alone, under a rising bound, on a CUDA device.

As `ooc_graph.kernels.cpu.sssp.push.push_rising`, a frontier at a time: what lies beyond the heads
of the rows reached comes later, and until then no distance from the smallest of it on is final.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import adapt_step, push_is_enough
from ooc_graph.kernels.common.sssp.distances import bound_above
from ooc_graph.kernels.common.sssp.rows import MOST_FIRST
from ooc_graph.kernels.common.tuning import ENOUGH_PUSHED
from ooc_graph.kernels.cuda.runtime.rows import NULL
from ooc_graph.kernels.cuda.runtime.steps import AGAIN, EMITTED, EXAMINED, least
from ooc_graph.kernels.cuda.store.sssp_state import TOP, DiskState, bits_of


@dataclass(frozen=True)
class Pushed:
    """How far pushing went."""

    bound: np.float32  # all distances up to it are final in the graph of heads
    # The rows that the state keeps are the nearest to the root; the distance along heads of every
    # other is at least this. They hold few arcs, beyond their heads too.
    floor: np.float32
    examined: int  # arcs
    settled: bool  # nothing is left to do along heads


@dataclass
class _Inner:
    """The rows reached first, as long as they hold few arcs."""

    state: DiskState
    arcs: int
    floor: np.float32
    growing: bool = True

    def grow(self, reached: int, smallest: np.float32) -> None:
        """Take all that are reached, if they are few; all others are ``smallest`` away at least."""
        most = min(MOST_FIRST, max(1, self.arcs // ENOUGH_PUSHED))
        self.growing = self.growing and reached <= most
        if not self.growing:
            return
        rows = self.state.reached()
        arcs = int(self.state.out.rows.heads.lengths[rows].sum(dtype=np.int64))
        self.growing = not push_is_enough(arcs, self.arcs)
        if self.growing:
            self.state.keep_few(rows)
            self.floor = smallest


def push_rising(
    state: DiskState, root: int, step: float, arcs: int, *, stop_for_pull: bool
) -> Pushed:
    """Push from the root along the heads of out-arcs, to begin with; all rows have so many arcs.

    The bound rises by ``step`` at first. It ends when nothing is left; or, if it is to
    ``stop_for_pull``, once enough is pushed for pulling to be cheaper.
    """
    state.begin(root)
    bound = np.float32(0)
    inner = _Inner(state, arcs, bound)
    total, reached, below = 0, 1, None
    while True:
        examined, again, fresh = _push_below(state, below, bound)
        total, reached = total + examined, reached + fresh
        step = adapt_step(step, examined, again)
        smallest = _smallest_waiting(state, bound)
        inner.grow(reached, smallest)
        settled = bool(smallest == TOP)
        if settled or (stop_for_pull and push_is_enough(total, arcs)):
            return Pushed(bound, inner.floor, total, settled)
        below, bound = bound, np.float32(bound_above(smallest, step, TOP))


def _push_below(
    state: DiskState, below: np.float32 | None, bound: np.float32
) -> tuple[int, int, int]:
    """Push to the fixed point of all candidates <= ``bound``.

    All rows were pushed to the fixed point of the bound ``below``, if there was one. Returns the
    arcs examined, the vertices improved that had been reached before, and those reached now.
    """
    totals = np.zeros(3, np.int64)
    begin = np.uint32(0)
    if below is not None:
        begin = bits_of(below) + np.uint32(1)
    while True:
        state.clear()
        state.list_rows(state.waiting if begin else state.nearer)
        state.over_listed("push_rows", *given_to_push(state, begin, bound, NULL))
        found = state.counts()
        totals += (found[EXAMINED], found[AGAIN], found[EMITTED])
        if not found[AGAIN] + found[EMITTED]:
            return int(totals[0]), int(totals[1]), int(totals[2])
        begin = np.uint32(0)


def given_to_push(state: DiskState, begin: np.uint32, bound: np.float32, more: Any) -> Any:
    """Arguments of ``push_rows``: candidates from ``begin`` on, as bits, up to a bound."""
    return state.out.heads.addresses, begin, bits_of(bound), state.distance, state.nearer, more


def _smallest_waiting(state: DiskState, bound: np.float32) -> np.float32:
    """Smallest candidate above the bound along heads; rows without one wait no more."""
    state.clear()
    given = state.waiting, state.out.heads.addresses, state.distance, bits_of(bound)
    state.over_words("least_waiting", *given, lanes=32)
    return np.float32(least(state.counts(), TOP))
