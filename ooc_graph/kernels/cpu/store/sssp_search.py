"""SSSP on a whole graph of which only the heads of the rows are in memory (CPU).

Pushing goes along heads alone, and ends as early as in memory. Then rows pull along their heads,
and the few that are not content along the arcs that follow, until nothing changes or few rows do,
which push. The distances are the greatest fixed point however it is reached.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import mark_only, words_for
from ooc_graph.kernels.common.dealt import WHOLE
from ooc_graph.kernels.common.decisions import SsspTree, finish_by_push, last_bound
from ooc_graph.kernels.common.sssp import distances, plateaus
from ooc_graph.kernels.common.sssp.plateaus import Plateau
from ooc_graph.kernels.common.sssp.rows import Known, may_pull
from ooc_graph.kernels.common.store.rows import TAIL_ROWS, TierRows
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.sssp.parents import new_scratches
from ooc_graph.kernels.cpu.sssp.rising import push_rising
from ooc_graph.kernels.cpu.sssp.search import new_wave
from ooc_graph.kernels.cpu.store import sssp as steps
from ooc_graph.kernels.cpu.store import sssp_steps as parents
from ooc_graph.kernels.cpu.store.sssp import Field
from ooc_graph.types import AnyArray


class TierSsspSearch:
    """SSSP searches of one whole graph, one at a time; buffers are allocated once.

    In addition to what is in memory of the rows it has 16 bytes a vertex (ids and weights of 32
    bits) and three bitmaps. ``out`` and ``into`` are light-first rows (the same object when
    undirected); ValueError if a row's head lacks its first arc.
    """

    def __init__(self, out: TierRows, into: TierRows, known: Known, team: Team) -> None:
        heads, self._team = out.heads, team
        if steps.has_empty_head(out.heads) or steps.has_empty_head(into.heads):
            raise ValueError("SSSP needs the first arc of every row in memory")
        rows, ids = len(heads.lengths), heads.neighbors.dtype
        dtype = distances.distance_dtype(heads.weights)
        self._out, self._into = out, into
        self._pushed = steps.light_heads(heads)
        self._arcs = int(heads.lengths.sum(dtype=np.int64))
        self._may_overflow = distances.sums_may_overflow(float(known.heaviest), rows, dtype)
        self._known = known
        self._may_pull = may_pull(known.survey)
        longest = int(heads.lengths.max(initial=0))
        self._parent = np.empty(rows, ids)
        self._wave = new_wave(self._parent, dtype, self._arcs, longest)
        self._top: Any = self._wave.top[0]
        self._scratches = new_scratches(team.threads, dtype)
        self._lows = np.empty(team.threads, dtype)
        self._bits, self._more, self._next = (np.zeros(words_for(rows), np.uint64) for _ in "123")
        self._phase_arcs: dict[str, int] = {}

    def run(self, root: int) -> SsspTree:
        """As `CpuSsspSearch.run`; CorruptStoreError if what is fetched is not what was written."""
        start = perf_counter()
        self._phase_arcs = {"push": 0, "pull": 0, "finish": 0, "parents": 0}
        self._wave.distance[:] = self._top
        self._wave.taken[:] = 0
        self._wave.step[0] = self._known.survey.step
        count, final, floor = self._push(root)
        if final < self._top:
            self._pull(final, floor)
        self._find_parents(root, self._wave.first[:count], floor)
        self._require_no_overflow()
        elapsed_s = perf_counter() - start
        return SsspTree(self._parent, self._wave.distance, elapsed_s, self._phase_arcs)

    def _push(self, root: int) -> tuple[int, Any, Any]:
        """Push along heads, and from the inner vertices along all of their arcs.

        Returns how many inner vertices there are, which were reached first; the distance up to
        which all are final, the unreached one's if all are; and a lower bound of the distances of
        all but the inner vertices.
        """
        wave, top, out = self._wave, self._top, self._out
        bound, floor, count, examined, settled = push_rising(
            self._pushed, out.heads.lengths, self._arcs, wave, root, self._may_pull
        )
        self._phase_arcs["push"] = int(examined)
        least, least_inner = steps.least_beyond(out.heads, wave.distance, wave.first[:count], top)
        final = least if settled else min(bound, least)
        if final == top:
            return 0, top, self._number(0)
        self._relax(self._bitmap(wave.first[:count]), top, "push")
        return count, self._number(final), self._number(min(floor, least_inner))

    def _number(self, value: Any) -> Any:
        """A number of the distances' type: kernels give back wider ones, whose sums differ."""
        return self._top.dtype.type(value)

    def _bitmap(self, rows: AnyArray) -> AnyArray:
        """Bitmap of some rows."""
        bits = np.empty_like(self._bits)
        mark_only(bits, rows)
        return bits

    def _field(self, marks: AnyArray, bound: Any) -> Field:
        """State of a step, with nothing counted."""
        distance, top = self._wave.distance, self._top
        low, counts = np.full(1, top), np.zeros(2, np.int64)
        return Field(distance, distance, self._parent, WHOLE, marks, bound, top, low, counts)

    def _relax(self, bits: AnyArray, bound: Any, phase: str) -> AnyArray:
        """Push the rows of a bitmap up to ``bound``; bitmap of what is nearer now."""
        self._next[:] = 0
        field = self._field(self._next, bound)
        self._out.scan_rows(bits, partial(steps.relax_arcs, field))
        self._phase_arcs[phase] += int(field.counts[steps.LOOKED])
        return self._next

    def _pull(self, final: Any, floor: Any) -> None:
        """Pull until nothing changes, or until pushing what changed is cheaper."""
        distance, top, bits = self._wave.distance, self._top, self._bits
        passes = 0
        while True:
            before = self._phase_arcs["pull"]
            low, reached = self._pull_pass(final, floor)
            count, arcs, longer = steps.count_arcs(bits, self._out.heads)
            passes += 1
            if count == 0:
                return
            examined = self._phase_arcs["pull"] - before
            few = longer * TAIL_ROWS <= len(distance)
            if passes > 1 and few and finish_by_push(arcs, examined, len(distance)):
                break
            final, floor = max(final, low), low
        high = self._number(steps.farthest(distance, top, final))
        bound = last_bound(reached, self._may_overflow, high, top)
        while bits.any():
            self._bits, self._next = self._relax(bits, bound, "finish"), bits
            bits = self._bits

    def _pull_pass(self, final: Any, floor: Any) -> tuple[Any, int]:
        """One pass over all rows: the smallest new distance, and how many were unreached."""
        field, control = self._field(self._bits, floor), new_control()
        found = self._lows, self._scratches, self._more
        self._team.launch(steps.pull_heads, control, self._into.heads, field, final, *found)
        field.low[0] = self._lows.min()
        self._into.scan_tails(self._more, partial(steps.pull_tails, field))
        self._phase_arcs["pull"] += int(control[steps.EXAMINED] + field.counts[steps.LOOKED])
        return field.low[0], int(control[steps.REACHED] + field.counts[steps.NEW])

    def _find_parents(self, root: int, inner: AnyArray, floor: Any) -> None:
        """Parents of all that is reached, plateaus last."""
        distance, parent = self._wave.distance, self._parent
        parent[:] = np.iinfo(parent.dtype).max
        field, control = self._field(self._more, floor), new_control()
        # Those nearer than all others: whoever finds a parent among them needs no other.
        nearest = self._bitmap(inner[distance[inner] < floor])
        self._out.scan_rows(nearest, partial(parents.offer_arcs, field))
        parent[root] = root
        self._team.launch(parents.parent_heads, control, self._into.heads, field)
        self._into.scan_tails(self._more, partial(parents.parent_tails, field))
        self._phase_arcs["parents"] += int(control[steps.EXAMINED] + field.counts[steps.LOOKED])
        self._resolve_plateaus()

    def _resolve_plateaus(self) -> None:
        """Parents that ways of weight zero lead to, hop by hop.

        After the first hop only those found in the one before can be parents, so they are pushed.
        """
        wave = self._wave
        given = wave.distance, self._parent, self._bits, wave.pending
        plateau = Plateau(*given, self._top, WHOLE)
        left = plateaus.list_lacking(plateau)
        if left == 0:
            return
        self._into.scan_rows(plateau.lacking, partial(parents.find_beside_tails, plateau))
        found = self._spread(plateau, plateaus.queue_found(plateau))
        if found < left:
            raise AssertionError(f"{left - found} reached vertices have no parent")

    def _spread(self, plateau: Plateau, end: int) -> int:
        """Hops after the first, from the ``end`` rows that are queued; rows found in all."""
        heads, wanting, begin = self._out.heads, self._more, 0
        columns, last = (heads.neighbors, heads.weights), np.zeros(1, np.int64)
        wanting[:] = 0
        while begin < end:
            begin, end, more = plateaus.spread_hops(
                heads.starts, heads.lengths, columns, plateau, begin, end, wanting
            )
            if more:
                last[0] = end
                self._out.scan_tails(wanting, partial(parents.spread_tails, (plateau, last)))
                end = int(last[0])
                wanting[:] = 0
                plateaus.settle_hop(plateau, begin, end)
        return end

    def _require_no_overflow(self) -> None:
        """Refuse an answer in which a path's length did not fit."""
        if not self._may_overflow:
            return
        self._bits[:] = 0
        field = self._field(self._bits, self._top)
        steps.near_overflow(field, self._known.heaviest)
        self._out.scan_rows(self._bits, partial(steps.count_lost, field))
        if field.counts[steps.NEW]:
            raise distances.overflow_error(field.distance.dtype)
