"""Answers for many sources that are written to a store, chunk by chunk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from ooc_graph.answers.asked import answer_attributes
from ooc_graph.answers.reductions import HISTOGRAM, reduced_dtype
from ooc_graph.errors import DiskFullError, RetryableError
from ooc_graph.layout.checkpoints import Checkpoint
from ooc_graph.layout.chunks import FileEntry, write_chunk
from ooc_graph.layout.commit import Partial
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import CRC_BYTES, REACHED, SIDECAR_BYTES, SOURCE, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.request import Many
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.shards.load import Graph
from ooc_graph.shards.workforce import run_all
from ooc_graph.sinks.in_memory import ids_of
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.strategies.many.tasks import write_batch
from ooc_graph.types import AnyArray, IntArray, Progress


class InStore:
    """A partial store of answers, and what it still lacks.

    Parameters are those of `ooc_graph.sinks.in_memory.InMemory`; the store records each chunk of
    sources.
    """

    def __init__(self, graph: Graph, sources: IntArray, many: Many, store: Partial) -> None:
        assert store.checkpoints is not None
        self._graph, self._sources = graph, sources
        self._asked, self._specs = many.asked, many.specs
        self._store, self._checkpoints = store, store.checkpoints
        self._missing: list[int] | None = None

    @property
    def lacks_any(self) -> bool:
        """Whether chunks are missing."""
        return bool(self.missing)

    @property
    def missing(self) -> list[int]:
        """Chunks that are not recorded; asking takes a look at all of them after `find`."""
        if self._missing is None:
            done = {number for number, _ in self._checkpoints}
            self._missing = [index for index in range(self._specs[0].chunks) if index not in done]
        return self._missing

    def require_space(self, progress: Progress) -> None:
        """Say how much is there already; refuse what the disk cannot hold."""
        chunks, missing = self._specs[0].chunks, len(self.missing)
        if missing < chunks:
            progress.note(f"going on with {chunks - missing:,} of {chunks:,} chunks done before")
        if self._asked.reduce is None:
            lengths = (SOURCE, len(self._sources)), (VERTEX, self._specs[0].width or 0)
            ids = [ArraySpec(name, length, np.dtype(np.int64)) for name, length in lengths]
            _require_space(self._specs, missing, ids, self._store)

    def find(self, task: ManyTask, workplace: Workplace, progress: Progress) -> IoStats:
        """Write what is missing, task by task; what was read for it."""
        written = replace(
            task, folder=str(self._store.folder), attempt=str(self._checkpoints.attempt)
        )
        spec, runs = task.spec, _runs(self.missing, task.reserved.chunks)
        self._missing = None
        items = [
            (written, first, self._sources[spec.bounds(first)[0] : spec.bounds(last)[1]])
            for first, last in runs
        ]
        with workplace.workforce() as workforce:
            batches = run_all(
                workforce,
                progress,
                task.asked.kernel,
                write_batch,
                items,
                total=sum(len(item[-1]) for item in items),
                unit="sources",
                amount=lambda done: done.sources,
            )
        return reduce(IoStats.plus, (batch.io_stats for batch in batches), IoStats())

    def finish(self) -> Stored:
        """Make all of it the store that was asked for."""
        specs, entries = self._collect()
        attributes = answer_attributes(
            self._asked, self._graph.content_sha256, self._specs[0].dtype
        )
        self._store.commit("result", attributes, specs, entries)
        return Stored.open(self._store.final, "result")

    def _collect(self) -> tuple[list[ArraySpec], list[FileEntry]]:
        """All arrays of the store, those of single numbers written here."""
        columns, reduce = ids_of(self._graph, self._asked, self._sources), self._asked.reduce
        specs, entries = list(self._specs), list[FileEntry]()
        if reduce is None:
            # Records may come in another order than chunks.
            done = dict(self._recorded())
            for index in range(self._specs[0].chunks):
                entries += done[index].entries
        else:
            specs, columns = [], {SOURCE: columns[SOURCE]} | self._numbers(reduce)
        for name, column in columns.items():
            spec = ArraySpec(name, len(column), column.dtype, *column.shape[1:])
            specs.append(spec)
            entries += [
                write_chunk(self._store.folder, spec, index, [column[slice(*spec.bounds(index))]])
                for index in range(spec.chunks)
            ]
        return specs, entries

    def _numbers(self, reduce: str) -> dict[str, AnyArray]:
        """Columns of what distances reduced to; one record at a time, as numbers in it are many."""
        length, bins = len(self._sources), self._asked.bins.count
        shape = (length, bins) if reduce == HISTOGRAM else (length,)
        value = np.empty(shape, reduced_dtype(reduce, self._specs[0].dtype))
        reached = np.empty(length, np.int64)
        for number, checkpoint in self._recorded():
            part = slice(*self._specs[0].bounds(number))
            value[part], reached[part] = checkpoint.facts["value"], checkpoint.facts["reached"]
        return {REACHED: reached, reduce: value}

    def _recorded(self) -> Iterator[tuple[int, Checkpoint]]:
        """What is recorded of all chunks, in any order."""
        left = set(range(self._specs[0].chunks))
        for number, checkpoint in self._checkpoints:
            left.discard(number)
            yield number, checkpoint
        if left:
            raise RetryableError(
                f"{self._store.folder}: what was recorded of some chunks cannot be read any more "
                f"({sorted(left)}); the same command makes these again"
            )


def _runs(missing: Sequence[int], most: int) -> list[tuple[int, int]]:
    """First and last of stretches of consecutive chunks, ``most`` at a time."""
    runs: list[tuple[int, int]] = []
    for index in missing:
        if runs and runs[-1][1] == index - 1 and index - runs[-1][0] < most:
            runs[-1] = runs[-1][0], index
        else:
            runs.append((index, index))
    return runs


def _require_space(
    specs: Sequence[ArraySpec], chunks: int, columns: Sequence[ArraySpec], store: Partial
) -> None:
    """Refuse what the disk cannot hold: missing chunks, ids, and the crc32c's of all chunks."""
    needed = chunks * sum(spec.chunk * spec.item_bytes + CRC_BYTES for spec in specs)
    for spec in columns:
        needed += spec.chunks * (spec.chunk * spec.item_bytes + CRC_BYTES)
    for spec in (*specs, *columns):
        needed += spec.chunks * CRC_BYTES * -(-spec.chunk * spec.item_bytes // SIDECAR_BYTES)
    free = shutil.disk_usage(store.folder).free
    if needed > free:
        raise DiskFullError(
            f"{store.final}: needs {needed:,} bytes more, and the disk has {free:,} left; free "
            "some space, give fewer sources or targets, or --reduce"
        )
