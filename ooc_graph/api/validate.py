"""The Python API of validation: answers against the edges that they should follow from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ooc_graph.answers.result import BfsResult, ComponentsResult, PairsResult, Result, SsspResult
from ooc_graph.boundary import public
from ooc_graph.edges import open_source
from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.runtime.machine import cores
from ooc_graph.threads import Threads
from ooc_graph.types import EdgeBlock
from ooc_graph.validate import (
    BfsAnswer,
    BfsValidator,
    ComponentsAnswer,
    ComponentsValidator,
    SsspAnswer,
    SsspValidator,
    Verdict,
    VertexIndex,
)

_UNIT_EDGES = 1 << 22
_BLOCK_EDGES = 1 << 16


@public
def validate(result: Result | str | Path, edges: Any, **options: Any) -> Verdict:
    """Check an answer against the edges it should follow from.

    Trees are held against Graph500's rules; components against those of
    `ooc_graph.validate.components`.

    Parameters
    ----------
    result
        A result, or the path of a stored one.
    edges
        What `build` was given: a path, several, a `Kronecker`, arrays, a Dask collection.
    **options
        As for `build`: ``format``, ``directed``, ``weight``, …

    Returns
    -------
    Verdict
        With the vertices reached and the tuples between them.

    Raises
    ------
    ValidationFailedError
        Names the rule and the smallest vertex or edge that breaks it.
    """
    answer = result if isinstance(result, Result) else Result.open(result)
    if isinstance(answer, PairsResult):
        raise UsageError("distances of many sources cannot be validated: validate single searches")
    source = open_source(edges, **options)
    if isinstance(answer, SsspResult) and not source.weighted:
        raise UsageError("distances can only be checked against edges with weights")
    validator = validator_of([answer], source.directed)
    (verdict,) = check_edges(validator, source, cores())
    verdict.raise_if_failed()
    return verdict


def validator_of(results: Sequence[Result], directed: bool) -> Any:
    """Validator of some results of one kernel on one graph; of components, one result."""
    vertices = VertexIndex.ascending(results[0].on_host(VERTEX))
    if isinstance(results[0], ComponentsResult):
        return ComponentsValidator(ComponentsAnswer(results[0].component, vertices))
    if isinstance(results[0], BfsResult):
        levels: list[Any] = [
            BfsAnswer(r.root, r.on_host(PARENT), r.on_host(LEVEL), vertices)
            for r in results
            if isinstance(r, BfsResult)
        ]
        return BfsValidator(levels, directed=directed)
    distances: list[Any] = [
        SsspAnswer(r.root, r.on_host(PARENT), r.on_host(DISTANCE), vertices)
        for r in results
        if isinstance(r, SsspResult)
    ]
    return SsspValidator(distances, directed=directed)


def check_edges(validator: Any, source: EdgeSource, threads: int) -> list[Verdict]:
    """Let threads show the validator every tuple of a source; the verdicts."""
    units = list(source.units(_UNIT_EDGES))
    twins = [validator.fork() for _ in range(min(threads, len(units)))]

    def show(number: int) -> None:
        for unit in units[number :: len(twins)]:
            for block in _blocks(source, unit):
                twins[number].block(block)

    with Threads(max(1, len(twins))) as executor:
        list(executor.map(show, range(len(twins))))
    for twin in twins:
        validator.merge(twin)
    verdicts: list[Verdict] = validator.finish()
    return verdicts


def _blocks(source: EdgeSource, unit: Unit) -> Iterator[EdgeBlock]:
    return source.read(unit, _BLOCK_EDGES)
