"""Rows whose first arcs, the heads, are in memory, and whose others are fetched where needed.

What is fetched are blocks of equal size of the columns as they are stored. A *window* is a bounded
list of rows that want arcs beyond their heads; it is scanned in rounds, each of which fetches a few
more arcs of the rows that are not content yet, in the order in which they lie on the tier. While a
batch of a round is scanned, the next one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol

import numpy as np

from ooc_graph.kernels.common.bitmap import WORD_BITS, Words
from ooc_graph.kernels.common.store import windows
from ooc_graph.types import AnyArray, IntArray

FIRST_LOOK = 1024
"""Arcs of a row that are fetched at first; four times as many each time it wants more."""
LOOK_GROWTH = 4
WINDOW_ROWS = 1 << 14
"""Most rows in a window: what a window takes does not grow with the graph."""
ALIGNED_ARCS = 1 << 16
"""Positions on the tier begin at multiples of this for each shard: whole blocks in any column."""
Scan = Callable[..., int]
"""Looks at arcs loaded; see `TierRows.scan`."""
STOP = -1
"""Returned by a `Scan` that wants no more arcs of any row."""


def until(is_done: Callable[[], bool], scan: Scan) -> Scan:
    """The same scan, which stops once something is done."""

    def scan_more(*loaded: Any) -> int:
        kept = scan(*loaded)
        return STOP if is_done() else kept

    return scan_more


class HeadRows(NamedTuple):
    """The part of some rows that is in memory, and where the others lie.

    ``starts`` (rows + 1,), int32 or int64: row r's head is ``neighbors[starts[r]:starts[r + 1]]``.
    ``lengths`` (rows,), int32 or int64: arcs of the whole row. ``positions``, int64: those, on the
    tier, of the first arc of every 64 rows, which follow one another there. ``weights`` is empty
    for rows without; ``first`` (rows,) holds the first neighbour of each row, or with weights the
    first weight: 0, or the largest number, where there is none.
    """

    starts: AnyArray
    lengths: AnyArray
    positions: IntArray
    neighbors: AnyArray
    weights: AnyArray
    first: AnyArray


class Blocks(Protocol):
    """A tier: gives blocks of the columns of some rows, checked, in memory of a fixed size."""

    block_bytes: int
    """Bytes of a block, a power of two."""
    batch_blocks: int
    """Most blocks of the first column in a batch, at least 2."""
    dtypes: tuple[np.dtype[Any], ...]
    """Types of the columns: neighbours, and weights where there are any."""

    def stage(
        self, batches: Iterator[Sequence[IntArray]]
    ) -> Generator[tuple[AnyArray, ...], None, None]:
        """Give batch after batch of blocks, each valid until the next is asked for.

        A batch has ascending numbers of blocks for each column, counted from position 0 on. What it
        gives has each column's blocks one after the other, in the column's dtype. Closing the
        generator ends what is being read ahead.
        """


class Window(NamedTuple):
    """Rows that want arcs, the arc of each to go on with, and what is asked for: int64 each.

    ``asked`` arcs from ``cursor`` on are at ``position`` on the tier; once they are staged, they
    are at ``offset`` of the staged columns (columns, rows).
    """

    row: IntArray
    cursor: IntArray
    position: IntArray
    asked: IntArray
    offset: IntArray


def new_window(columns: int, rows: int = WINDOW_ROWS) -> Window:
    """A window of so many rows."""
    row, cursor, position, asked = (np.empty(rows, np.int64) for _ in range(4))
    return Window(row, cursor, position, asked, np.empty((columns, rows), np.int64))


class TierRows:
    """Rows of one side of a graph on a tier.

    ``heads`` is what is in memory of them, and ``blocks`` the tier that has all. So many rows as
    ``window`` says, a multiple of 64, are looked at together; ``look`` arcs of each are fetched at
    first. Of a row no more arcs are asked for than ``limits`` has; None: all.
    """

    def __init__(
        self,
        heads: HeadRows,
        blocks: Blocks,
        window: int = WINDOW_ROWS,
        look: int = FIRST_LOOK,
        limits: AnyArray | None = None,
    ) -> None:
        self.heads, self._blocks, self._look = heads, blocks, look
        self._in_heads = windows.LoadedArcs(heads.lengths, heads.starts, 0, 0)
        self.asked = 0
        """Rows, counted each time, of which arcs were asked for."""
        self._limits = heads.lengths if limits is None else limits
        whole = -(-max(1, len(heads.lengths)) // WORD_BITS) * WORD_BITS
        self.window = new_window(len(blocks.dtypes), min(window, whole))
        elements = [blocks.block_bytes // dtype.itemsize for dtype in blocks.dtypes]
        self._shifts = [count.bit_length() - 1 for count in elements]
        self.most_look = (blocks.batch_blocks - 1) * elements[0]
        """Arcs that always fit a batch, wherever they begin."""
        wider = max(1, elements[0] // min(elements))
        self._numbers = [
            [np.empty(blocks.batch_blocks * wider, np.int64) for _ in elements] for _ in range(2)
        ]
        for numbers in self._numbers:
            numbers[0] = numbers[0][: blocks.batch_blocks]
        self.dtypes = blocks.dtypes
        self.staged = [len(r) * n for r, n in zip(self._numbers[0], elements, strict=True)]
        """Most elements of each column in a batch."""

    def loaded(self, least: int, shift: int = 63) -> windows.LoadedArcs:
        """What is loaded of each row by such a rule."""
        return windows.LoadedArcs(self.heads.lengths, self.heads.starts[:0], least, shift)

    def tails(self, bits: Words, loaded: windows.LoadedArcs | None = None) -> Iterator[int]:
        """Window after window of a bitmap's rows with more than is at hand: how many they are.

        By default their heads are loaded.
        """
        word = 0
        while word < len(bits):
            waiting, word = windows.list_tails(bits, loaded or self._in_heads, self.window, word)
            if waiting:
                yield waiting

    def tails_of(self, queue: AnyArray) -> Iterator[int]:
        """As `tails`, of listed rows; they are sorted where that makes for fewer reads."""
        if len(queue) > len(self.window.row):
            queue.sort()
        first = 0
        while first < len(queue):
            waiting, first = windows.list_queue(queue, first, self._in_heads, self.window)
            if waiting:
                yield waiting

    def rows(self, bits: Words) -> Iterator[int]:
        """As `tails`, of all rows that have arcs, from their first arcs on."""
        return self.tails(bits, self.loaded(0))

    def scan_tails(self, bits: Words, scan: Scan) -> None:
        """Scan the arcs beyond their heads of the rows of a bitmap; parameters as for `scan`."""
        for waiting in self.tails(bits):
            if not self.scan(waiting, scan):
                break

    def scan_rows(self, bits: Words, scan: Scan, look: int | None = None) -> None:
        """Scan the rows of a bitmap, heads first; parameters as for `scan`, which may not stop."""
        for waiting in self.rows(bits):
            self.scan(self.scan_heads(waiting, scan), scan, look)

    def scan_heads(self, waiting: int, scan: Scan) -> int:
        """Scan the heads of a window's rows; how many want more. Parameters as for `scan`."""
        heads = self.heads
        windows.point_at_heads(heads, self.window, waiting)
        columns = (heads.neighbors, heads.weights)[: len(self._shifts)]
        return scan(self._limits, self.window, 0, waiting, 0, *columns)

    def scan(self, waiting: int, scan: Scan, look: int | None = None) -> bool:
        """Fetch and scan arcs of the ``waiting`` rows of a window until none of them wants more.

        Returns False if the scan stopped that.

        ``scan(limits, window, begin, end, kept, neighbors[, weights])`` looks at the rows
        ``begin … end - 1``. Rows that want more, with their cursors, it puts to the places from
        ``kept`` on, in order; it returns the place after them, or `STOP`. See `scanner`. ``look``
        arcs of a row are fetched at first.
        """
        look = min(look or self._look, self.most_look)
        self.asked += waiting
        while waiting:
            if not windows.ask(self.heads, self._limits, self.window, waiting, look):
                self._sort(waiting)
            kept, bounds = 0, [0]
            with closing(self._blocks.stage(self._batches(waiting, bounds))) as staged:
                for columns in staged:
                    begin = bounds.pop(0)
                    kept = scan(self._limits, self.window, begin, bounds[0], kept, *columns)
                    if kept == STOP:
                        return False
            waiting = kept
            look = min(look * LOOK_GROWTH, self.most_look)
        return True

    def _batches(self, waiting: int, bounds: list[int]) -> Iterator[Sequence[IntArray]]:
        """Blocks of batch after batch; ``bounds`` receives the request after each."""
        begin, turn = 0, 0
        while begin < waiting:
            numbers, blocks = self._numbers[turn], []
            end, count = windows.locate(self.window, begin, waiting, 0, self._shifts[0], numbers[0])
            if end == begin:
                raise AssertionError(f"{self.window.asked[begin]} arcs do not fit a batch")
            blocks.append(numbers[0][:count])
            for column in range(1, len(self._shifts)):
                shift = self._shifts[column]
                last, count = windows.locate(
                    self.window, begin, end, column, shift, numbers[column]
                )
                if last < end:
                    raise AssertionError(f"column {column} has no room for a batch of the first")
                blocks.append(numbers[column][:count])
            bounds.append(end)
            begin, turn = end, 1 - turn
            yield blocks

    def _sort(self, waiting: int) -> None:
        """Order a window as it lies on the tier: rows of several shards do not follow there."""
        order = np.argsort(self.window.position[:waiting], kind="stable")
        for column in self.window[:4]:
            column[:waiting] = column[:waiting][order]


TAIL_ROWS = 4096
"""A pass looks at so many rows while a block is read: a row's tail is rarely in another's block."""
