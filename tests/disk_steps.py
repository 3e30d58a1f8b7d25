"""Steps of a device that has the first arcs of rows in columns, in NumPy: what kernels must do."""

from __future__ import annotations

import numpy as np

from ooc_graph.kernels.common.bitmap import pack_bits
from ooc_graph.kernels.common.store.rows import Window
from ooc_graph.types import AnyArray

NO_VERTEX = 0xFFFFFFFF


class PlainSteps:
    """As `ooc_graph.kernels.cuda.store.bfs.CudaDiskBfsSteps`, one row after another."""

    def __init__(
        self,
        out_lengths: AnyArray,
        into_lengths: AnyArray,
        columns: int,
        whole: list[AnyArray] | None = None,
    ) -> None:
        self.rows, self.loaded = len(into_lengths), 1 + 4 * columns
        self.loaded_out = self.loaded if out_lengths is into_lengths else 0
        # Out-rows from the first on that are at hand whole.
        self._whole = whole or []
        self._out, self._into = out_lengths, into_lengths
        self._held = np.full((self.rows, self.loaded), NO_VERTEX, np.uint32)
        self._parent = np.empty(self.rows, np.uint32)
        self._level = np.empty(self.rows, np.int32)
        self._visited, self._frontier, self._found, self._left = (
            np.zeros(self.rows, bool) for _ in range(4)
        )
        self.pushed = self.pulled = 0

    def take_heads(self, window: Window, begin: int, end: int, blocks: AnyArray) -> None:
        assert (window.cursor[begin:end] == 0).all()
        for row, arcs in self._asked(window, begin, end, blocks):
            self._held[row, : len(arcs)] = arcs

    def begin(self, root: int) -> None:
        self._parent[:], self._level[:] = NO_VERTEX, -1
        self._visited[:] = self._into == 0
        self._found[:] = False
        self._parent[root], self._found[root] = root, True

    def settle(self, depth: int) -> tuple[int, int]:
        self._visited |= self._found
        self._level[self._found] = depth
        self._frontier, self._found = self._found, self._frontier
        return int(self._frontier.sum()), int(self._out[self._frontier].sum())

    def pull(self) -> tuple[int, int]:
        self._found[:] = self._left[:] = False
        total = 0
        for row in np.flatnonzero(~self._visited):
            hit, looked = self._first(self._held[row, : self._into[row]])
            total += looked
            if hit is not None:
                self._parent[row], self._found[row] = hit, True
            else:
                self._left[row] = self._into[row] > self.loaded
        return int(self._left.sum()), total

    def push(self) -> int:
        self._found[:] = False
        self._left[:] = self._frontier & (self._out > self.loaded_out)
        self._left[: len(self._whole)] = False
        for row in np.flatnonzero(self._frontier):
            if row < len(self._whole):
                self._claim(row, self._whole[row])
            elif self.loaded_out:
                self._claim(row, self._held[row, : self._into[row]])
        return int(self._left.sum())

    def left(self) -> AnyArray:
        return pack_bits(self._left)

    def pull_blocks(
        self, window: Window, begin: int, end: int, blocks: AnyArray
    ) -> tuple[AnyArray, int]:
        hits, total = np.zeros(end - begin, np.uint8), 0
        for index, (row, arcs) in enumerate(self._asked(window, begin, end, blocks)):
            hit, looked = self._first(arcs)
            total += looked
            self.pulled += 1
            if hit is not None:
                self._parent[row], self._found[row], hits[index] = hit, True, 1
        return hits, total

    def push_blocks(self, window: Window, begin: int, end: int, blocks: AnyArray) -> None:
        for row, arcs in self._asked(window, begin, end, blocks):
            self.pushed += 1
            self._claim(row, arcs)

    def answer(self) -> tuple[AnyArray, AnyArray]:
        return self._parent, self._level

    answer_there = answer

    @staticmethod
    def _asked(window: Window, begin: int, end: int, blocks: AnyArray):
        for index in range(begin, end):
            offset = window.offset[0, index]
            yield int(window.row[index]), blocks[offset : offset + window.asked[index]].copy()

    def _first(self, arcs: AnyArray) -> tuple[int | None, int]:
        hits = np.flatnonzero(self._frontier[arcs])
        return (int(arcs[hits[0]]), int(hits[0]) + 1) if len(hits) else (None, len(arcs))

    def _claim(self, row: int, arcs: AnyArray) -> None:
        fresh = arcs[~self._visited[arcs]]
        self._found[fresh] = True
        self._parent[fresh] = np.minimum(self._parent[fresh], np.uint32(row))
