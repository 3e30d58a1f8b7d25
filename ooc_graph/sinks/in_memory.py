"""Answers for many sources that stay in the memory of the process that asks."""

from __future__ import annotations

import threading

import numpy as np

from ooc_graph.answers.asked import Asked
from ooc_graph.answers.reductions import Reduced, reduced_dtype
from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.layout.names import REACHED, SOURCE, VERTEX
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.request import Many
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.shards.load import Graph
from ooc_graph.shards.workforce import run_all
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.strategies.many.tasks import Done, solve
from ooc_graph.types import AnyArray, IntArray, Progress, StageProgress


class InMemory:
    """Answers in memory, complete from the first source to some source.

    ``sources``, int64, are positions among the graph's vertices. Distances go to ``into``, or to
    new memory if it is None. MemoryError: there is too little for all answers.
    """

    def __init__(
        self,
        graph: Graph,
        sources: IntArray,
        many: Many,
        into: AnyArray | None = None,
    ) -> None:
        asked, specs = many.asked, many.specs
        self._sources, self._asked, self._specs = sources, asked, specs
        self._ids = ids_of(graph, asked, sources)
        self._blocks: dict[str, AnyArray] = {}
        self._into = into
        if into is not None:
            self._blocks = {specs[0].path: into.view(np.ndarray)}
        elif asked.reduce is None:
            self._blocks = {
                spec.path: np.empty(spec.shape(len(sources)), spec.dtype) for spec in specs
            }
        self._reduced: list[Reduced] = []
        self._done = 0

    @property
    def lacks_any(self) -> bool:
        """Even of no sources it is seen that there are shortest paths."""
        return True

    def find(self, task: ManyTask, workplace: Workplace, progress: Progress) -> IoStats:
        """Search from all sources left, task by task; what is found stays. What was read."""
        length = task.reserved.chunks * task.spec.chunk
        left = range(self._done, len(self._sources), length)
        parts = [self._sources[start : start + length] for start in left]
        io_stats = IoStats()
        if workplace.client is not None:
            items = [(task, part) for part in parts]
            with workplace.workforce() as workforce:
                for done in run_all(workforce, progress, task.asked.kernel, solve, items):
                    io_stats = io_stats.plus(self._take(done))
            return io_stats
        with progress.stage(task.asked.kernel, len(self._sources), "sources") as bar:
            bar.advance(self._done)
            for part in parts:
                # Written to the answer where it is found, unless that is a reduction.
                into = [block[self._done :][: len(part)] for block in self._blocks.values()]
                counted, before = _Counted(bar), self._done
                io_stats = io_stats.plus(
                    self._take(solve(task, part, into, OnDone(counted)), is_there=True)
                )
                bar.advance(self._done - before - counted.count)
        return io_stats

    def _take(self, done: Done, *, is_there: bool = False) -> IoStats:
        """Keep what was found of the next sources; what was read for them."""
        if self._asked.reduce is not None:
            self._reduced.extend(done.found)
        elif not is_there:
            for block, part in zip(self._blocks.values(), done.found, strict=True):
                block[self._done :][: len(part)] = part
        self._done += done.sources
        return done.io_stats

    def finish(self) -> dict[str, AnyArray]:
        """All columns of the answer."""
        reduce = self._asked.reduce
        if reduce is None:
            given = {} if self._into is None else {self._specs[0].path: self._into}
            return self._ids | self._blocks | given
        dtype = reduced_dtype(reduce, self._specs[0].dtype)
        return {
            SOURCE: self._ids[SOURCE],
            REACHED: np.array([one.reached for one in self._reduced], np.int64),
            reduce: np.array([one.value for one in self._reduced], dtype),
        }


class _Counted:
    """Adds the sources of a task to a bar as they are found."""

    def __init__(self, bar: StageProgress) -> None:
        self._bar, self._lock, self.count = bar, threading.Lock(), 0

    def __call__(self, begin: int, end: int) -> None:
        """Hear of sources from one to before another."""
        with self._lock:
            self.count += end - begin
            self._bar.advance(end - begin)


def ids_of(graph: Graph, asked: Asked, sources: IntArray) -> dict[str, IntArray]:
    """Original ids of sources and of columns."""
    originals = graph.original_ids()
    targets = originals if asked.targets is None else originals[asked.targets]
    return {SOURCE: originals[sources], VERTEX: targets}
