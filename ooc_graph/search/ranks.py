"""The coroutines of a worker's ranks, made where their rows are; what each of them writes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from ooc_graph.model.strategy import MEMORY
from ooc_graph.model.task import SearchTask, Trace, trace_of
from ooc_graph.runtime import engine_cache, process
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tables import save
from ooc_graph.strategies.ranks import RankLoading, Ranks
from ooc_graph.types import AnyArray

Coroutines = tuple[dict[int, Any], Any]
"""Of a worker's ranks, by shard, and what they share."""


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's coroutines; the ranks it loads stay in the process for other searches.

    ``start`` is that of `ooc_graph.search.algorithm.Algorithm`.
    """

    task: SearchTask
    start: Callable[[SearchTask, Graph, dict[int, Any], Any], Coroutines]

    @contextmanager
    def __call__(self, shards: Sequence[int]) -> Iterator[Coroutines]:
        """Coroutines of these shards and what they share."""
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        load = partial(self._load, shards)
        # Those that leave arcs in the store share a budget.
        apart = strategy.tier == MEMORY
        with engine_cache.ranks(task.key, shards, load, task.capacity, apart=apart) as engine:
            device = process.device(strategy.device)
            coroutines, shared = self.start(task, engine.graph, engine.searches, device)
            yield {shard: _timed(coroutine) for shard, coroutine in coroutines.items()}, shared

    def _load(
        self, shards: Sequence[int], graph: Graph, before: Mapping[int, Any]
    ) -> dict[int, Any]:
        """Load the ranks that the worker does not have already."""
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        missing = [shard for shard in shards if shard not in before]
        loading = RankLoading(graph, task.kernel, shards, missing, task.reserved)
        return {**before, **strategy.inner.load_ranks(loading)}


def _timed(coroutine: Any) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has the seconds from first step to last, and arrays of its own."""
    start = perf_counter()
    tree = yield from coroutine
    return replace(tree.copy(), elapsed_s=perf_counter() - start)


@dataclass(frozen=True)
class WritePart:
    """Writes the arrays of what a rank found where the gathering task finds them."""

    kernel: str
    arrays: tuple[str, ...]
    folder: str

    def __call__(self, shard: int, found: Any) -> Trace:
        """Write it; only the trace travels."""
        for name in self.arrays:
            save(Path(self.folder), f"{shard}-{name}", getattr(found, name))
        return trace_of(self.kernel, found)


def read_parts(folder: Path, names: Sequence[str], shards: int) -> Iterator[tuple[AnyArray, ...]]:
    """What `WritePart` wrote, shard by shard."""
    for shard in range(shards):
        yield tuple(np.load(folder / f"{shard}-{name}.npy") for name in names)
