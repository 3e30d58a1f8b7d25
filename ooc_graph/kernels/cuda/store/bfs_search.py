"""BFS on a whole graph whose rows are in a store, by the steps of a device.

A level goes along the arcs at hand first, in one step of the device; rows that want more are listed
on the host, and their arcs fetched and given to the device batch by batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ooc_graph.kernels.common.bitmap import Words
from ooc_graph.kernels.common.decisions import PULL, PUSH, BfsTree, choose_direction
from ooc_graph.kernels.common.store.requests import keep_flagged
from ooc_graph.kernels.common.store.rows import TierRows, Window
from ooc_graph.kernels.common.store.windows import list_tails
from ooc_graph.types import AnyArray


class DiskBfsSteps(Protocol):
    """Steps of a device that has the state of a search, and of rows what is at hand."""

    rows: int
    """Of the graph."""
    at_hand: int
    """First arcs of each in-row that are at hand."""
    pushed_at_hand: int
    """The same of the out-rows, but for those that are at hand whole."""

    def begin(self, root: int) -> None:
        """Forget the search before; the root is found."""

    def settle(self, depth: int) -> tuple[int, int]:
        """Make what was found the frontier, at this level: how many rows, and their out-arcs."""

    def pull(self) -> tuple[int, int]:
        """Find rows by the arcs at hand: rows left that go on, and arcs looked at."""

    def push(self) -> int:
        """Find rows from the frontier's out-arcs at hand: rows left that go on."""

    def left(self) -> Words:
        """Rows that are left after `pull` or `push`: a bitmap in host memory, until the next."""

    def pull_units(
        self, window: Window, begin: int, end: int, units: AnyArray
    ) -> tuple[AnyArray, int]:
        """Look at what was asked for: uint8 of each request whether it was a hit; and arcs."""

    def push_units(self, window: Window, begin: int, end: int, units: AnyArray) -> None:
        """Push what was asked for; ``units`` may be written to once this returns."""

    def answer(self) -> tuple[AnyArray, AnyArray]:
        """Parents and levels of all rows, in host memory."""

    def answer_there(self) -> tuple[Any, Any]:
        """Parents and levels of all rows where the device has them."""


@dataclass
class _Course:
    """What is said of the levels."""

    vertices: list[int] = field(default_factory=list)
    arcs: list[int] = field(default_factory=list)
    direction: list[int] = field(default_factory=list)

    def add(self, vertices: int, arcs: int, direction: int) -> None:
        self.vertices.append(vertices)
        self.arcs.append(arcs)
        self.direction.append(direction)


class DiskBfsSearch:
    """BFS searches of one whole graph, one at a time, by the steps of a device.

    Parameters
    ----------
    steps
        The device's, which hold its memory.
    out, into
        Hub-first rows of out- and in-arcs in the store (the same object when undirected), with no
        heads in host memory.
    """

    def __init__(self, steps: DiskBfsSteps, out: TierRows, into: TierRows) -> None:
        self._steps, self._out, self._into = steps, out, into
        self._arcs = int(out.heads.lengths.sum(dtype=np.int64))
        for rows in {id(one): one for one in (out, into)}.values():
            _compile_lists(rows)

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the arrays, on the host, are valid until the next run.

        Raises
        ------
        CorruptStoreError
            What is fetched is not what was written.
        """
        return self._run(root, self._steps.answer)

    def run_on_device(self, root: int) -> BfsTree:
        """As `run`, with the arrays on the device: parents by internal id, all ones for none."""
        return self._run(root, self._steps.answer_there)

    def _run(self, root: int, answer: Any) -> BfsTree:
        start, course, steps = perf_counter(), _Course(), self._steps
        steps.begin(root)
        direction, depth = PUSH, 0
        found, arcs = steps.settle(depth)
        unvisited = self._arcs - arcs
        while found:
            direction = choose_direction(direction, found, arcs, unvisited, steps.rows)
            if direction == PULL:
                course.add(found, self._pull(), PULL)
            else:
                self._push()
                course.add(found, arcs, PUSH)
            depth += 1
            found, arcs = steps.settle(depth)
            unvisited -= arcs
        parent, level = answer()
        return BfsTree(
            parent,
            level,
            perf_counter() - start,
            np.array(course.vertices, np.int64),
            np.array(course.arcs, np.int64),
            np.array(course.direction, np.int8),
        )

    def _pull(self) -> int:
        """Find the vertices of a level by their in-arcs; arcs looked at."""
        steps, into = self._steps, self._into
        left, total = steps.pull()

        def scan(
            lengths: AnyArray, window: Window, begin: int, end: int, kept: int, units: AnyArray
        ) -> int:
            nonlocal total
            hit, examined = steps.pull_units(window, begin, end, units)
            total += examined
            missed = (hit == 0).view(np.uint8)
            return int(keep_flagged(lengths, window, begin, end, kept, missed))

        if left:
            for waiting in into.tails(steps.left(), into.at_hand(steps.at_hand)):
                into.scan(waiting, scan)
        return total

    def _push(self) -> None:
        """Find the vertices of a level by the out-arcs of the frontier."""
        steps, out = self._steps, self._out

        def scan(
            lengths: AnyArray, window: Window, begin: int, end: int, kept: int, units: AnyArray
        ) -> int:
            steps.push_units(window, begin, end, units)
            flags = np.ones(end - begin, np.uint8)
            return int(keep_flagged(lengths, window, begin, end, kept, flags))

        if steps.push():
            for waiting in out.tails(steps.left(), out.at_hand(steps.pushed_at_hand)):
                out.scan(waiting, scan, out.most_look)


def _compile_lists(rows: TierRows) -> None:
    """Have the kernels compiled for these rows, so that no search waits for that."""
    list_tails(np.empty(0, np.uint64), rows.at_hand(0), rows.window, 0)
    keep_flagged(rows.heads.lengths, rows.window, 0, 0, 0, np.empty(0, np.uint8))
