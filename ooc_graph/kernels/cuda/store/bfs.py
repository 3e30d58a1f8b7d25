"""BFS steps on a CUDA device for a graph whose rows are in a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import Words
from ooc_graph.kernels.common.store.rows import Window
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.runtime.rows import on_device, require_root, require_rows
from ooc_graph.kernels.cuda.runtime.steps import (
    ARCS,
    EXAMINED,
    KEPT,
    LISTED,
    Steps,
    threads_for,
    wait,
)
from ooc_graph.kernels.cuda.store.rows import (
    SOURCE,
    HeldColumns,
    Requests,
    WholeRows,
    padded,
)
from ooc_graph.types import AnyArray

_NAME = "BFS with arcs in the store"
_WHOLE_ARCS = 32  # a thread's


@dataclass(frozen=True)
class DiskHold:
    """What of the rows is at hand."""

    near: Sequence[int] = ()  # rows of each column that is on the device
    far: Sequence[Any] = ()  # columns in pinned host memory, as of `HeldColumns`
    # Out-rows that are held whole: so many on the device, and behind them in pinned memory.
    near_hubs: int = 0
    far_hubs: int = 0
    hub_arcs: PinnedArray | None = None  # room for the arcs of the latter, if there are any


class CudaDiskBfsSteps:
    """The state of a search, and what is at hand of its rows, on the current stream.

    All device memory that searches take is allocated here. Lengths of out- and in-rows, int32
    (rows,), are in host memory (the same object when undirected). ``window`` is the most rows in a
    window, and ``units`` the most arcs in a batch of units. ``at_hand`` and ``pushed_at_hand`` are
    the first arcs at hand of each in-row, and of each out-row that is not held whole.
    """

    def __init__(
        self,
        out_lengths: AnyArray,
        into_lengths: AnyArray,
        held: DiskHold,
        *,
        window: int,
        units: int,
    ) -> None:
        self.rows = len(into_lengths)
        require_rows(self.rows)
        self._room = padded(self.rows)
        self.copied_to: tuple[AnyArray, AnyArray]
        """uint32 and int32 (rows,), in host memory: answers are copied there. Set by the loader."""
        self._words = np.uint32(self._room // 32)
        with within_memory(_NAME):
            self._allocate(out_lengths, into_lengths, window, units)
            self._held = HeldColumns(self.rows, held.near, held.far)
            self._whole = _whole_rows(out_lengths, held)
        self.at_hand = self._held.at_hand
        self.hubs = held.near_hubs + held.far_hubs
        # Of a directed graph the arcs at hand are in-arcs.
        self.pushed_at_hand = self.at_hand if self._out is self._into else 0

    def _allocate(
        self, out_lengths: AnyArray, into_lengths: AnyArray, window: int, units: int
    ) -> None:
        cupy = cuda()
        self._into = self._out = on_device(into_lengths.view(np.uint32))
        if out_lengths is not into_lengths:
            self._out = on_device(out_lengths.view(np.uint32))
        self._parent = cupy.empty(self._room, np.uint32)
        self._level = cupy.empty(self._room, np.int32)
        bitmaps = [cupy.zeros(self._room // 32, np.uint32) for _ in range(4)]
        self._visited, self._frontier, self._found, self._left = bitmaps
        self._requests, self._steps = Requests(window, units), Steps(SOURCE)

    def hold(self, window: Window, begin: int, end: int, units: AnyArray) -> None:
        """Take first arcs of in-rows that were asked for: called before the first search. Waits."""
        held, asked = self._held, self._requests
        count = asked.send(window, begin, end, units)
        given = asked.row, asked.place, asked.asked, asked.units
        where = np.uint32(held.columns), held.head, held.column
        threads = int(count) * (held.columns + 1)
        self._steps.launch("hold_units", threads, count, *given, *where)
        wait()

    def hold_whole(self, window: Window, begin: int, end: int, units: AnyArray) -> None:
        """As `hold`, of out-rows that are held whole, all of their arcs."""
        for rows in self._whole:
            rows.take(window, begin, end, units)

    def begin(self, root: int) -> None:
        """Forget the search before; the root is found."""
        require_root(root, self.rows)
        tree = self._parent, self._level, self._visited, self._found
        sizes = np.uint32(self.rows), self._words
        self._steps.launch("begin_search", self._room, *sizes, self._into, *tree)
        self._steps.launch("find_root", 1, np.uint32(root), self._parent, self._found)

    def settle(self, depth: int) -> tuple[int, int]:
        """Make what was found the frontier, at this level: how many rows, and their out-arcs."""
        found = self._words, self._found, self._out, np.int32(depth)
        self._count("settle_found", *found, self._visited, self._level)
        self._frontier, self._found = self._found, self._frontier
        counts = self._steps.fetch()
        return counts[LISTED], counts[ARCS]

    def pull(self) -> tuple[int, int]:
        """Find rows by the arcs at hand: rows left that go on, and arcs looked at."""
        self._count("pull_held", np.uint32(self.rows), self._words, *self._columns())
        counts = self._steps.fetch()
        return counts[KEPT], counts[EXAMINED]

    def push(self) -> int:
        """Find rows from the frontier's out-arcs at hand: rows left that go on."""
        self._found.fill(0)
        for whole in self._whole:
            given = np.uint32(whole.first), np.uint32(whole.rows), whole.starts, whole.arcs
            tree = self._frontier, self._visited, self._parent, self._found
            self._steps.launch("push_whole", -(-len(whole.arcs) // _WHOLE_ARCS), *given, *tree)
        sizes, hubs = (np.uint32(self.rows), self._words), np.uint32(self.hubs)
        if self.pushed_at_hand:
            self._count("push_held", *sizes, hubs, *self._columns())
        else:
            left = hubs, self._frontier, self._left
            self._count("leave_frontier", *sizes, self._out, *left)
        return self._steps.fetch()[KEPT]

    def _columns(self) -> tuple[Any, ...]:
        held = self._held
        columns = self._into, held.head, np.uint32(held.columns), held.column
        return *columns, self._frontier, self._visited, self._parent, self._found, self._left

    def _count(self, name: str, *arguments: Any) -> None:
        """Launch a kernel that has a thread for each row, and counts."""
        self._steps.clear()
        self._steps.launch(name, self._room, *arguments, self._steps.counts)

    def left(self) -> Words:
        """Rows that are left after `pull` or `push`: a bitmap in host memory."""
        found: Words = self._left.get().view(np.uint64)
        return found

    def pull_units(
        self, window: Window, begin: int, end: int, units: AnyArray
    ) -> tuple[AnyArray, int]:
        """Look at what was asked for: uint8 of each request whether it was a hit; and arcs."""
        asked, steps = self._requests, self._steps
        count = asked.send(window, begin, end, units)
        steps.clear()
        given = asked.row, asked.place, asked.asked, asked.units
        tree = self._frontier, self._parent, self._found
        threads = 32 * int(count)
        steps.launch("pull_units", threads, count, *given, *tree, asked.hit, steps.counts)
        examined = steps.fetch()[EXAMINED]
        return asked.hit[: int(count)].get(), examined

    def push_units(self, window: Window, begin: int, end: int, units: AnyArray) -> None:
        """Push what was asked for; ``units`` may be written to once this returns."""
        asked = self._requests
        count = asked.send(window, begin, end, units)
        arcs = asked.send_starts(window, begin, end)
        given = count, asked.starts, asked.row, asked.place, asked.units
        tree = self._visited, self._parent, self._found
        self._steps.launch("push_units", threads_for(arcs), *given, *tree)
        wait()

    def answer(self) -> tuple[AnyArray, AnyArray]:
        """Parents (uint32) and levels (int32) of all rows, in host memory: the same each time."""
        for there, here in zip(self.answer_there(), self.copied_to, strict=True):
            there.get(out=here)
        return self.copied_to

    def answer_there(self) -> tuple[Any, Any]:
        """As `answer`, on the device: views of what the next search writes to."""
        return self._parent[: self.rows], self._level[: self.rows]


def _whole_rows(lengths: AnyArray, held: DiskHold) -> list[WholeRows]:
    """Rows that are held whole, of those memories that have any of them."""
    found, first = [], 0
    for count, arcs in ((held.near_hubs, None), (held.far_hubs, held.hub_arcs)):
        if count:
            found.append(WholeRows(first, lengths[first : first + count], arcs))
        first += count
    return found
