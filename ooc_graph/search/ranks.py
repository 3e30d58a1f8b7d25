"""The coroutines of a worker's ranks, made where their rows are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol, cast

from ooc_graph.model.strategy import MEMORY
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache, process
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import TierSearch
from ooc_graph.strategies.ranks import Ranks
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
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        graph = engine_cache.open_same(task.path, task.identity)
        # Ranks within a budget share it.
        within = () if strategy.tier == MEMORY else (task.reserved, *shards)
        key = task.path, task.identity, task.kernel, strategy.device, within
        kept.keep_only(key, shards)
        ranks = {shard: kept.take(key, shard) for shard in shards}
        missing = [shard for shard in shards if ranks[shard] is None]
        given = graph, task.kernel, shards, missing, task.reserved, self.steps.rank
        ranks |= strategy.load_ranks(*given)
        # What reads the store while it searches is of the rank.
        searches = {s: r.search if isinstance(r, TierSearch) else r for s, r in ranks.items()}
        device = process.device(strategy.device)
        coroutines, shared = self.steps.start(task, graph, searches, device)
        return {
            shard: _timed(coroutine, partial(kept.put_back, key, shard, ranks[shard]))
            for shard, coroutine in coroutines.items()
        }, shared


def _timed(coroutine: Any, put_back: Callable[[], None]) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has the seconds from first step to last, and arrays of its own."""
    start = perf_counter()
    try:
        tree = yield from coroutine
        return replace(tree.copy(), elapsed_s=perf_counter() - start)
    finally:
        # Two runs at once on a worker must not have the same rank: it is free only now.
        put_back()
