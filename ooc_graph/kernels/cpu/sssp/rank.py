"""SSSP steps on one shard of many (CPU).

Distances live in the process's shared replica. Its `merge` changes them, and `pull_at_once` and
`push_at_once` those of own rows, or, if all ranks have joined in one, of any. In all other steps a
rank reads them and says what it found, which therefore does not depend on the order of ranks. The
steps are those of the fused search, given which vertices the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.common.dealt import arcs_of, copy_own, dealt_of
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.sssp.distances import BaseSsspRank, Payload
from ooc_graph.kernels.common.sssp.plateaus import Plateau
from ooc_graph.kernels.common.sssp.rows import Known, LightRows, Wave
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.sssp import parents
from ooc_graph.kernels.cpu.sssp.fused import overflowed
from ooc_graph.kernels.cpu.sssp.listing import push_once, push_own
from ooc_graph.kernels.cpu.sssp.pull import CHANGED, pull_part
from ooc_graph.kernels.cpu.sssp.push import HeadedRows
from ooc_graph.kernels.cpu.sssp.rising import push_inner
from ooc_graph.kernels.cpu.sssp.search import new_wave
from ooc_graph.kernels.cpu.sssp.shared import (
    CpuSsspShared,
    find_at,
    find_beside_rows,
    list_within,
    ready,
    take_solved,
)
from ooc_graph.types import AnyArray, Dealing

MOST_LISTED = 1 << 16
"""Entries that a push at once lists for others, at most."""


class CpuSsspRank(BaseSsspRank):
    """SSSP steps on the rows of one shard, on a team of threads.

    In addition to the rows, which are light-first, it has two ids, a distance, a parent and 4 bytes
    a row (8 if a row has 2**30 arcs). It pushes along ``out``, and pulls along ``into``.
    """

    def __init__(
        self,
        dealing: Dealing,
        out: LightRows,
        into: LightRows | HeadedRows,
        known: Known,
        team: Team,
    ) -> None:
        rows, ids = dealing.rows, out.neighbors.dtype
        super().__init__(dealing, len(out.neighbors), ids, out.weights.dtype, known)
        self._out, self._into, self._team = out, into, team
        top = np.array([self._top])
        self._kind = top.dtype.type
        longest = int(np.diff(out.offsets).max(initial=0))
        wave = new_wave(np.empty(rows, ids), top.dtype, 0, longest)
        # What a pull finds, and then the answer.
        self._distance = wave.distance
        self._wave = wave._replace(distance=wave.distance[:0], dealt=dealt_of(dealing))
        self._ranges = np.empty((team.threads, 2), top.dtype)
        self._scratches = parents.new_scratches(team.threads, top.dtype)
        self._parent = np.empty(rows, ids)
        self._bound, self._floor = self._top, 0.0
        self._within: AnyArray | None = None
        self._own = wave.queue[:0]

    def start(self) -> None:
        """Forget everything."""
        self.drop_pending()
        self._bound, self._floor, self._left = self._top, 0.0, 0
        self._within, self._own = None, self._wave.queue[:0]
        self._parent[:] = np.iinfo(self._ids).max

    def drop_pending(self) -> None:
        """Forget the rows that wait above the bound."""
        self._wave.taken[:] = 0
        self._pending = self._queued = 0

    def push(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int, int]:
        """Candidates up to ``bound`` from own rows just improved or pending."""
        wave, limit, has_risen = self._seen(shared), self._kind(bound), bound != self._bound
        self._bound = bound
        count, pending, capacity = ready(
            self._out, wave, shared.improved, 0, self._pending, has_risen, limit
        )
        target, found = np.empty(capacity, self._ids), np.empty(capacity, self._top.dtype)
        _, listed, self._pending, examined, again, smallest = push_once(
            self._out, wave, count, pending, limit, target, found
        )
        least = np.array([smallest], self._top.dtype)
        return (target[:listed].copy(), found[:listed].copy(), least), examined, again

    def push_at_once(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int, int]:
        """As `push`, but own distances are written at once, and their rows pushed as well.

        To the fixed point of the own rows, by this call or the next if the list is full.
        """
        wave, limit, has_risen = self._seen(shared), self._kind(bound), bound != self._bound
        assert not (has_risen and self._queued)
        self._bound, count, pending = bound, self._queued, self._pending
        # No merge lists what this rank has written.
        for improved in (self._own, shared.improved):
            count, pending, _ = ready(self._out, wave, improved, count, pending, has_risen, limit)
            has_risen = False
        self._own = self._own[:0]
        target, found = np.empty(MOST_LISTED, self._ids), np.empty(MOST_LISTED, self._top.dtype)
        head, self._queued, listed, self._pending, examined, again, smallest = push_own(
            self._out, wave, count, pending, limit, target, found, shared.is_joined
        )
        if self._queued:
            left = np.arange(head, head + self._queued)
            wave.queue[: self._queued] = wave.queue.take(left, mode="wrap")
        least = np.array([smallest], self._top.dtype)
        return (target[:listed], found[:listed], least), examined, again

    def _seen(self, shared: CpuSsspShared) -> Wave:
        return self._wave._replace(distance=shared.distance)

    def arcs_within(self, shared: CpuSsspShared, bounds: Sequence[float]) -> list[int]:
        """Arcs of the own rows with a distance of at most each of the bounds, which ascend."""
        rows = self._rows_within(shared, bounds[-1])
        stage = np.searchsorted(bounds, shared.distance[self._dealing.internal_of(rows)])
        per_stage = np.bincount(stage, self._lengths(rows), len(bounds))
        return [int(arcs) for arcs in np.cumsum(per_stage)]

    def _lengths(self, rows: AnyArray) -> AnyArray:
        lengths: AnyArray = self._out.offsets[rows + 1] - self._out.offsets[rows]
        return lengths

    def _rows_within(self, shared: CpuSsspShared, bound: float) -> AnyArray:
        """Own rows within a bound that is settled, and not above the last one of this search."""
        if self._within is None:
            count = list_within(self._seen(shared), self._kind(bound), self._wave.queue)
            self._within = self._wave.queue[:count].astype(np.int64)
        else:
            away = shared.distance[self._dealing.internal_of(self._within)]
            self._within = self._within[away <= self._kind(bound)]
        return self._within

    def push_within(self, shared: CpuSsspShared, bound: float) -> tuple[Payload, int]:
        """Candidates along all arcs of the own rows within ``bound``; arcs examined."""
        rows = self._rows_within(shared, bound)
        target, found = self._listed(rows, self._top.dtype)
        if shared.is_joined:
            target = target[:0]  # written at once
        wave = self._seen(shared)._replace(first=rows)
        listed, examined = push_inner(self._out, wave, len(rows), target, found)
        return (target[:listed], found[:listed], np.array([self._top])), examined

    def _listed(self, rows: AnyArray, dtype: np.dtype[Any]) -> tuple[AnyArray, AnyArray]:
        """Arrays for one entry an arc of some rows, and one at least."""
        capacity = 1 + int(self._lengths(rows).sum(dtype=np.int64))
        return np.empty(capacity, self._ids), np.empty(capacity, dtype)

    def pull(self, shared: CpuSsspShared, final: float, floor: float) -> tuple[Payload, int, int]:
        """Own rows beyond ``final`` that improve; their out-arcs; arcs examined.

        The next step writes to the arrays of the payload.
        """
        target, arcs, control = self._pulled(shared, self._distance, final, floor)
        payload = target, self._distance[: len(target)], np.array([self._top])
        return payload, arcs, int(control[parents.EXAMINED])

    def pull_at_once(
        self, shared: CpuSsspShared, final: float, floor: float
    ) -> tuple[Payload, int, int]:
        """As `pull`, with the distances of own rows written at once."""
        target, arcs, control = self._pulled(shared, self._distance[:0], final, floor)
        self._own = target
        if shared.is_joined:
            # Others see these distances; they need only the smallest.
            nearest = find_at(shared.distance, target, self._ranges[:, 0].min())
            target = target[nearest : nearest + 1]
        payload = target, shared.distance[target], np.array([self._top])
        return payload, arcs, int(control[parents.EXAMINED])

    def _pulled(
        self, shared: CpuSsspShared, found: AnyArray, final: float, floor: float
    ) -> tuple[AnyArray, int, AnyArray]:
        """Vertices that a pull improved, their out-arcs, and what it counted."""
        control, wave = new_control(), self._seen(shared)
        self._ranges[:, 0] = self._top
        bounds, scratch = (self._kind(final), self._kind(floor)), (self._ranges, self._scratches)
        self._team.launch(pull_part, control, self._into, wave, found, *bounds, *scratch)
        target = wave.queue[: int(control[CHANGED])]
        return target, int(arcs_of(self._out.offsets, wave.dealt, target)), control

    def offer_within(self, shared: CpuSsspShared, bound: float) -> tuple[AnyArray, AnyArray, int]:
        """Vertices that own rows within ``bound`` may be parents of, these rows; arcs examined."""
        rows = self._rows_within(shared, bound)
        target, offered = self._listed(rows, self._ids)
        wave = self._seen(shared)._replace(first=rows)
        listed, examined = parents.inner_parents(
            self._out, wave, self._parent, len(rows), target, offered
        )
        return target[:listed], offered[:listed], examined

    def take_offered(
        self, shared: CpuSsspShared, target: AnyArray, offered: AnyArray, floor: float
    ) -> None:
        """Give own rows among ``target`` the best parents that are offered."""
        parents.take_offered(shared.distance, self._parent, self._dealing.local_of(target), offered)
        self._floor, self._within = floor, None

    def find_parents(self, shared: CpuSsspShared, root: int) -> tuple[AnyArray, int]:
        """Find the parents that are still lacking; vertices left on plateaus, and arcs examined."""
        control, wave = new_control(), self._seen(shared)
        given = self._into, wave, self._parent, root, self._kind(self._floor), self._scratches
        self._team.launch(parents.parents_part, control, *given)
        self._left = int(control[parents.UNRESOLVED])
        return self._dealing.internal_of(wave.pending[: self._left]), int(control[parents.EXAMINED])

    def resolve(self, shared: CpuSsspShared) -> AnyArray:
        """Vertices on plateaus that are next to one that has a parent, and take it."""
        wave, parent, left = self._wave, self._parent, self._left
        given = shared.distance, parent, shared.waiting, wave.pending, self._top, wave.dealt
        self._find_beside(Plateau(*given), wave.pending[:left])
        solved = np.empty(left, self._ids)
        found, self._left = take_solved(parent, wave.pending, left, solved)
        return self._dealing.internal_of(solved[:found])

    def _find_beside(self, plateau: Plateau, rows: AnyArray) -> None:
        """Give rows the parents on their plateaus that they can have now."""
        find_beside_rows(self._into, plateau, rows)

    def overflowed(self, shared: CpuSsspShared) -> bool:
        """Tell whether a shortest distance from here exceeds the distances' dtype."""
        wave = self._seen(shared)
        heaviest = self._known.heaviest
        return bool(overflowed(self._out, wave.distance, wave.dealt, heaviest, self._top))

    def distances(self, shared: CpuSsspShared) -> AnyArray:
        """Distances of the own rows, in an array of their own."""
        own = np.empty_like(self._distance)
        copy_own(shared.distance, self._wave.dealt, own)
        return own

    def tree(self, shared: CpuSsspShared, phase_arcs: dict[str, int]) -> SsspTree:
        """Answer for the own rows, in local order."""
        copy_own(shared.distance, self._wave.dealt, self._distance)
        return SsspTree(self._parent, self._distance, 0.0, phase_arcs)
