"""What answers for many sources go to."""

from __future__ import annotations

from typing import Protocol

from ooc_graph.answers.asked import Asked
from ooc_graph.layout.names import SOURCE, VERTEX
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.types import AnyArray, IntArray, Progress


class Sink(Protocol):
    """Where answers go; what is found stays there if the plan changes."""

    @property
    def lacks_any(self) -> bool:
        """Whether there is anything left to search for."""

    def find(self, task: ManyTask, workplace: Workplace, progress: Progress) -> IoStats:
        """Find what is left, task by task; what was read of the store for it."""

    def finish(self) -> dict[str, AnyArray] | Stored:
        """All answers: columns, or the store that was asked for."""


def ids_of(graph: Graph, asked: Asked, sources: IntArray) -> dict[str, IntArray]:
    """Original ids of sources and of columns."""
    originals = graph.original_ids()
    targets = originals if asked.targets is None else originals[asked.targets]
    return {SOURCE: originals[sources], VERTEX: targets}
