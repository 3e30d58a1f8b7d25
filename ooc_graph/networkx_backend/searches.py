"""Searches of a graph of nodes, and what networkx makes of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from ooc_graph.api.many import multi_source_bfs, shortest_paths
from ooc_graph.api.single import bfs
from ooc_graph.api.sssp import sssp
from ooc_graph.errors import InputError, NegativeCycleError, UsageError
from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.networkx_backend.trees import Tree
from ooc_graph.types import INT64_UNREACHED, AnyArray, IntArray, Reduction

BATCH_BYTES = 1 << 26
"""So many bytes of distances are found at once where there are many sources."""

MANY_SOURCES = 32
"""From this many sources on, it is quicker to make a graph for one search from all of them."""


@dataclass(frozen=True)
class Measure:
    """How far is measured: by number of edges, or by weights.

    ``weight`` names the attribute, or is None. If ``signed``, weights may be negative. If sums are
    to be ``exact``, negative weights are refused that are not integers: potentials round them.
    """

    weight: str | None = None
    signed: bool = False
    exact: bool = True

    def is_hops(self, graph: NodeGraph) -> bool:
        """Whether distances are numbers of edges."""
        return not graph.weighs(self.weight)

    def is_negative(self, graph: NodeGraph) -> bool:
        """Whether some weights are negative; NotImplementedError if they are not allowed here."""
        if self.is_hops(graph) or not graph.graph.has_negative_weights:
            return False
        if not self.signed:
            raise NotImplementedError("some weights are negative")
        dtype = graph.graph.weight_dtype
        if self.exact and dtype is not None and dtype.kind == "f":
            raise NotImplementedError("sums of negative weights that are no integers are rounded")
        return True


HOPS = Measure()


def last_level(cutoff: float | None) -> float | None:
    """Level that a cutoff means: networkx goes on from each level that is below it."""
    return None if cutoff is None else float(np.ceil(cutoff))


def tree(graph: NodeGraph, source: int, measure: Measure = HOPS) -> Tree:
    """The search from one source; NotImplementedError if it cannot be as networkx has it."""
    start, roots = int(graph.ids_at(np.array([source]))[0]), np.array([source])
    if measure.is_hops(graph):
        levels = bfs(graph.graph, start)
        return _tree(graph, roots, levels.level, lambda: levels.parent)
    if measure.is_negative(graph):
        return next(trees(graph, roots, measure, parents=True))
    found = carried_out(lambda: sssp(graph.graph, start))
    return _tree(graph, roots, found.distance, lambda: found.parent)


def nearest(graph: NodeGraph, sources: IntArray, measure: Measure) -> Tree:
    """One search from several sources, each given once; NotImplementedError as `tree`."""
    found = _from_joined(graph, sources, measure) or _from_each(graph, sources, measure)

    def parents() -> IntArray:
        above = found.parents()[: len(graph)].copy()
        # Another source is the parent of one that is at distance 0 from it.
        above[sources] = sources
        return above

    return replace(found, parents=parents)


def _from_joined(graph: NodeGraph, sources: IntArray, measure: Measure) -> Tree | None:
    """A search from one node more, which the sources are next to."""
    if len(sources) < MANY_SOURCES or (joined := graph.joined(sources)) is None:
        return None
    found = tree(joined, len(graph), measure)
    # An edge to a source counts as one, or weighs nothing.
    distances = found.distances[:-1] - int(measure.is_hops(joined))
    return Tree(graph, sources, distances, found.reached[:-1], found.parents)


def _from_each(graph: NodeGraph, sources: IntArray, measure: Measure) -> Tree:
    ids = graph.ids_at(sources)
    if measure.is_hops(graph):
        levels = bfs(graph.graph, sources=ids)
        return _tree(graph, sources, levels.level, lambda: levels.parent)
    measure.is_negative(graph)
    found = carried_out(lambda: sssp(graph.graph, sources=ids))
    return _tree(graph, sources, found.distance, lambda: found.parent)


def trees(
    graph: NodeGraph, sources: IntArray, measure: Measure, *, parents: bool = False
) -> Iterator[Tree]:
    """The searches from many sources, by batches; the first at once, so that it refuses at once."""
    if measure.is_hops(graph) and parents:
        return (tree(graph, source) for source in sources.tolist())
    most = max(1, BATCH_BYTES // (8 * len(graph)))
    batches = [sources[start : start + most] for start in range(0, len(sources), most)]
    first = _batch(graph, batches[0], measure, parents)

    def all_of_them() -> Iterator[Tree]:
        yield from first
        for batch in batches[1:]:
            yield from _batch(graph, batch, measure, parents)

    return all_of_them()


def _batch(graph: NodeGraph, sources: IntArray, measure: Measure, parents: bool) -> list[Tree]:
    ids = graph.ids_at(sources)
    if measure.is_hops(graph):
        levels = multi_source_bfs(graph.graph, ids).level
        return [
            _tree(graph, source, row, lambda: _NO_PARENTS)
            for source, row in zip(sources[:, None], levels, strict=True)
        ]
    found = _searched(graph, measure, ids, parents=parents)
    rows = found.parent if parents else [_NO_PARENTS] * len(ids)
    return [
        _tree(graph, source, row, lambda row_parents=row_parents: row_parents)  # type: ignore[misc]
        for source, row, row_parents in zip(sources[:, None], found.distance, rows, strict=True)
    ]


def reduced(
    graph: NodeGraph, sources: IntArray, measure: Measure, reduction: Reduction
) -> tuple[AnyArray, IntArray]:
    """A reduction of each source's distances, and how many nodes it reaches."""
    ids = graph.ids_at(sources)
    if measure.is_hops(graph):
        found = multi_source_bfs(graph.graph, ids, reduce=reduction)
    else:
        found = _searched(graph, measure, ids, reduce=reduction)
    return found.read(reduction), found.read("reached")


def _searched(graph: NodeGraph, measure: Measure, ids: IntArray, **options: Any) -> Any:
    if not measure.is_negative(graph):
        return carried_out(lambda: shortest_paths(graph.graph, ids, **options))
    try:
        return carried_out(lambda: shortest_paths(graph.graph, ids, **options))
    except NegativeCycleError as error:
        at = int(graph.positions_at(np.array(error.cycle[:1]))[0])
        for source in graph.positions_at(ids).tolist():
            if tree(graph, source).reached[at]:
                raise nx.NetworkXUnbounded("Negative cycle detected.") from error
        raise NotImplementedError("a negative cycle that is not reached is in the graph") from error


def has_negative_cycle(graph: NodeGraph, weight: str | None) -> bool:
    """Whether some cycle's weights sum to less than 0; NotImplementedError if sums are rounded."""
    measure = Measure(weight, signed=True)
    if not measure.is_negative(graph):
        return False
    try:
        carried_out(lambda: shortest_paths(graph.graph, graph.ids_at(np.zeros(1, np.int64))))
    except NegativeCycleError:
        return True
    return False


def carried_out(search: Callable[[], Any]) -> Any:
    """What a search finds; NotImplementedError if it is refused what networkx may take."""
    try:
        return search()
    except (InputError, UsageError) as error:
        raise NotImplementedError(str(error)) from error


_NO_PARENTS: IntArray = np.empty(0, np.int64)


def _tree(
    graph: NodeGraph, sources: IntArray, distances: AnyArray, parents: Callable[[], IntArray]
) -> Tree:
    if distances.dtype == np.int32:
        reached = distances >= 0
    else:
        far = np.inf if distances.dtype.kind == "f" else INT64_UNREACHED
        reached = distances != far
    return Tree(graph, sources, distances, reached, lambda: graph.positions_at(parents()))
