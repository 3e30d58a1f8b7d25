"""The public function that ranks vertices."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from ooc_graph.answers.pagerank import PagerankResult
from ooc_graph.answers.reductions import finite
from ooc_graph.api.graphs import located
from ooc_graph.api.vertices import positions_of
from ooc_graph.boundary import public
from ooc_graph.errors import InputError, NegativeWeightError, UsageError
from ooc_graph.layout.names import PAGERANK, WEIGHTED_PAGERANK
from ooc_graph.model.defaults import ALPHA, MAX_ITER, TOL
from ooc_graph.search.single import search
from ooc_graph.shards.load import Graph
from ooc_graph.traverse.pagerank import Chances, Problem
from ooc_graph.types import DeviceName, Exchange, ProgressLike

if TYPE_CHECKING:
    from distributed import Client


@public
def pagerank(
    graph: Graph | str | Path,
    *,
    alpha: float = ALPHA,
    personalization: Mapping[int, float] | None = None,
    dangling: Mapping[int, float] | None = None,
    weight: bool = True,
    tol: float = TOL,
    max_iter: int = MAX_ITER,
    iterations: int | None = None,
    out: str | Path | None = None,
    client: Client | Literal[False] | None = None,
    exchange: Exchange = "auto",
    device: DeviceName = "auto",
    memory_limit: str | int | None = None,
    overwrite: bool = False,
    progress: ProgressLike = None,
) -> PagerankResult:
    """PageRank of every vertex, by power iteration, as networkx defines it.

    With ``iterations`` it is PageRank as LDBC Graphalytics defines it. The answer has the same bits
    for any number of threads, workers and shards, and whether the graph fits memory or not, because
    scores are summed as integers, in units of 2**-61. An iteration rounds a score by about 2e-19
    for each in-arc, and a few times 1e-16 of the score. Scores pass that on along out-arcs, damped
    by ``alpha``: over all iterations, all scores together are off by at most ``1 / (1 - alpha)``
    times the rounding of one iteration.

    A graph has no parallel edges and no self-loops: of parallel edges in the input the lightest
    counts once, and self-loops do not count. networkx counts both (of a ``MultiDiGraph``, the sum
    of the weights).

    Parameters
    ----------
    graph
        A built graph, or its path; or a graph in memory (`from_edges`). An undirected edge is two
        arcs.
    alpha
        Damping factor, 0 to 1: the share of a score that goes along the vertex's out-arcs.
    personalization
        Weights by original id, zero or more, of the vertices to which the remaining share jumps;
        others have 0. None: all vertices have the same weight.
    dangling
        The same for the score of vertices without out-arcs; None: as ``personalization``.
    weight
        Whether arcs count by their weights, if the graph has any, which must not be negative.
        Vertices whose out-arcs all have weight 0 count as having none.
    tol
        Iterations end when all scores together have changed by less than ``tol`` times the number
        of vertices. No change is above 2: for a graph with millions of vertices give a smaller
        tolerance, such as ``1e-6 / vertices``.
    max_iter
        Maximum number of iterations until then.
    iterations
        Do exactly this many iterations; ``tol`` and ``max_iter`` are then ignored.
    out, client, exchange, memory_limit, overwrite, progress
        As for `bfs`.
    device
        ``auto`` or ``cpu``, which are the same: ``cuda`` is refused.

    Returns
    -------
    PagerankResult
        ``pagerank``, float64, by original id, and ``asked``: the parameters, and the iterations
        done. Weights by original id are two arrays there: ``personalization.vertex``, and
        ``personalization.chance``, which sums to 1.

    Raises
    ------
    ConvergenceError
        If ``max_iter`` iterations are not enough; nothing is written.
    UsageError, InputError, NegativeWeightError
        If an argument is out of its range, weights are negative, or too large to add up.
    UnknownVertexError
        If a named vertex is not in the graph.
    MemoryBudgetError, OutputExistsError, CorruptStoreError, StoreReplacedError
        As for `bfs`; nothing is written.

    References
    ----------
    L. Page, S. Brin, R. Motwani, T. Winograd, "The PageRank citation ranking: bringing order to the
    Web", 1999.
    """
    opened, options = located(
        graph=graph,
        out=out,
        client=client,
        device=device,
        memory_limit=memory_limit,
        progress=progress,
    )
    problem = problem_of(opened, alpha, personalization, dangling, tol, max_iter, iterations)
    kernel = kernel_of(opened, weight=weight)
    options |= {"exchange": exchange, "overwrite": overwrite, "given": problem}
    return cast(PagerankResult, search(opened, kernel, **options))


def kernel_of(graph: Graph, *, weight: bool = True) -> str:
    """The kernel that counts weights, or does not; NegativeWeightError if it cannot."""
    if not (weight and graph.weighted):
        return PAGERANK
    if graph.has_negative_weights:
        raise NegativeWeightError(
            f"{graph.name}: has negative weights (lightest {graph.attributes['lightest']})",
            advice="pagerank needs weights of zero or more; --unweighted counts every arc alike",
        )
    return WEIGHTED_PAGERANK


def problem_of(
    graph: Graph,
    alpha: float,
    personalization: Mapping[int, float] | None,
    dangling: Mapping[int, float] | None,
    tol: float,
    max_iter: int,
    iterations: int | None,
) -> Problem:
    """What is asked for; UsageError or InputError if it makes no sense."""
    if not isinstance(alpha, Real) or not 0 <= alpha <= 1:
        raise UsageError(f"alpha {alpha!r}: give a number from 0 to 1")
    said = f"tol {tol!r}: give a finite number that is not negative"
    if (tol := finite(tol, said)) < 0:
        raise UsageError(said)
    most = max_iter if iterations is None else iterations
    if not isinstance(most, Integral) or most < 1:
        name = "max_iter" if iterations is None else "iterations"
        raise UsageError(f"{name} {most!r}: give an integer, at least 1")
    jump = chances_of(graph, personalization, "personalization")
    landing = jump if dangling is None else chances_of(graph, dangling, "dangling")
    return Problem(float(alpha), int(most), None if iterations else float(tol), jump, landing)


def chances_of(graph: Graph, weights: Any, what: str) -> Chances | None:
    """Chances in proportion to weights by original id; None of None."""
    if weights is None:
        return None
    if not isinstance(weights, Mapping) or not weights:
        raise UsageError(f"{what}: give a dict of vertex ids and their weights, one at least")
    positions = positions_of(graph, list(weights), what)
    order = np.argsort(positions)
    try:
        values = np.fromiter(weights.values(), np.float64)[order]
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{what}: give a number for each vertex, of 64 bits") from None
    if not (np.isfinite(values) & (values >= 0)).all() or not values.any():
        raise InputError(f"{what}: weights must be finite, zero or more, and not all of them zero")
    try:
        total = fsum(values)
    except OverflowError:
        values *= 2.0**-64  # exact, except for weights too small to change the sum
        total = fsum(values)
    return tuple(positions[order].tolist()), tuple((values / total).tolist())
