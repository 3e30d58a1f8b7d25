"""The ways an answer comes about: one rank with all rows, all ranks here, ranks of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ooc_graph.errors import UsageError
from ooc_graph.exchange import local
from ooc_graph.model.task import SearchTask
from ooc_graph.model.trace import Course
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.workplace import Place
from ooc_graph.shards.load import Graph

Answer = TypeVar("Answer")


class Maker(Protocol):
    """Makes the coroutines of a worker's ranks."""

    def __call__(self, shards: Sequence[int]) -> tuple[dict[int, Any], Any]:
        """Coroutines of these shards and what they share."""

    def build(self, shards: Sequence[int], kept: engine_cache.Ranks) -> tuple[dict[int, Any], Any]:
        """As the call, with ranks that are taken from ``kept`` and go back there."""


@dataclass(frozen=True)
class Ways(Generic[Answer]):
    """What an algorithm brings so that each exchange can carry it out; functions of a module.

    Parameters
    ----------
    whole
        One rank with the whole graph.
    join
        The answer from what every rank found.
    write_part
        Makes, of a folder, what writes a rank's part there and gives its course.
    gather
        The answer from the parts that ranks wrote.
    """

    whole: Callable[[SearchTask], Answer]
    join: Callable[[SearchTask, Graph, Sequence[Any]], Answer]
    write_part: Callable[[str], Callable[[int, Any], Course]]
    gather: Callable[[SearchTask, Sequence[Course]], Answer]

    def carry_out(
        self, graph: Graph, task: SearchTask, make: Maker, chosen: str, place: Place
    ) -> Answer:
        """Carry a task out by the exchange ``chosen``: ``one``, ``local`` or ``scheduler``.

        Raises
        ------
        UsageError
            If there is no cluster for ``scheduler``.
        """
        if chosen == "one":
            return place.call(self.whole, task)
        if chosen == "local":
            joined: Answer = place.call(_run_locally, task, make, self.join)
            return joined
        if place.client is None:
            raise UsageError("the scheduler exchange needs a Dask client")
        from ooc_graph.exchange import scheduler  # noqa: PLC0415 (imports distributed)

        run = partial(
            scheduler.run,
            place.client,
            make,
            graph.shards,
            threads=place.threads,
            note=place.note,
        )
        if task.folder is None:
            found, _ = run()
            return self.join(task, graph, found)
        courses, _ = run(finish=self.write_part(str(task.parts)))
        return place.call(self.gather, task, courses)


def _run_locally(
    task: SearchTask, make: Maker, join: Callable[[SearchTask, Graph, Sequence[Any]], Answer]
) -> Answer:
    """All ranks in this process, through the exchange that is the oracle of the others."""
    graph = engine_cache.open_same(task.path, task.identity)
    coroutines, shared = make.build(range(graph.shards), engine_cache.Ranks({}))
    found, _ = local.run([coroutines[s] for s in range(graph.shards)], shared, graph.shards)
    return join(task, graph, found)
