"""The coroutines of a worker's ranks, made where their rows are; what each of them writes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

from ooc_graph.model.strategy import MEMORY
from ooc_graph.model.task import SearchTask, Trace, trace_of
from ooc_graph.runtime import engine_cache, process
from ooc_graph.search.rank_states import NOTHING, Before, Pace, RankStates, before
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tables import save
from ooc_graph.strategies.ranks import RankLoading, Ranks
from ooc_graph.traverse.states import NO_STATES, States
from ooc_graph.types import AnyArray, Dealing

Coroutines = tuple[dict[int, Any], Any]
"""Of a worker's ranks, by rank, and what they share."""
StatesOf = Callable[[int], States]
"""Where a rank writes its states."""


class Name(NamedTuple):
    """A rank that a worker keeps; ``ranks`` is their number, None if each shard is one."""

    ranks: int | None
    rank: int


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's coroutines; the ranks it loads stay in the process for other searches.

    ``start`` is that of `ooc_graph.search.algorithm.Algorithm`. A rank has one shard of the store,
    or, if there are fewer ``ranks``, several that are joined. They go on from what was ``found``.
    """

    task: SearchTask
    start: Callable[[SearchTask, Graph, dict[int, Any], Any, StatesOf], Coroutines]
    found: Before = NOTHING

    @contextmanager
    def __call__(self, mine: Sequence[int], ranks: int | None = None) -> Iterator[Coroutines]:
        """Coroutines of these ranks and what they share."""
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        names, load = [Name(ranks, rank) for rank in mine], partial(self._load, mine, ranks)
        # Those that leave arcs in the store share a budget.
        apart = strategy.tier == MEMORY
        with engine_cache.ranks(task.key, names, load, task.capacity, apart=apart) as engine:
            device, searches = process.device(strategy.device), engine.searches
            steps = {name.rank: searches[name] for name in names}
            states = self._states(engine.graph, mine, ranks or engine.graph.shards)
            coroutines, shared = self.start(task, engine.graph, steps, device, states)
            yield {rank: _timed(coroutine) for rank, coroutine in coroutines.items()}, shared

    def _states(self, graph: Graph, mine: Sequence[int], ranks: int) -> StatesOf:
        """Where each of these ranks writes its states."""
        checkpoints = self.task.checkpoints
        if checkpoints is None:
            return lambda _rank: NO_STATES
        dealings = {rank: Dealing(graph.rows, ranks, rank) for rank in mine}
        pace = Pace(sum(dealing.rows for dealing in dealings.values()))
        # To search all rows in memory takes less than a tenth of the time until one is due.
        together = cast(Ranks, self.task.strategy).joins
        return lambda rank: RankStates(
            checkpoints, self.found, dealings[rank], pace, is_outpaced=together
        )

    def renewed(self, note: Callable[[str], None]) -> MakeRanks:
        """The same for the next attempt, which goes on from what the last one left."""
        if self.task.checkpoints is None:
            return self
        found = before(self.task.checkpoints)
        if found.whole is not None:
            note(f"{self.task.kernel} goes on from the state that its ranks wrote last")
        return replace(self, found=found)

    def _load(
        self, mine: Sequence[int], ranks: int | None, graph: Graph, before: Mapping[Name, Any]
    ) -> dict[Name, Any]:
        """Load the ranks that the worker does not have already."""
        task, strategy = self.task, cast(Ranks, self.task.strategy)
        missing = [rank for rank in mine if Name(ranks, rank) not in before]
        loading = RankLoading(graph, task.kernel, mine, missing, task.reserved, ranks)
        loaded = strategy.inner.load_ranks(loading)
        return {**before, **{Name(ranks, rank): search for rank, search in loaded.items()}}


def _timed(coroutine: Any) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has arrays of its own, and the seconds from first step to last.

    What devices have found together comes with the seconds that they took.
    """
    start = perf_counter()
    tree = yield from coroutine
    elapsed_s = tree.elapsed_s or perf_counter() - start
    return replace(tree.copy(), elapsed_s=elapsed_s)


@dataclass(frozen=True)
class WritePart:
    """Writes the arrays of what a rank found where the gathering task finds them.

    Ranks of an attempt with more or fewer of them have other rows, and files of their own.
    """

    kernel: str
    arrays: tuple[str, ...]
    folder: str

    def __call__(self, rank: int, found: Any, ranks: int) -> Trace:
        """Write it; only the trace travels."""
        for name in self.arrays:
            save(Path(self.folder), f"{rank}-of-{ranks}-{name}", getattr(found, name))
        return trace_of(self.kernel, found)


def read_parts(folder: Path, names: Sequence[str], ranks: int) -> Iterator[tuple[AnyArray, ...]]:
    """What `WritePart` wrote, rank by rank."""
    for rank in range(ranks):
        yield tuple(np.load(folder / f"{rank}-of-{ranks}-{name}.npy") for name in names)
