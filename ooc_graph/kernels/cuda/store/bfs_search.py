"""BFS on a whole graph whose rows are in a store, by the steps of a device.

A level goes along the arcs loaded first, in one step of the device; rows that want more are listed
on the host, and their arcs fetched and given to the device batch by batch.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree, choose_direction
from ooc_graph.kernels.common.store.rows import TierRows, Window
from ooc_graph.kernels.common.store.scans import keep_flagged
from ooc_graph.kernels.common.store.windows import list_tails
from ooc_graph.kernels.cuda.store.bfs import CudaDiskBfsSteps
from ooc_graph.types import AnyArray


class DiskBfsSearch:
    """BFS searches of one whole graph, one at a time, by the steps of a device.

    Rows are hub-first, of out- and in-arcs in the store (the same object when undirected), with no
    heads in host memory.
    """

    def __init__(self, steps: CudaDiskBfsSteps, out: TierRows, into: TierRows) -> None:
        self._steps, self._out, self._into = steps, out, into
        self._arcs = int(out.heads.lengths.sum(dtype=np.int64))
        for rows in {id(one): one for one in (out, into)}.values():
            _compile_lists(rows)

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays, on the host, last until the next run."""
        return self._run(root, self._steps.answer)

    def run_on_device(self, root: int) -> BfsTree:
        """As `run`, with the arrays on the device: parents by internal id, all ones for none."""
        return self._run(root, self._steps.answer_there)

    def _run(self, root: int, answer: Any) -> BfsTree:
        start, levels, steps = perf_counter(), list[tuple[int, int, int]](), self._steps
        steps.begin(root)
        direction, depth = PUSH, 0
        found, arcs = steps.settle(depth)
        unvisited = self._arcs - arcs
        while found:
            direction = choose_direction(direction, found, arcs, unvisited, steps.rows)
            if direction == PULL:
                levels.append((found, self._pull(), PULL))
            else:
                self._push()
                levels.append((found, arcs, PUSH))
            depth += 1
            found, arcs = steps.settle(depth)
            unvisited -= arcs
        parent, level = answer()
        elapsed_s = perf_counter() - start
        vertices, examined, directions = np.array(levels, np.int64).T.copy()
        return BfsTree(parent, level, elapsed_s, vertices, examined, directions.astype(np.int8))

    def _pull(self) -> int:
        """Find the vertices of a level by their in-arcs; arcs looked at."""
        steps, into = self._steps, self._into
        left, total = steps.pull()

        def scan(
            lengths: AnyArray, window: Window, begin: int, end: int, kept: int, blocks: AnyArray
        ) -> int:
            nonlocal total
            hit, examined = steps.pull_blocks(window, begin, end, blocks)
            total += examined
            missed = (hit == 0).view(np.uint8)
            return int(keep_flagged(lengths, window, begin, end, kept, missed))

        if left:
            for waiting in into.tails(steps.left(), into.loaded(steps.loaded)):
                into.scan(waiting, scan)
        return total

    def _push(self) -> None:
        """Find the vertices of a level by the out-arcs of the frontier."""
        steps, out = self._steps, self._out

        def scan(
            lengths: AnyArray, window: Window, begin: int, end: int, kept: int, blocks: AnyArray
        ) -> int:
            steps.push_blocks(window, begin, end, blocks)
            flags = np.ones(end - begin, np.uint8)
            return int(keep_flagged(lengths, window, begin, end, kept, flags))

        if steps.push():
            for waiting in out.tails(steps.left(), out.loaded(steps.loaded_out)):
                out.scan(waiting, scan, out.most_look)


def _compile_lists(rows: TierRows) -> None:
    """Have the kernels compiled for these rows, so that no search waits for that."""
    list_tails(np.empty(0, np.uint64), rows.loaded(0), rows.window, 0)
    keep_flagged(rows.heads.lengths, rows.window, 0, 0, 0, np.empty(0, np.uint8))
