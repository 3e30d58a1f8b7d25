"""SSSP on a CUDA device of a graph of which only the heads of the rows are within its reach.

The course is that of `ooc_graph.kernels.cpu.store.sssp_search`: heads by kernels, and what lies
behind them comes from the tier where rows want it, checked as ever. The answer has the same bytes.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.decisions import SsspTree, finish_by_push, last_bound
from ooc_graph.kernels.common.sssp.distances import overflow_error, sums_may_overflow
from ooc_graph.kernels.common.sssp.rows import Known, may_pull
from ooc_graph.kernels.common.store.rows import TAIL_ROWS
from ooc_graph.kernels.common.store.scans import arcs_beyond
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import NARROW, require_root
from ooc_graph.kernels.cuda.runtime.steps import AGAIN, ARCS, EMITTED, EXAMINED, KEPT, LISTED, least
from ooc_graph.kernels.cuda.store.heads import DiskBuffers, DiskSide
from ooc_graph.kernels.cuda.store.sssp_parents import find_parents
from ooc_graph.kernels.cuda.store.sssp_push import given_to_push, push_rising
from ooc_graph.kernels.cuda.store.sssp_state import TOP, DiskState, bits_of

_FLOAT = np.dtype(np.float32)
_ALL = np.uint32(0)
"""Candidates from the smallest there are on."""


class CudaDiskSsspSearch:
    """SSSP searches of one whole graph, one at a time; buffers are allocated once.

    In addition to heads it holds 8 bytes a row on the device, four bitmaps, and a batch of blocks
    with its requests (``buffers``, if the rows were loaded with such). Everything happens on the
    device and the stream that are CuPy's current ones.

    Rows are light-first, of out- and in-arcs (the same object when undirected), with ids of 32 bits
    and weights of float32; others are refused (`UsageError`). ``pins`` says whether host memory may
    be pinned for what is copied: a bit a row, and what a window takes.
    """

    def __init__(
        self,
        out: DiskSide,
        into: DiskSide,
        known: Known,
        *,
        pins: bool = True,
        buffers: DiskBuffers | None = None,
    ) -> None:
        cuda()
        require_columns(out.rows.dtypes)
        self._known = known
        self._arcs = int(out.rows.heads.lengths.sum(dtype=np.int64))
        with within_memory("SSSP on this graph"):
            self._state = DiskState(out, into, pins=pins, buffers=buffers)
        rows = self._state.rows
        self._may_overflow = sums_may_overflow(float(known.heaviest), rows, _FLOAT)
        self._may_pull = may_pull(known.survey)
        self._phase_arcs: dict[str, int] = {}

    def run(self, root: int) -> SsspTree:
        """Search from internal id ``root``, to host memory. Raises as `CudaSsspSearch.run`."""
        there: Any = self.run_on_device(root)
        columns = there.parent.get(), there.distance.get()
        return SsspTree(*columns, there.elapsed_s, there.phase_arcs)

    def run_on_device(self, root: int) -> SsspTree:
        """As `run`; the arrays stay on the device, and change with the next search."""
        state = self._state
        require_root(root, state.rows)
        start = perf_counter()
        self._phase_arcs = {"push": 0, "pull": 0, "finish": 0, "parents": 0}
        final, floor = self._push(root)
        if final < TOP:
            self._pull(final, floor)
        self._phase_arcs["parents"] = find_parents(state, root, floor)
        self._require_no_overflow()
        elapsed_s = perf_counter() - start
        distance = state.distance.view(_FLOAT)
        return SsspTree(state.parent, distance, elapsed_s, self._phase_arcs)

    def _push(self, root: int) -> tuple[np.float32, np.float32]:
        """Push along heads, and from the few rows nearest to the root along all of their arcs.

        Returns the distance up to which all are final (`TOP` if all there are are), and a lower
        bound of the distances of all but those rows, which the state keeps.
        """
        state, step = self._state, self._known.survey.step
        found = push_rising(state, root, step, self._arcs, stop_for_pull=self._may_pull)
        self._phase_arcs["push"] = found.examined
        beyond = state.least_beyond(of_few=False)
        final = beyond if found.settled else min(found.bound, beyond)
        if final == TOP:
            state.keep_few(np.empty(0, np.uint32))
            return TOP, np.float32(0)
        if not state.few:
            return final, found.floor
        floor = min(found.floor, state.least_beyond(of_few=True))
        state.clear()
        state.over_few("push_rows", *given_to_push(state, _ALL, TOP, state.more))
        self._relax_tails(TOP, "push")
        return final, floor

    def _relax_tails(self, bound: np.float32, phase: str) -> bool:
        """Go on with what was pushed along heads; tell whether anything is nearer now."""
        state = self._state
        given = bits_of(bound), state.distance, state.nearer
        found = state.go_on(state.out, "push_arcs", *given)
        self._phase_arcs[phase] += found[EXAMINED]
        return bool(found[EMITTED] + found[AGAIN])

    def _pull(self, final: np.float32, floor: np.float32) -> None:
        """Pull until nothing changes, or until pushing what changed is cheaper."""
        state, passes = self._state, 0
        while True:
            before = self._phase_arcs["pull"]
            low, reached = self._pull_pass(final, floor)
            count, arcs = self._changed()
            passes += 1
            if count == 0:
                return
            examined = self._phase_arcs["pull"] - before
            if passes > 1 and arcs is not None and finish_by_push(arcs, examined, state.rows):
                break
            final, floor = max(final, low), low
        bound, going = last_bound(reached, self._may_overflow, state.farthest(), TOP), True
        while going:
            state.clear()
            state.list_rows(state.nearer)
            state.over_listed("push_rows", *given_to_push(state, _ALL, bound, state.more))
            going = self._relax_tails(bound, "finish")

    def _pull_pass(self, final: np.float32, floor: np.float32) -> tuple[np.float32, int]:
        """One pass over all rows: the smallest new distance, and how many were unreached."""
        state = self._state
        into, least_far = state.into, bits_of(floor)
        given = state.distance, state.nearer
        state.clear()
        bounds = bits_of(final), least_far
        state.over_rows("pull_rows", into.heads.addresses, *bounds, *given, state.more)
        found = state.go_on(into, "pull_arcs", least_far, *given)
        self._phase_arcs["pull"] += found[EXAMINED]
        return np.float32(least(found, TOP)), found[EMITTED]

    def _changed(self) -> tuple[int, int | None]:
        """Rows that are nearer now, and their out-arcs; None where many go beyond their heads."""
        state, out = self._state, self._state.out
        state.clear()
        state.over_words("count_members", state.nearer, out.heads.addresses, state.more)
        found = state.counts()
        if found[KEPT] * TAIL_ROWS > state.rows:
            return found[LISTED], None
        arcs = found[ARCS]
        if found[KEPT]:
            arcs += arcs_beyond(state.noted(), out.loaded)
        return found[LISTED], arcs

    def _require_no_overflow(self) -> None:
        """Refuse an answer in which a path's length did not fit."""
        if not self._may_overflow:
            return
        state, heads = self._state, self._state.out.heads
        state.clear()
        state.over_rows("note_far", np.float32(self._known.heaviest), state.distance, state.next)
        if not state.counts()[LISTED]:
            return
        state.clear()
        far = state.next
        state.over_words("lose_rows", far, heads.addresses, state.distance, state.more, lanes=32)
        if state.go_on(state.out, "lose_arcs", state.distance)[EMITTED]:
            raise overflow_error(_FLOAT)


def require_columns(dtypes: tuple[np.dtype[np.generic], ...]) -> None:
    """Refuse ids of 64 bits, and weights that are no float32 (`UsageError`)."""
    if dtypes[0] != NARROW:
        raise UsageError("SSSP on a CUDA device with arcs in the store takes ids of 32 bits only")
    if dtypes[1] != _FLOAT:
        raise UsageError(
            f"SSSP with weights of type {dtypes[1]} wants all rows on the device, "
            "which is too small for them; with float32 it does not"
        )
