"""PageRank: what its ranks are given, and the answer by original id."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ooc_graph.answers.pagerank import DANGLING, PERSONALIZATION, PagerankResult, array_names
from ooc_graph.answers.scatter import Columns, Ids
from ooc_graph.kernels.common.pagerank import SCALE
from ooc_graph.layout.chunks import FileEntry, write_array
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import INTERNAL_OF, PAGERANK, VERTEX, WEIGHTED_PAGERANK
from ooc_graph.layout.stored import Stored
from ooc_graph.model.task import SearchTask
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.search.steps import Arrays
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, owner_of

if TYPE_CHECKING:
    from ooc_graph.traverse.pagerank import Problem


def start(
    task: SearchTask,
    graph: Graph,
    ranks: dict[int, Any],
    device: Any,
    states: Callable[[int], Any],  # noqa: ARG001 (none are written)
) -> tuple[dict[int, Any], Any]:
    """The coroutines of a worker's ranks, and what they share."""
    # Other searches need neither these nor numba, which the first imports.
    from ooc_graph.shards.tier_facts import elements_at  # noqa: PLC0415
    from ooc_graph.traverse.pagerank import Isolated, pagerank  # noqa: PLC0415

    problem: Problem = task.request.given
    listed, shared = problem.listed(), device.pagerank_shared(graph.rows)
    internal = np.empty(0, np.int64)
    if len(listed.vertex):
        internal = elements_at(graph.stored, INTERNAL_OF, listed.vertex).astype(np.int64)
    without = internal < 0
    coroutines = {}
    for shard, rank in ranks.items():
        dealing = rank.dealing
        own = (owner_of(internal, dealing.shards) == dealing.shard) & ~without
        mine = listed.those(own, dealing.local_of(internal[own]))
        isolated = Isolated(
            graph.vertices - graph.rows, listed.those(without, listed.vertex[without])
        )
        coroutines[shard] = pagerank(rank, shared, problem, graph.vertices, mine, isolated)
    return coroutines, shared


def nothing(task: SearchTask, _: Graph) -> Arrays:
    """Scores of no rows: of a graph without arcs all that there is has no out-arcs.

    All iterations find the same.
    """
    problem: Problem = task.request.given
    done = problem.most if problem.tol is None else 1
    return np.empty(0, np.int64), np.array(SCALE), np.array(done)


class PagerankColumns(Columns):
    """Scores by original id, float64.

    ``score`` has those of the rows, in units; those of vertices without arcs follow from what the
    vertices without out-arcs had before, ``dangling`` units. Stored with them is what was asked
    (`ooc_graph.answers.pagerank.Ranking`), of which ``done`` has what the problem does not say.
    """

    def __init__(
        self, problem: Problem, score: AnyArray, dangling: int, ids: Ids, **done: Any
    ) -> None:
        dtypes = {VERTEX: np.dtype(np.int64), PAGERANK: np.dtype(np.float64)}
        attributes = {"alpha": problem.alpha, "tol": problem.tol, **done}
        # As most users want it, both are the same.
        landing = None if problem.landing == problem.jump else problem.landing
        others: dict[str, AnyArray] = {}
        for name, chances in ((PERSONALIZATION, problem.jump), (DANGLING, landing)):
            attributes[name] = None
            if chances is not None:
                attributes[name] = len(chances[0])
                vertex, chance = (np.array(one) for one in chances)
                vertex = (
                    vertex + (ids.first or 0) if ids.originals is None else ids.originals[vertex]
                )
                others |= zip(array_names(name), (vertex, chance), strict=True)
        super().__init__(ids, dtypes, attributes)
        self.others = others
        self._score, listed = score, problem.listed()
        self._every = problem.every(max(1, self.size), dangling)
        alone = ids.internal_of[listed.vertex] < 0
        self._listed = listed.those(alone, listed.vertex[alone])
        extra = problem.arriving(self._listed.jump, self._listed.landing, dangling)
        self._of_listed = self._every + extra

    def fill(self, name: str, start: int, out: AnyArray) -> None:  # noqa: ARG002
        """Put scores of some vertices into ``out``."""
        internal = self.ids.internal_of[start : start + len(out)]
        scores = np.full(len(out), self._every)
        has_row = internal >= 0
        scores[has_row] = self._score[internal[has_row]]
        first, end = np.searchsorted(self._listed.vertex, (start, start + len(out)))
        scores[self._listed.vertex[first:end] - start] = self._of_listed[first:end]
        np.multiply(scores, 1 / SCALE, out=out)

    def write(
        self, store: Path, like: Stored | None = None
    ) -> tuple[list[ArraySpec], list[FileEntry]]:
        """Write all columns, and the vertices that were given, to a partial store."""
        specs, entries = super().write(store, like)
        for name, array in self.others.items():
            specs.append(ArraySpec(name, len(array), array.dtype))
            entries += write_array(store, specs[-1], partial(_part, array))
        return specs, entries


def _part(array: AnyArray, start: int, stop: int) -> list[AnyArray]:
    return [array[start:stop]]


def columns(task: SearchTask, _: Graph, arrays: Arrays, ids: Ids) -> PagerankColumns:
    """Columns of scores."""
    score, dangling, iterations = arrays
    done = {"iterations": int(iterations), "weighted": task.kernel == WEIGHTED_PAGERANK}
    return PagerankColumns(task.request.given, score, int(dangling), ids, **done)


ALGORITHM = Algorithm(PagerankResult, start, ("score", "dangling", "iterations"), nothing, columns)
