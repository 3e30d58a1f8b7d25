"""What an algorithm brings so that one rank, or many by any exchange, can carry it out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

from ooc_graph.errors import UsageError
from ooc_graph.exchange.ranks import run_here
from ooc_graph.model.reservation import LOCAL, ONE
from ooc_graph.model.strategy import MEMORY
from ooc_graph.model.task import SearchTask
from ooc_graph.model.trace import Course
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.workplace import Place
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.ranks import Ranks
from ooc_graph.types import Shard

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Algorithm(Generic[Answer]):
    """What an algorithm brings so that each exchange can carry it out; functions of a module.

    Parameters
    ----------
    rank
        The device's steps on a rank's rows.
    start
        The coroutines of a worker's ranks, and what they share: called with the task, the graph,
        the ranks by shard, and the device.
    whole
        One rank with the whole graph.
    join
        The answer from what every rank found.
    write_part
        Makes, of a folder, what writes a rank's part there and gives its course.
    gather
        The answer from the parts that ranks wrote.
    """

    rank: Callable[[Any, Shard], Any]
    start: Callable[[SearchTask, Graph, dict[int, Any], Any], tuple[dict[int, Any], Any]]
    whole: Callable[[SearchTask], Answer]
    join: Callable[[SearchTask, Graph, Sequence[Any]], Answer]
    write_part: Callable[[str], Callable[[int, Any], Course]]
    gather: Callable[[SearchTask, Sequence[Course]], Answer]

    def carry_out(self, graph: Graph, task: SearchTask, place: Place) -> Answer:
        """Carry a task out by the exchange that is reserved for it.

        Raises
        ------
        UsageError
            If the ranks are those of a cluster, and there is none.
        """
        exchange = task.reserved.exchange
        if exchange == ONE:
            return place.call(self.whole, task)
        if exchange == LOCAL:
            return place.call(self.ranks_here, task)
        if place.client is None:
            raise UsageError("the scheduler exchange needs a Dask client")
        from ooc_graph.exchange import scheduler  # noqa: PLC0415 (imports distributed)

        run = partial(
            scheduler.run,
            place.client,
            MakeRanks(self, task),
            graph.shards,
            threads=place.threads,
            note=place.note,
        )
        if task.folder is None:
            found, _ = run()
            return self.join(task, graph, found)
        courses, _ = run(finish=self.write_part(str(task.parts)))
        return place.call(self.gather, task, courses)

    def ranks_here(self, task: SearchTask) -> Answer:
        """All ranks in this process, in turn."""
        graph = engine_cache.open_same(task.path, task.identity)
        with MakeRanks(self, task)(range(graph.shards)) as (coroutines, shared):
            found = run_here(coroutines, shared)
        return self.join(task, graph, found)


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's coroutines; the ranks it loads stay in the process for other searches."""

    algorithm: Algorithm[Any]
    task: SearchTask

    @contextmanager
    def __call__(self, shards: Sequence[int]) -> Iterator[tuple[dict[int, Any], Any]]:
        """Coroutines of these shards and what they share."""
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        load = partial(self._load, shards)
        # Those that leave arcs in the store share a budget.
        apart = strategy.tier == MEMORY
        with engine_cache.ranks(task.key, shards, load, task.room, apart=apart) as engine:
            given = task, engine.graph, engine.searches, process.device(strategy.device)
            coroutines, shared = self.algorithm.start(*given)
            yield {shard: _timed(coroutine) for shard, coroutine in coroutines.items()}, shared

    def _load(
        self, shards: Sequence[int], graph: Graph, before: Mapping[int, Any]
    ) -> dict[int, Any]:
        """Load the ranks that the worker does not have already."""
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        missing = [shard for shard in shards if shard not in before]
        given = graph, task.kernel, shards, missing, task.reserved, self.algorithm.rank
        return {**before, **strategy.load_ranks(*given)}


def _timed(coroutine: Any) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has the seconds from first step to last, and arrays of its own."""
    start = perf_counter()
    tree = yield from coroutine
    return replace(tree.copy(), elapsed_s=perf_counter() - start)
