"""Which search finds what is asked for: on rows as they come, or on a graph made of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csgraph as scipys

from ooc_graph.api.many import shortest_paths
from ooc_graph.csgraph.matrices import all_threads, arcs_of, has_negative, sides_of
from ooc_graph.edges.arrays import ArraySource
from ooc_graph.errors import InputError, NegativeCycleError
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.csr.distances import NearestSearch
from ooc_graph.kernels.cpu.csr.order import NONE, breadth_first
from ooc_graph.kernels.cpu.csr.trees import find_predecessors
from ooc_graph.kernels.cpu.many.choice import side_by_side
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.in_memory import build_in_memory
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray, IntArray

FEW_SOURCES = 32
"""Number of sources from which a graph in memory pays: batches of sources share reads of arcs."""


class Asked(NamedTuple):
    """What a caller asks of shortest paths."""

    directed: bool
    predecessors: bool
    unweighted: bool = False
    limit: float = np.inf


def from_each(matrix: Any, sources: IntArray, asked: Asked) -> tuple[AnyArray, ...]:
    """Distances (sources, vertices) on weights of 0 or more, and predecessors if asked for."""
    if not asked.unweighted and len(sources) >= FEW_SOURCES:
        # Weights whose sums might exceed float64 are refused there.
        with suppress(InputError):
            return all_from_each(matrix, sources, asked)
    distance, predecessor = _answers(len(sources), matrix.shape[0], asked)
    sides = sides_of(arcs_of(matrix, weighted=not asked.unweighted), directed=asked.directed)

    def count_steps(team: Team) -> Callable[[int], None]:
        return lambda index: _count_steps(
            sides, int(sources[index]), distance[index], predecessor[index], asked.limit, team
        )

    def search_nearest(team: Team) -> Callable[[int], None]:
        search = NearestSearch(sides, team)
        return lambda index: search.run(
            sources[index : index + 1], distance[index], predecessor[index], asked.limit
        )

    _run(count_steps if asked.unweighted else search_nearest, len(sources))
    return (distance, predecessor) if asked.predecessors else (distance,)


def _answers(rows: int, vertices: int, asked: Asked) -> tuple[AnyArray, AnyArray]:
    """Answers in which nothing is reached; predecessors of no length if none are wanted."""
    wanted = vertices if asked.predecessors else 0
    return np.full((rows, vertices), np.inf), np.full((rows, wanted), NONE, np.int32)


def _run(prepare: Callable[[Team], Callable[[int], None]], count: int) -> None:
    """Search from each source by what is made for a team: one source a thread, if they suffice."""
    team = all_threads()
    if count < team.threads:
        search = prepare(team)
        for index in range(count):
            search(index)
    else:
        searches = [prepare(Team(1)) for _ in range(team.threads)]
        side_by_side(team.threads, count, lambda thread, index: searches[thread](index))


def _count_steps(
    sides: Any, source: int, steps: AnyArray, predecessor: AnyArray, limit: float, team: Team
) -> None:
    _, found = breadth_first(sides, source, team, steps)
    far = steps > limit
    if limit < len(steps):
        steps[far] = np.inf
    if len(predecessor):
        found[far] = NONE
        predecessor[:] = found


def from_nearest(matrix: Any, sources: IntArray, asked: Asked) -> Any:
    """Distance (vertices,) from the nearest source; with predecessors also these and the source."""
    vertices = matrix.shape[0]
    arcs = arcs_of(matrix, weighted=True)
    if asked.unweighted:
        arcs = arcs._replace(weights=np.ones(len(arcs.targets)))
    (distance,), (predecessor,) = _answers(1, vertices, asked)
    sides = sides_of(arcs, directed=asked.directed)
    NearestSearch(sides, all_threads()).run(sources, distance, predecessor, asked.limit)
    if not asked.predecessors:
        return distance
    # Each vertex is asked for its predecessor's predecessor until all have come to a source.
    above = np.where(predecessor == NONE, np.arange(vertices), predecessor)
    while not np.array_equal(further := above[above], above):
        above = further
    nearest = np.where(np.isfinite(distance), above, NONE).astype(np.int32)
    return distance, predecessor, nearest


def all_from_each(matrix: Any, sources: IntArray, asked: Asked) -> tuple[AnyArray, ...]:
    """As `from_each`, on weights of any sign, by a graph in memory and `shortest_paths`.

    SciPy's NegativeCycleError if a cycle has a negative weight.
    """
    vertices, weights = matrix.shape[0], np.asarray(matrix.data, np.float64)
    # Where no weight is negative, predecessors follow from distances to the bit.
    is_exact = not has_negative(matrix)
    if not is_exact and (matrix.diagonal() < 0).any():
        raise scipys.NegativeCycleError("an arc from a vertex to itself has a negative weight")
    leads = weights < np.inf
    answers: tuple[AnyArray, ...]
    if not leads.any():
        answers = _answers(len(sources), vertices, asked)
        answers[0][np.arange(len(sources)), sources] = 0
        return answers if asked.predecessors else answers[:1]
    begin = np.repeat(np.arange(vertices, dtype=np.int32), np.diff(matrix.indptr))
    columns = begin, matrix.indices, weights
    if not leads.all():
        columns = begin[leads], matrix.indices[leads], weights[leads]
    chosen, at = np.unique(sources, return_inverse=True)
    edges = ArraySource(*columns, asked.directed, weights.dtype, (0, vertices))
    # Not `from_edges`, which releases what other calls have loaded.
    graph = build_in_memory(edges, (HUB, LIGHT), cores())
    try:
        found = shortest_paths(
            graph,
            chosen,
            parents=asked.predecessors and not is_exact,
            cutoff=None if np.isinf(asked.limit) else asked.limit,
            client=False,
            device="cpu",
        )
    except NegativeCycleError as error:
        raise scipys.NegativeCycleError(str(error)) from error
    finally:
        # The graph is of no use to other calls.
        engine_cache.release(graph)
    distance = found.distance
    is_each_once = len(chosen) == len(sources) and bool((np.diff(at) == 1).all())
    answers = (distance,)
    if asked.predecessors and is_exact:
        sides = sides_of(arcs_of(matrix, weighted=True), directed=asked.directed)
        answers = distance, find_predecessors(sides, chosen, distance, all_threads())
    elif asked.predecessors:
        predecessor = found.parent.astype(np.int32)
        predecessor[np.isinf(distance)] = NONE
        predecessor[np.arange(len(chosen)), chosen] = NONE
        answers = distance, predecessor
    return answers if is_each_once else tuple(answer[at] for answer in answers)
