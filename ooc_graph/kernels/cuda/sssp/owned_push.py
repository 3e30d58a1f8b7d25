"""Pushes of an SSSP rank that has the distances and parents of its own rows alone (CUDA)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.sssp.distances import BaseSsspRank
from ooc_graph.kernels.common.sssp.owned import Candidates, Pushed, SharedSettled
from ooc_graph.kernels.common.sssp.rows import Known
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.shares import RankRows
from ooc_graph.kernels.cuda.runtime.steps import (
    AGAIN,
    LISTED,
    Steps,
    dealt,
    ids_of,
    owned_row,
    pieces,
    starts_of,
    threads_for,
    uploaded,
)
from ooc_graph.kernels.cuda.runtime.table import TargetTable
from ooc_graph.kernels.cuda.sssp.row_queue import RowQueue
from ooc_graph.kernels.cuda.sssp.shared import STEP, constants
from ooc_graph.types import AnyArray, Dealing

LENGTHS, NEARS, PARENTS = (np.uint32(number) for number in range(3))
"""Passes over candidates, as ``sssp_owned.cu`` has them."""
WHOLE = np.uint32(1), np.uint32(0)
"""Shards and shard if rows are numbered as vertices are."""


class Round(NamedTuple):
    """Rows that are pushed, or offer themselves, as kernels are given them."""

    queue: tuple[Any, ...] = ()
    """How many, arcs before each, the rows, and where the neighbours of each begin."""
    pushed: tuple[Any, ...] = ()
    """Where the weights of each begin, and its distance when it was measured; of pushes."""
    arcs: tuple[Any, Any] = (None, None)
    """Where their neighbours and weights are."""
    end: int = 0
    """Arcs of all of them."""


class OwnedPushes(BaseSsspRank):
    """What a rank has, and how it takes candidates: those of its own pushes, and others' ones."""

    def __init__(self, dealing: Dealing, rows: RankRows, known: Known, *, directed: bool) -> None:
        cupy, count = cuda(), dealing.rows
        assert rows.weights is not None
        ids = ids_of(dealing.vertices)
        super().__init__(dealing, rows.arcs, ids, rows.weights, known)
        dtype = self._top.dtype
        self.directed, self.ranks = directed, dealing.shards
        self._rows, self._words = np.uint32(count), 2 * words_for(count)
        self._dealt, self._out, self._kind = dealt(dealing), rows.out, dtype.type
        self._bits = np.dtype(f"u{dtype.itemsize}")
        with within_memory("SSSP on these rows"):
            types = {**constants(rows.weights, dtype, ids), **rows.constants}
            # What is offered is counted while rows are queued.
            self._steps, self._offers = (Steps("sssp_owned.cu", types) for _ in range(2))
            self._distance, self._near = (cupy.empty(count, dtype) for _ in range(2))
            self._parent, self._improved = (cupy.empty(count, ids) for _ in range(2))
            self._marks = cupy.empty(self._words, np.uint32)
            self._queue = RowQueue(self._steps, self._out, WHOLE, ids, self._top)
        self._own = self._distance, self._near, self._parent
        self._table: TargetTable | None = None

    @within_memory(STEP)
    def begin(self, root: int, bound: float, distance: AnyArray | None, most_listed: int) -> None:
        """Forget everything; the root, or all that was reached before, is to be pushed."""
        self._table, self._round = None, Round()
        none = self._ids.type(np.iinfo(self._ids).max)
        for column, value in zip(self._own, (self._top, self._top, none), strict=True):
            column.fill(value)
        self._marks.fill(0)
        self._queue.drop()
        if distance is not None:
            self._distance.set(np.ascontiguousarray(distance))
        row = owned_row(root, self._dealing)
        if row is not None:
            self._distance[row] = self._near[row] = 0
            self._parent[row] = root
        most = self._top, self._top, none
        self._table = TargetTable(self._offers, most_listed, self._ids, most)
        self._offers.clear()
        given = self._rows, self._distance, self._top, self._improved, self._offers.counts
        self._offers.launch("list_reached", int(self._rows), *given)
        self._bound, self._low, self._smallest = self._kind(bound), self._kind(-1), self._top
        self._is_measured, self._at = False, 0

    @within_memory(STEP)
    def push(self, shared: SharedSettled, bound: float) -> Pushed:
        """Push own rows below the bound, to their fixed point, or until the table is full."""
        if bound != self._bound:
            assert self._at == self._round.end
            self._raise_bound(self._kind(bound))
        self._offers.zero(AGAIN)
        examined, counts = self._push_rows(shared.settled)
        waiting, smallest = self._still_to_go(counts[LISTED]), self._smallest_beyond()
        return Pushed(self._sent(), waiting, examined, counts[AGAIN], smallest)

    def _raise_bound(self, bound: Any) -> None:
        self._bound, self._is_measured = bound, False

    def _push_rows(self, settled: Any) -> tuple[int, list[int]]:
        """Push until nothing changes, or the table is full; arcs examined, and the counts then."""
        examined = 0
        while True:
            reached = self._push_along(self._round, self._at, settled)
            self._at, examined = reached, examined + reached - self._at
            counts = self._offers.fetch()
            if reached < self._round.end or (self._is_measured and not counts[LISTED]):
                return examined, counts
            self._measure(counts[LISTED])

    def _still_to_go(self, improved: int) -> int:
        """Arcs that are left to be pushed, and rows that improved."""
        return self._round.end - self._at + improved

    def _smallest_beyond(self) -> Any:
        """Smallest candidate above the bound of the rows that wait."""
        return self._smallest

    def _entries(self) -> TargetTable:
        assert self._table is not None
        return self._table

    def _measure(self, improved: int) -> None:
        """Queue the rows that improved or waited, with their arcs up to the bound."""
        self._round, self._at = Round(), 0  # gives back what it has
        queued = self._queue.measure(self._improved[:improved], self._distance, self._bound)
        self._offers.zero(LISTED)
        self._marks.fill(0)
        self._smallest, self._is_measured = queued.least, True
        rows, end = self._queue.rows[: len(queued.arcs)], queued.examined
        queue = np.uint32(len(rows)), starts_of(queued.arcs), rows, queued.first
        del queued  # and its arcs
        # Distances fall while rows are pushed; they are pushed again then.
        pushed, columns = (queue[3], self._distance[rows]), (self._out.neighbors, self._out.weights)
        self._round = Round(queue, pushed, columns, end)

    def _push_along(self, going: Round, at: int, settled: Any) -> int:
        """Push from arc ``at`` on, until the table is to be emptied; the arc after the last."""
        given = *going.pushed, *going.arcs, *self._dealt, settled, self._top, *self._own
        passes = LENGTHS, NEARS, PARENTS
        return self._go_along("push_owned", passes, going, at, *given, self._marks, self._improved)

    def _go_along(
        self, name: str, passes: tuple[Any, ...], going: Round, at: int, *arguments: Any
    ) -> int:
        """As `_push_along`, by passes of a kernel, which list candidates for others."""
        table = self._entries()
        listed = *table.arguments, *table.columns, self._offers.counts
        while part := self._next_part(going.end - at):
            ends = np.uint64(at), np.uint64(at + part)
            for one in passes:
                given = one, *ends, *going.queue, *arguments, *listed
                self._offers.launch(name, threads_for(part), *given)
            at += part
        return at

    def _next_part(self, left: int) -> int:
        """Of the arcs that are left, how many come next; 0: the table is to be emptied before."""
        if not left:
            return 0
        entries, free = self._entries().entries, self._entries().free
        return 0 if 2 * free < entries and free < left else min(free, left)

    def _sent(self) -> Candidates:
        """What the table has, by ascending target; empties it.

        Distances become unsigned numbers of the same bits, which the exchange can code.
        """
        target, found, near, parent = self._entries().take()
        order = np.argsort(target)
        found, near = (column.view(self._bits)[order] for column in (found, near))
        return target[order], found, near, parent[order]

    @within_memory(STEP)
    def take(self, candidates: Candidates) -> int:
        """Take candidates below the bound; how many improve what was reached before."""
        self._offers.zero(AGAIN)
        for piece in self._pieces_of(candidates):
            self._take(piece)
        return self._offers.fetch()[AGAIN]

    def _take(self, candidates: Candidates) -> None:
        arrived = self._uploaded(candidates)
        own = self._dealt[0], self._top, *self._own, self._marks, self._improved
        for one in (LENGTHS, NEARS, PARENTS):
            given = one, *arrived, *own, self._offers.counts
            self._offers.launch("take_arrived", len(candidates[0]), *given)

    def _pieces_of(self, candidates: Candidates) -> Iterator[Candidates]:
        """Candidates, as many at a time as the table has entries; all in host memory."""
        for piece in pieces(len(candidates[0]), self._entries().entries):
            target, found, near, parent = candidates
            yield target[piece], found[piece], near[piece], parent[piece]

    def _uploaded(self, candidates: Candidates) -> tuple[Any, ...]:
        """Their number, targets, distances, those of their parents, and parents, on the device."""
        kinds = self._ids, self._bits, self._bits, self._ids
        target, found, near, parent = (
            uploaded([column], kind) for column, kind in zip(candidates, kinds, strict=True)
        )
        sums = found.view(self._top.dtype), near.view(self._top.dtype)
        return np.uint64(len(target)), target, *sums, parent
