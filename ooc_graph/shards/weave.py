"""Merge buckets and write the chunks they fill, woven together so that the disk never waits.

Buckets are merged in store order. As soon as all buckets before some element of an array are
merged, the chunks up to it are written, and the pieces they were made from are removed: while
later buckets are sorted, the system brings earlier chunks to the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import CHUNK_BYTES, LIGHT, rows_path
from ooc_graph.shards.assemble import Strip, write_offsets, write_strip_chunk
from ooc_graph.shards.merge import MergeTask, merge_bucket
from ooc_graph.shards.workforce import CHECK_S, Workforce, stop_all
from ooc_graph.types import IntArray, Progress

_FUNCTIONS = (merge_bucket.__name__, write_strip_chunk.__name__, write_offsets.__name__)

Job = tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any], None]]


@dataclass
class _Column:
    """One array made of pieces: which chunks are under way, which pieces are used up."""

    path: str
    dtype: np.dtype[Any]
    piece: str
    asked: int = 0
    done: set[int] = field(default_factory=set)
    removed: int = 0

    @property
    def full(self) -> int:
        """Elements of a full chunk."""
        return CHUNK_BYTES // self.dtype.itemsize


@dataclass
class _Side:
    """One side of one shard while its buckets are being merged."""

    side: str
    numbers: IntArray
    columns: list[_Column]
    offsets: tuple[str, ...]
    first: list[int] = field(default_factory=lambda: [0])
    kept: dict[int, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.first) == len(self.numbers) + 1


@dataclass
class Woven:
    """What was written: arrays, their chunks, and the arcs of each side."""

    specs: list[ArraySpec] = field(default_factory=list)
    entries: list[FileEntry] = field(default_factory=list)
    arcs: dict[str, int] = field(default_factory=dict)


class Loom:
    """Carries out merges and writes on a workforce.

    Parameters
    ----------
    task
        The merges.
    store
        Folder of the partial store.
    workforce, progress
        Who works, and who hears of it.
    """

    def __init__(
        self, task: MergeTask, store: Path, workforce: Workforce, progress: Progress
    ) -> None:
        self._task, self._store = task, str(store)
        self._workforce, self._progress = workforce, progress
        self._woven = Woven(arcs=dict.fromkeys(task.runs.sides, 0))
        self._writes: deque[Job] = deque()
        self._running: dict[Future[Any], Callable[[Any], None]] = {}

    def run(self) -> Woven:
        """Merge and write everything."""
        merges = self._merges()
        total = len(self._task.runs.buckets) * len(self._task.runs.sides)
        with self._progress.stage("merging and writing rows", total, "buckets") as bar:
            self._advance = bar.advance
            try:
                while self._fill(merges) or self._running:
                    done, _ = wait(self._running, timeout=CHECK_S, return_when=FIRST_COMPLETED)
                    if not done:
                        self._workforce.check()
                    for future in done:
                        self._running.pop(future)(future.result())
            except BaseException:
                stop_all(self._workforce, self._running, _FUNCTIONS)
                raise
        return self._woven

    def _fill(self, merges: Iterator[Job]) -> bool:
        """Keep every slot busy, with writing first; False when nothing is left to begin."""
        window = 2 * self._workforce.budget.slots + 2
        while len(self._running) < window:
            job = self._writes.popleft() if self._writes else next(merges, None)
            if job is None and self._writes:
                # On its way to the end, the iterator came by sides without any bucket.
                continue
            if job is None:
                return False
            function, arguments, then = job
            self._running[self._workforce.executor.submit(function, *arguments)] = then
        return True

    def _merges(self) -> Iterator[Job]:
        buckets = self._task.runs.buckets
        for side in self._task.runs.sides:
            for shard in range(self._task.shards):
                numbers = np.flatnonzero(buckets.shard == shard)
                mine = self._side(shard, side, numbers)
                if mine.complete:
                    self._finish(mine)
                for number in numbers.tolist():
                    yield merge_bucket, (self._task, side, number), self._merged(mine, number)

    def _side(self, shard: int, side: str, numbers: IntArray) -> _Side:
        runs, columns = self._task.runs, []
        for order in self._task.orders:
            group = rows_path(shard, side, order)
            columns.append(_Column(f"{group}/neighbors", runs.id_dtype, order))
            if order == LIGHT and runs.weight_dtype is not None:
                columns.append(_Column(f"{group}/weights", runs.weight_dtype, "weights"))
        offsets = tuple(f"{rows_path(shard, side, o)}/offsets" for o in self._task.orders)
        return _Side(side, numbers, columns, offsets)

    def _merged(self, side: _Side, number: int) -> Callable[[int], None]:
        def then(arcs: int) -> None:
            self._advance(1)
            side.kept[number] = arcs
            while not side.complete and side.numbers[len(side.first) - 1] in side.kept:
                side.first.append(side.first[-1] + side.kept[side.numbers[len(side.first) - 1]])
            for column in side.columns:
                while (column.asked + 1) * column.full <= side.first[-1]:
                    self._ask(side, column, (column.asked + 1) * column.full)
            if side.complete:
                self._finish(side)

        return then

    def _ask(self, side: _Side, column: _Column, length: int) -> None:
        """Queue the next chunk of an array that is at least ``length`` elements long."""
        index = column.asked
        column.asked += 1
        spec = ArraySpec(column.path, length, column.dtype)
        strip = self._strip(side, column, spec, index)

        def then(entry: FileEntry) -> None:
            self._woven.entries.append(entry)
            column.done.add(index)
            self._remove_used(side, column)

        self._writes.append((write_strip_chunk, (self._store, strip, index), then))

    def _strip(self, side: _Side, column: _Column, spec: ArraySpec, index: int) -> Strip:
        """Only the pieces that the chunk needs."""
        start, stop = spec.bounds(index)
        first = np.array(side.first)
        low = int(np.searchsorted(first, start, "right")) - 1
        high = int(np.searchsorted(first, stop, "left"))
        pieces = [
            str(self._task.piece(side.side, number, column.piece))
            for number in side.numbers[low:high].tolist()
        ]
        return Strip(spec, tuple(pieces), first[low : high + 1])

    def _remove_used(self, side: _Side, column: _Column) -> None:
        written = 0
        while written in column.done:
            written += 1
        while (
            column.removed + 1 < len(side.first)
            and side.first[column.removed + 1] <= written * column.full
        ):
            number = int(side.numbers[column.removed])
            self._task.piece(side.side, number, column.piece).unlink(missing_ok=True)
            column.removed += 1

    def _finish(self, side: _Side) -> None:
        """All buckets of a side are merged: write what is left of it."""
        length = side.first[-1]
        self._woven.arcs[side.side] += length
        for column in side.columns:
            spec = ArraySpec(column.path, length, column.dtype)
            self._woven.specs.append(spec)
            while column.asked < spec.chunks:
                self._ask(side, column, length)
        arguments = (self._task, self._store, side.side, side.numbers, side.offsets)

        def then(written: tuple[tuple[ArraySpec, ...], list[FileEntry]]) -> None:
            self._woven.specs.extend(written[0])
            self._woven.entries.extend(written[1])

        self._writes.append((write_offsets, arguments, then))
