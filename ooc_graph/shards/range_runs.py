"""Sorted runs of arcs in files of a build's spill folder, a file for each run and range of rows.

A run is what one sort made: keys (row << 32 | neighbour) in ascending order, and words beside them
if there are weights. It is cut where ranges begin, and each part is a file: its keys, then its
words. What is in which file stands in memory only: rows whose process ends before its time are
begun anew. A range's files are removed as soon as they are read, so that the space they took is
there for the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from ooc_graph.layout.blocks import BlockWriter, byte_view, read_at
from ooc_graph.shards.workforce import Workforce, stop_all
from ooc_graph.types import AnyArray

KEY_BYTES = 8
"""A key in a run."""

Copy = Callable[[Any, AnyArray], None]
"""Copies an array, which may be a device's, to one of host memory that is as long."""


@dataclass(frozen=True)
class Part:
    """What one run has of one range: a file with so many keys, and words if there are weights."""

    path: Path
    arcs: int
    word: np.dtype[Any] | None

    def read(self, start: int, stop: int) -> tuple[AnyArray, AnyArray | None]:
        """Keys uint64, and words or None, of arcs ``start`` to ``stop - 1``, in new host memory."""
        keys = np.empty(stop - start, np.uint64)
        words = None if self.word is None else np.empty(stop - start, self.word)
        with self.path.open("rb", buffering=0) as file:
            read_at(file.fileno(), byte_view(keys), start * KEY_BYTES)
            if words is not None:
                offset = self.arcs * KEY_BYTES + start * words.itemsize
                read_at(file.fileno(), byte_view(words), offset)
        return keys, words


@dataclass
class RangeRuns:
    """All runs of some rows, in a folder that exists; ``lows`` are first rows of ranges, by side.

    ``word`` is the type of the words beside the keys, or None. ``written_bytes`` and ``read_bytes``
    are of the parts that were handed out to be written, and to be read.
    """

    folder: Path
    lows: Mapping[str, Sequence[int]]
    word: np.dtype[Any] | None
    written_bytes: int = 0
    read_bytes: int = 0
    _parts: dict[tuple[str, int], list[Part]] = field(default_factory=dict)
    _count: int = 0

    @property
    def arc_bytes(self) -> int:
        """Bytes of an arc in a file."""
        return KEY_BYTES + (self.word.itemsize if self.word else 0)

    def bounds(self, side: str) -> AnyArray:
        """Smallest key of each range of a side, uint64."""
        return np.asarray(self.lows[side], np.uint64) << np.uint64(32)

    def new_run(self, side: str, cuts: Sequence[int]) -> list[tuple[Part, int]]:
        """Parts of a further run of a side, each with the number of its first arc in the run.

        ``cuts`` are where each range begins in the run, and its length.
        """
        found = []
        for number, (start, stop) in enumerate(pairwise(cuts)):
            if start == stop:
                continue
            name = f"{side}-{number:06d}-{self._count:06d}.run"
            part = Part(self.folder / name, stop - start, self.word)
            self._parts.setdefault((side, number), []).append(part)
            self.written_bytes += part.arcs * self.arc_bytes
            found.append((part, start))
        self._count += 1
        return found

    def parts(self, side: str, number: int) -> list[Part]:
        """What all runs have of one range."""
        return self._parts.get((side, number), [])

    def arcs(self, side: str, number: int) -> int:
        """Arcs of one range in all runs, duplicates included."""
        return sum(part.arcs for part in self.parts(side, number))

    def remove(self, side: str, number: int) -> None:
        """Remove the files of a range, which were read."""
        for part in self._parts.pop((side, number), []):
            self.read_bytes += part.arcs * self.arc_bytes
            part.path.unlink()


class PartWriter:
    """Writes parts of sorted arrays, in any thread; several at a time, as many as ``buffers``.

    ``copy`` brings an array to one of them, host memory uint8, of a multiple of 8 bytes.
    """

    def __init__(self, copy: Copy, buffers: Sequence[AnyArray]) -> None:
        self._copy = copy
        self._spare: SimpleQueue[AnyArray] = SimpleQueue()
        for buffer in buffers:
            self._spare.put(buffer)

    def write(self, part: Part, keys: Any, words: Any) -> None:
        """Write one part: keys, and words if there are any, each in ascending order of keys."""
        buffer = self._spare.get()
        try:
            with BlockWriter(part.path) as file:
                for column in (keys, words):
                    if column is not None:
                        self._append(file, column, buffer)
        finally:
            self._spare.put(buffer)

    def _append(self, file: BlockWriter, column: Any, buffer: AnyArray) -> None:
        elements = buffer.view(column.dtype)
        for start in range(0, len(column), len(elements)):
            piece = column[start : start + len(elements)]
            self._copy(piece, elements[: len(piece)])
            file.write(byte_view(elements[: len(piece)]))


def spill_bytes(arcs: int, weight_bytes: int) -> int:
    """Bytes of all runs with so many arcs of all sides, duplicates included."""
    return arcs * (KEY_BYTES + weight_bytes)


MOST_ARCS, LEAST_ARCS = 1 << 20, 1 << 12
"""Arcs of a piece."""
SLOT_PART = 4
"""Parts of a slot's memory: a piece, another that waits; the other half is for chunks."""

Piece = tuple[AnyArray, AnyArray | None]


class RunReader:
    """Reads all ranges once, in the order given by side and number."""

    def __init__(
        self, runs: RangeRuns, workforce: Workforce, order: Sequence[tuple[str, int]]
    ) -> None:
        self._runs, self._workforce = runs, workforce
        slot = workforce.budget.slot_bytes(0)
        self._arcs = max(LEAST_ARCS, min(MOST_ARCS, slot // SLOT_PART // runs.arc_bytes))
        self._ahead = workforce.budget.slots + 1
        self._todo = self._pieces(order)
        # Pieces that threads read, after the range that each is of.
        self._begun: deque[tuple[tuple[str, int], Future[Piece]]] = deque()

    def _pieces(
        self, order: Sequence[tuple[str, int]]
    ) -> Iterator[tuple[tuple[str, int], Part, int]]:
        for of in order:
            for part in self._runs.parts(*of):
                for start in range(0, part.arcs, self._arcs):
                    yield of, part, start

    def pieces(self, side: str, number: int) -> Generator[Piece, None, None]:
        """Keys and words of one range, run by run, and then its files are gone."""
        while self._next_is((side, number)):
            yield self._begun.popleft()[1].result()
        self._runs.remove(side, number)

    def _next_is(self, of: tuple[str, int]) -> bool:
        """Whether the next piece is of this range; more are begun."""
        while len(self._begun) <= self._ahead and (found := next(self._todo, None)):
            owner, part, start = found
            stop = min(start + self._arcs, part.arcs)
            future = self._workforce.executor.submit(part.read, start, stop)
            self._begun.append((owner, future))
        return bool(self._begun) and self._begun[0][0] == of

    def stop(self) -> None:
        """Read no more; what is being read is waited for."""
        stop_all(self._workforce, [piece for _, piece in self._begun], [Part.read.__name__])
        self._begun.clear()
