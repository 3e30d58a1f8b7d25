"""Merge buckets and write the chunks they fill at the same time, so that the disk never waits.

Buckets are merged in store order. As soon as all buckets before some element of an array are
merged, the chunks up to it are written, and the pieces they were made from are removed: while
later buckets are sorted, the system brings earlier chunks to the disk.

Several buckets, or chunks, go into a task: a scheduler takes milliseconds of a core for each task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import LIGHT, rows_path
from ooc_graph.shards.merge import (
    LENGTHS,
    Column,
    Merged,
    MergeTask,
    Side,
    Strip,
    merge_buckets,
    piece_name,
    write_offsets,
    write_strips,
)
from ooc_graph.shards.plan import GROUP_ARCS, GROUPS_PER_SLOT, WAITING_ARCS
from ooc_graph.shards.workforce import Workforce, stop_all
from ooc_graph.threads import CHECK_S
from ooc_graph.types import IntArray, Progress

_FUNCTIONS = (merge_buckets.__name__, write_strips.__name__, write_offsets.__name__)
_CHUNKS_A_TASK = 8

Job = tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any], None]]


class MergeWriter:
    """Carries out merges and writes on a workforce."""

    def __init__(
        self, task: MergeTask, store: Path, workforce: Workforce, progress: Progress
    ) -> None:
        self._task, self._store = task, str(store)
        self._workforce, self._progress = workforce, progress
        self._result = Merged(arcs=dict.fromkeys(task.runs.sides, 0))
        self._chunks: deque[tuple[Strip, Callable[[FileEntry], None]]] = deque()
        self._offsets: deque[Job] = deque()
        self._running: dict[Future[Any], Callable[[Any], None]] = {}
        self._writing, self._merged_all = 0, False
        self._used: list[str] = []
        self._unwritten: dict[tuple[str, int], int] = {}

    def run(self) -> Merged:
        """Merge and write everything."""
        merges = self._merges()
        total = len(self._task.runs.buckets) * len(self._task.runs.sides)
        with self._progress.stage("merging and writing rows", total, "buckets") as bar:
            self._advance = bar.advance
            try:
                while self._fill(merges) or self._running:
                    done, _ = wait(self._running, timeout=CHECK_S, return_when=FIRST_COMPLETED)
                    self._workforce.check()
                    for future in done:
                        self._running.pop(future)(future.result())
            except BaseException:
                stop_all(self._workforce, self._running, _FUNCTIONS)
                raise
        return self._result

    def _fill(self, merges: Iterator[Job]) -> bool:
        """Keep every slot busy; False when nothing can begin.

        Writing goes first, on half of the slots: the disk is never without work, and no more
        threads wait for it than can be helped.
        """
        window = self._workforce.budget.slots + 1
        while len(self._running) < window:
            # The last merge may leave something to write: sides without any bucket.
            job = self._write() or self._merge(merges) or self._write()
            if job is None:
                return False
            function, arguments, then = job
            self._running[self._workforce.executor.submit(function, *arguments)] = then
        return True

    def _write(self) -> Job | None:
        if self._offsets:
            return self._offsets.popleft()
        writers = max(1, self._workforce.budget.slots // 2)
        if not self._chunks or (self._writing >= writers and not self._merged_all):
            return None
        count = min(_CHUNKS_A_TASK, -(-len(self._chunks) // writers))
        strips, thens = zip(*(self._chunks.popleft() for _ in range(count)), strict=True)
        self._writing += 1

        def then(entries: list[FileEntry]) -> None:
            self._writing -= 1
            for entry, each in zip(entries, thens, strict=True):
                each(entry)

        return write_strips, (self._store, self._task.pieces, strips, self._take_used()), then

    def _merge(self, merges: Iterator[Job]) -> Job | None:
        # Pieces must not pile up in memory; a merge alone always goes ahead.
        if self._running and sum(self._unwritten.values()) >= WAITING_ARCS:
            return None
        job = next(merges, None)
        self._merged_all = job is None
        return job

    def _take_used(self) -> list[str]:
        used, self._used = self._used, []
        return used

    def _merges(self) -> Iterator[Job]:
        buckets = self._task.runs.buckets
        for side in self._task.runs.sides:
            for shard in range(self._task.shards):
                numbers = np.flatnonzero(buckets.shard == shard)
                mine = self._side(shard, side, numbers)
                if mine.complete:
                    self._finish(mine)
                for group in self._groups(numbers):
                    for number in group:
                        self._unwritten[side, number] = int(buckets.arcs[number])
                    arguments = (self._task, side, group, self._take_used())
                    yield merge_buckets, arguments, self._merged(mine, group)

    def _groups(self, numbers: IntArray) -> Iterator[list[int]]:
        """Neighbouring buckets, as many as make a task of useful length."""
        arcs, slots = self._task.runs.buckets.arcs, self._workforce.budget.slots
        most = min(GROUP_ARCS, int(arcs.sum()) // (GROUPS_PER_SLOT * slots))
        group: list[int] = []
        for number in numbers.tolist():
            if group and int(arcs[[*group, number]].sum()) > most:
                yield group
                group = []
            group.append(number)
        if group:
            yield group

    def _side(self, shard: int, side: str, numbers: IntArray) -> Side:
        runs, columns, packings = self._task.runs, [], self._task.packings
        for order in self._task.orders:
            group = rows_path(shard, side, order)
            packing = packings.get("neighbors")
            columns.append(Column(f"{group}/neighbors", runs.id_dtype, order, packing))
            if order == LIGHT and runs.weight_dtype is not None:
                path, packing = f"{group}/weights", packings.get("weights")
                columns.append(Column(path, runs.weight_dtype, "weights", packing))
        offsets = tuple(f"{rows_path(shard, side, o)}/offsets" for o in self._task.orders)
        return Side(side, numbers, columns, offsets)

    def _merged(self, side: Side, numbers: list[int]) -> Callable[[list[int]], None]:
        def then(arcs: list[int]) -> None:
            self._advance(len(numbers))
            for number, kept in zip(numbers, arcs, strict=True):
                side.kept[number] = self._unwritten[side.side, number] = kept
            while not side.complete and side.numbers[len(side.first) - 1] in side.kept:
                side.first.append(side.first[-1] + side.kept[side.numbers[len(side.first) - 1]])
            for column in side.columns:
                while (column.asked + 1) * column.full <= side.first[-1]:
                    self._ask(side, column, (column.asked + 1) * column.full)
            if side.complete:
                self._finish(side)

        return then

    def _ask(self, side: Side, column: Column, length: int) -> None:
        """Queue the next chunk of an array that is at least ``length`` elements long."""
        index = column.asked
        column.asked += 1
        strip = self._strip(side, column, column.spec(length), index)

        def then(entry: FileEntry) -> None:
            self._result.entries.append(entry)
            column.done.add(index)
            self._remove_used(side, column)

        self._chunks.append((strip, then))

    def _strip(self, side: Side, column: Column, spec: ArraySpec, index: int) -> Strip:
        """Only the pieces that the chunk needs."""
        start, stop = spec.bounds(index)
        first = np.array(side.first)
        low = int(np.searchsorted(first, start, "right")) - 1
        high = int(np.searchsorted(first, stop, "left"))
        names = [
            piece_name(side.side, number, column.piece)
            for number in side.numbers[low:high].tolist()
        ]
        return Strip(spec, index, tuple(names), first[low : high + 1])

    def _remove_used(self, side: Side, column: Column) -> None:
        written = 0
        while written in column.done:
            written += 1
        while (
            column.removed + 1 < len(side.first)
            and side.first[column.removed + 1] <= written * column.full
        ):
            number = int(side.numbers[column.removed])
            self._used.append(piece_name(side.side, number, column.piece))
            column.removed += 1
        removed = min(column.removed for column in side.columns)
        for number in side.numbers[side.forgotten : removed].tolist():
            del self._unwritten[side.side, number]
        side.forgotten = removed

    def _finish(self, side: Side) -> None:
        """All buckets of a side are merged: write what is left of it."""
        length = side.first[-1]
        self._result.arcs[side.side] += length
        for column in side.columns:
            spec = column.spec(length)
            self._result.specs.append(spec)
            while column.asked < spec.chunks:
                self._ask(side, column, length)
        arguments = (self._task, self._store, side.side, side.numbers, side.offsets)

        def then(written: tuple[tuple[ArraySpec, ...], list[FileEntry]]) -> None:
            self._result.specs.extend(written[0])
            self._result.entries.extend(written[1])
            self._used.extend(piece_name(side.side, n, LENGTHS) for n in side.numbers.tolist())

        self._offsets.append((write_offsets, arguments, then))
