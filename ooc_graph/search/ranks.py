"""The coroutines of a worker's ranks, made where their rows are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.warmup import RANKS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.types import Shard


class Steps(Protocol):
    """What the ranks of an algorithm are made by; see `ooc_graph.search.algorithm.Algorithm`."""

    @property
    def rank(self) -> Callable[[Any, Shard], Any]:
        """The device's steps on a rank's rows."""

    @property
    def start(
        self,
    ) -> Callable[[SearchTask, Graph, dict[int, Any], Any], tuple[dict[int, Any], Any]]:
        """The coroutines of a worker's ranks, and what they share."""

    @property
    def is_compiled(self) -> bool:
        """Whether its steps on the CPU are compiled."""


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's coroutines; the shards it loads stay on the worker for the next search."""

    steps: Steps
    task: SearchTask

    def __call__(self, shards: Sequence[int]) -> tuple[dict[int, Any], Any]:
        """Coroutines of these shards and what they share."""
        from ooc_graph.exchange import scheduler  # noqa: PLC0415 (imports distributed)

        return self.build(shards, engine_cache.Ranks(scheduler.worker_state()))

    def build(self, shards: Sequence[int], kept: engine_cache.Ranks) -> tuple[dict[int, Any], Any]:
        """As the call, with ranks that are taken from ``kept`` and go back there."""
        engine_cache.release()
        task, on = self.task, self.task.strategy.device
        graph = engine_cache.open_same(task.path, task.identity)
        device = process.device(on)
        if on == CPU and self.steps.is_compiled:
            warm(task.kernel, graph, device, variant=RANKS)
        key = task.path, task.identity, task.kernel, on
        kept.keep_only(key, shards)
        ranks = {shard: kept.take(key, shard) for shard in shards}
        missing = [shard for shard in shards if ranks[shard] is None]
        if on == CUDA:
            there = [shard for shard in shards if shard not in missing]
            needed = rank_memory.ranks_bytes(graph, task.kernel, missing, there)
            cuda_modules.require_memory(needed, f"{task.kernel} on {graph.path}")
        ranks |= {shard: self._rank(graph, shard) for shard in missing}
        coroutines, shared = self.steps.start(task, graph, ranks, device)
        return {
            shard: _timed(coroutine, partial(kept.put_back, key, shard, ranks[shard]))
            for shard, coroutine in coroutines.items()
        }, shared

    def _rank(self, graph: Graph, shard: int) -> Any:
        rows = graph.load(ORDER_OF[self.task.kernel], shard)
        return self.steps.rank(process.device(self.task.strategy.device), rows)


def _timed(coroutine: Any, put_back: Callable[[], None]) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has the seconds from first step to last, and arrays of its own."""
    start = perf_counter()
    try:
        tree = yield from coroutine
        return replace(tree.copy(), elapsed_s=perf_counter() - start)
    finally:
        # Two runs at once on a worker must not have the same rank: it is free only now.
        put_back()
