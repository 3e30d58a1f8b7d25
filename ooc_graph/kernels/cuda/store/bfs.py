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
from ooc_graph.kernels.cuda.store.rows import SOURCE, HeadColumns, Requests, WholeRows, padded
from ooc_graph.types import AnyArray

_NAME = "BFS with arcs in the store"
_WHOLE_ARCS = 32  # a thread's


@dataclass(frozen=True)
class DiskBfsShare:
    """What of the rows is loaded."""

    near: Sequence[int] = ()  # rows of each column that is on the device
    far: Sequence[Any] = ()  # columns in pinned host memory, as of `HeadColumns`
    # Out-rows that are kept whole: so many on the device, and behind them in pinned memory.
    near_hubs: int = 0
    far_hubs: int = 0
    hub_arcs: PinnedArray | None = None  # room for the arcs of the latter, if there are any


class CudaDiskBfsSteps:
    """The state of a search, and what is loaded of its rows, on the current stream.

    All device memory that searches take is allocated here. Lengths of out- and in-rows, int32
    (rows,), are in host memory (the same object when undirected). ``window`` is the most rows in a
    window, and ``blocks`` the most arcs in a batch of blocks. ``loaded`` and ``loaded_out`` are
    the first arcs loaded of each in-row, and of each out-row that is not kept whole.
    """

    def __init__(
        self,
        out_lengths: AnyArray,
        into_lengths: AnyArray,
        share: DiskBfsShare,
        *,
        window: int,
        blocks: int,
    ) -> None:
        self.rows = len(into_lengths)
        require_rows(self.rows)
        self._padded = padded(self.rows)
        self.copied_to: tuple[AnyArray, AnyArray]
        """uint32 and int32 (rows,), in host memory: answers are copied there. Set by the loader."""
        self._words = np.uint32(self._padded // 32)
        with within_memory(_NAME):
            cupy = cuda()
            self._into = self._out = on_device(into_lengths.view(np.uint32))
            if out_lengths is not into_lengths:
                self._out = on_device(out_lengths.view(np.uint32))
            self._parent = cupy.empty(self._padded, np.uint32)
            self._level = cupy.empty(self._padded, np.int32)
            bitmaps = [cupy.zeros(self._padded // 32, np.uint32) for _ in range(4)]
            self._visited, self._frontier, self._found, self._left = bitmaps
            self._requests, self._steps = Requests(window, blocks), Steps(SOURCE)
            self._heads = HeadColumns(self.rows, share.near, share.far)
            self._whole = _whole_rows(out_lengths, share)
        self.loaded = self._heads.loaded
        self.hubs = share.near_hubs + share.far_hubs
        # Of a directed graph the arcs loaded are in-arcs.
        self.loaded_out = self.loaded if self._out is self._into else 0

    def take_heads(self, window: Window, begin: int, end: int, blocks: AnyArray) -> None:
        """Take first arcs of in-rows that were asked for: called before the first search. Waits."""
        heads, asked = self._heads, self._requests
        count = asked.send(window, begin, end, blocks)
        given = asked.row, asked.offset, asked.asked, asked.blocks
        where = np.uint32(heads.columns), heads.head, heads.column
        threads = int(count) * (heads.columns + 1)
        self._steps.launch("hold_units", threads, count, *given, *where)
        wait()

    def take_whole(self, window: Window, begin: int, end: int, blocks: AnyArray) -> None:
        """As `take_heads`, of out-rows that are kept whole, all of their arcs."""
        for rows in self._whole:
            rows.take(window, begin, end, blocks)

    def begin(self, root: int) -> None:
        """Forget the search before; the root is found."""
        require_root(root, self.rows)
        tree = self._parent, self._level, self._visited, self._found
        sizes = np.uint32(self.rows), self._words
        self._steps.launch("begin_search", self._padded, *sizes, self._into, *tree)
        self._steps.launch("find_root", 1, np.uint32(root), self._parent, self._found)

    def settle(self, depth: int) -> tuple[int, int]:
        """Make what was found the frontier, at this level: how many rows, and their out-arcs."""
        found = self._words, self._found, self._out, np.int32(depth)
        self._count("settle_found", *found, self._visited, self._level)
        self._frontier, self._found = self._found, self._frontier
        counts = self._steps.fetch()
        return counts[LISTED], counts[ARCS]

    def pull(self) -> tuple[int, int]:
        """Find rows by the arcs loaded: rows left that go on, and arcs looked at."""
        self._count("pull_held", np.uint32(self.rows), self._words, *self._columns())
        counts = self._steps.fetch()
        return counts[KEPT], counts[EXAMINED]

    def push(self) -> int:
        """Find rows from the frontier's out-arcs loaded: rows left that go on."""
        self._found.fill(0)
        for whole in self._whole:
            given = np.uint32(whole.first), np.uint32(whole.rows), whole.starts, whole.arcs
            tree = self._frontier, self._visited, self._parent, self._found
            self._steps.launch("push_whole", -(-len(whole.arcs) // _WHOLE_ARCS), *given, *tree)
        sizes, hubs = (np.uint32(self.rows), self._words), np.uint32(self.hubs)
        if self.loaded_out:
            self._count("push_held", *sizes, hubs, *self._columns())
        else:
            left = hubs, self._frontier, self._left
            self._count("leave_frontier", *sizes, self._out, *left)
        return self._steps.fetch()[KEPT]

    def _columns(self) -> tuple[Any, ...]:
        heads = self._heads
        columns = self._into, heads.head, np.uint32(heads.columns), heads.column
        return *columns, self._frontier, self._visited, self._parent, self._found, self._left

    def _count(self, name: str, *arguments: Any) -> None:
        """Launch a kernel that has a thread for each row, and counts."""
        self._steps.clear()
        self._steps.launch(name, self._padded, *arguments, self._steps.counts)

    def left(self) -> Words:
        """Rows that are left after `pull` or `push`: a bitmap in host memory."""
        found: Words = self._left.get().view(np.uint64)
        return found

    def pull_blocks(
        self, window: Window, begin: int, end: int, blocks: AnyArray
    ) -> tuple[AnyArray, int]:
        """Look at what was asked for: uint8 of each request whether it was a hit; and arcs."""
        asked, steps = self._requests, self._steps
        count = asked.send(window, begin, end, blocks)
        steps.clear()
        given = asked.row, asked.offset, asked.asked, asked.blocks
        tree = self._frontier, self._parent, self._found
        threads = 32 * int(count)
        steps.launch("pull_units", threads, count, *given, *tree, asked.hit, steps.counts)
        examined = steps.fetch()[EXAMINED]
        return asked.hit[: int(count)].get(), examined

    def push_blocks(self, window: Window, begin: int, end: int, blocks: AnyArray) -> None:
        """Push what was asked for; ``blocks`` may be written to once this returns."""
        asked = self._requests
        count = asked.send(window, begin, end, blocks)
        arcs = asked.send_starts(window, begin, end)
        given = count, asked.starts, asked.row, asked.offset, asked.blocks
        tree = self._visited, self._parent, self._found
        self._steps.launch("push_units", threads_for(arcs), *given, *tree)
        wait()

    def answer(self) -> tuple[AnyArray, AnyArray]:
        """Parents (uint32) and levels (int32) of all rows, in host memory: the same each time."""
        for found, copied in zip(self.answer_there(), self.copied_to, strict=True):
            found.get(out=copied)
        return self.copied_to

    def answer_there(self) -> tuple[Any, Any]:
        """As `answer`, on the device: views of what the next search writes to."""
        return self._parent[: self.rows], self._level[: self.rows]


def _whole_rows(lengths: AnyArray, share: DiskBfsShare) -> list[WholeRows]:
    """Rows that are kept whole, of those memories that have any of them."""
    found, first = [], 0
    for count, arcs in ((share.near_hubs, None), (share.far_hubs, share.hub_arcs)):
        if count:
            found.append(WholeRows(first, lengths[first : first + count], arcs))
        first += count
    return found
