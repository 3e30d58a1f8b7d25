"""What an algorithm brings so that one rank, or many by any exchange, can carry it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from ooc_graph.errors import UsageError
from ooc_graph.exchange import local
from ooc_graph.model.request import LOCAL
from ooc_graph.model.reservation import ONE
from ooc_graph.model.task import SearchTask
from ooc_graph.model.trace import Course
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.ranks import MakeRanks
from ooc_graph.shards.load import Graph
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
            If there is no cluster for ``scheduler``.
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
            threads=place.resources(on_cpu=True).threads,
            note=place.note,
        )
        if task.folder is None:
            found, _ = run()
            return self.join(task, graph, found)
        courses, _ = run(finish=self.write_part(str(task.parts)))
        return place.call(self.gather, task, courses)

    def ranks_here(self, task: SearchTask) -> Answer:
        """All ranks in this process, through the exchange that is the oracle of the others."""
        graph = engine_cache.open_same(task.path, task.identity)
        make = MakeRanks(self, task)
        coroutines, shared = make.build(range(graph.shards), engine_cache.Ranks({}))
        found, _ = local.run([coroutines[s] for s in range(graph.shards)], shared, graph.shards)
        return self.join(task, graph, found)
