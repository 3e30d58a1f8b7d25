"""What SSSP has of vertices on a CUDA device while most arcs are in a store, and its steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.bitmap import Words, words_for
from ooc_graph.kernels.common.sssp.rows import MOST_FIRST
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.rows import NULL
from ooc_graph.kernels.cuda.runtime.steps import KEPT, LISTED, Steps, least
from ooc_graph.kernels.cuda.store.heads import HEAD_SOURCE, TAIL_SOURCE, DiskBuffers, DiskSide
from ooc_graph.kernels.cuda.store.staged import host_buffer
from ooc_graph.types import AnyArray, IntArray

TOP = np.float32(np.inf)
"""Distance of what is not reached."""
_LISTED_THREADS = 1 << 19
"""Threads for lists whose length the host does not know: a device full of them."""


def bits_of(distance: Any) -> np.uint32:
    """A distance as kernels have it."""
    return np.uint32(np.float32(distance).view(np.uint32))


class DiskState:
    """Distances, parents and sets of rows on the device: 8 bytes a row, and four bitmaps.

    All is allocated here, or in the ``buffers`` that the rows were loaded with: a search takes no
    more memory than its answer. Out- and in-rows are the same object when undirected. ``pins`` says
    whether host memory may be pinned for what is copied.
    """

    def __init__(
        self, out: DiskSide, into: DiskSide, *, pins: bool, buffers: DiskBuffers | None = None
    ) -> None:
        cupy = cuda()
        self.out, self.into = out, into
        self.rows = len(out.rows.heads.lengths)
        self.words = 2 * words_for(self.rows)
        sides = (out.rows,) if into is out else (out.rows, into.rows)
        buffers = buffers or DiskBuffers(*sides, pins=pins)
        # uint32 (rows,): bits of float32, and ids; before there are parents, rows that are listed.
        self.distance, self.parent = buffers.distance, buffers.parent[: self.rows]
        self._staged = buffers.staged
        # Sets of the rows that are nearer since it was listed, and that go on beyond their heads;
        # the other two are for each phase's own use.
        self.nearer, self.waiting, self.more, self.next = (
            cupy.zeros(self.words, np.uint32) for _ in range(4)
        )
        self._few, self._few_count = cupy.empty(MOST_FIRST, np.uint32), cupy.empty(1, np.uint64)
        self.few = 0  # rows that `keep_few` keeps
        self._heads, self._tails = Steps(HEAD_SOURCE), Steps(TAIL_SOURCE)
        self._bits = host_buffer(4 * self.words, pins=pins).view(np.uint32)

    def begin(self, root: int) -> None:
        """Reach the root alone, and keep no rows."""
        self.keep_few(np.empty(0, np.uint32))
        self.distance.fill(bits_of(TOP))
        self.distance[root : root + 1].fill(0)
        self.waiting.fill(0)
        self.nearer.fill(0)
        self.nearer[root >> 5 : (root >> 5) + 1].fill(np.uint32(1 << (root & 31)))

    def clear(self) -> None:
        """Begin to count at zero, and note no rows that go on."""
        self._heads.clear()
        self.more.fill(0)

    def counts(self) -> list[int]:
        """What was counted, once everything launched before is done."""
        return self._heads.fetch()

    def step(self, name: str, threads: int, *arguments: Any) -> None:
        """Launch a step along heads; the counts are its last argument."""
        self._heads.launch(name, threads, *arguments, self._heads.counts)

    def over_rows(self, name: str, *arguments: Any) -> None:
        """Launch a step over all rows, a lane each."""
        sizes = np.uint32(self.rows), np.uint32(self.words)
        self.step(name, 32 * self.words, *sizes, *arguments)

    def over_words(self, name: str, *arguments: Any, lanes: int = 1) -> None:
        """Launch a step over the words of sets, with so many lanes for each."""
        self.step(name, lanes * self.words, np.uint32(self.words), *arguments)

    def over_listed(self, name: str, *arguments: Any) -> None:
        """Launch a step over the rows that were listed last, a warp each."""
        self.step(name, _LISTED_THREADS, self._heads.counts, self.parent, *arguments)

    def over_few(self, name: str, *arguments: Any) -> None:
        """Launch a step over the rows that `keep_few` keeps, a warp each."""
        self.step(name, 32 * self.few, self._few_count, self._few, *arguments)

    def keep_few(self, rows: AnyArray) -> None:
        """Keep some rows on the device: uint32, `MOST_FIRST` at most."""
        self.few = len(rows)
        self._few_count.set(np.array([self.few], np.uint64))
        if self.few:
            self._few[: self.few].set(rows)

    def list_rows(self, members: Any) -> None:
        """List the rows that wait, or those that are nearer: then none are, and these wait."""
        self.over_words("list_members", members, self.waiting, self.parent)

    def reached(self) -> AnyArray:
        """Rows that are reached, ascending, in host memory."""
        self._heads.clear()
        self.step("list_reached", self.rows, np.uint32(self.rows), self.distance, self.parent)
        found: AnyArray = self.parent[: self.counts()[LISTED]].get()
        return np.sort(found)

    def least_beyond(self, *, of_few: bool) -> np.float32:
        """Smallest distance that out-arcs beyond heads may offer: of the few rows, or of all."""
        self._heads.clear()
        count, listed = (self.few, self._few) if of_few else (self.rows, NULL)
        given = np.uint64(count), listed, self.out.heads.addresses, self.distance
        self.step("least_beyond", count, *given)
        return np.float32(least(self.counts(), TOP))

    def farthest(self) -> np.float32:
        """Largest distance of all that is reached."""
        self._heads.clear()
        self.step("farthest", self.rows, np.uint32(self.rows), self.distance)
        return np.float32(np.array(self.counts()[LISTED], np.uint32).view(np.float32))

    def noted(self) -> Words:
        """The set `more` in host memory, valid until the next call."""
        self.more.get(out=self._bits)
        return self._bits.view(np.uint64)

    def go_on(self, side: DiskSide, name: str, *arguments: Any) -> list[int]:
        """Fetch arcs of the rows that go on beyond their heads, and scan them by a kernel.

        ``arguments`` are what it is given behind what was fetched. Returns what was counted, along
        heads and here.
        """
        found = self.counts()
        if not found[KEPT]:
            return found

        def launch(asked: IntArray, fetched: tuple[Any, ...]) -> None:
            self._tails.launch(name, 32 * len(asked), *fetched, *arguments, self._heads.counts)

        for waiting in side.rows.tails(self.noted(), side.loaded):
            self._staged.scan(side.rows, waiting, launch)
        return self.counts()
