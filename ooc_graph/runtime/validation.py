"""Answers against the edges that they should follow from, by the threads of this process."""

from __future__ import annotations

from typing import Any

from ooc_graph.answers.result import ComponentsResult, Result
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.threads import Threads, cores
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

TREES: dict[str, tuple[Any, Any, str]] = {
    "bfs": (BfsAnswer, BfsValidator, LEVEL),
    "sssp": (SsspAnswer, SsspValidator, DISTANCE),
}
"""By kernel: the answer that its validator takes, the validator, the column beside the parents."""


def check(result: Result, source: EdgeSource) -> Verdict:
    """Hold an answer against the edges that it should follow from, on all cores."""
    vertices = VertexIndex.ascending(result.on_host(VERTEX))
    if isinstance(result, ComponentsResult):
        validator: Any = ComponentsValidator(ComponentsAnswer(result.component, vertices))
    else:
        answer, kind, measure = TREES[result.kernel]
        columns = result.on_host(PARENT), result.on_host(measure)
        validator = kind([answer(result.root, *columns, vertices)], directed=source.directed)
    (verdict,) = check_edges(validator, source, cores())
    return verdict


def check_edges(validator: Any, source: EdgeSource, threads: int) -> list[Verdict]:
    """Let threads show the validator every tuple of a source; the verdicts."""
    units = list(source.units(_UNIT_EDGES))
    twins = [validator.fork() for _ in range(min(threads, len(units)))]

    def show(number: int) -> None:
        for unit in units[number :: len(twins)]:
            for block in source.read(unit, _BLOCK_EDGES):
                twins[number].block(block)

    with Threads(max(1, len(twins))) as executor:
        list(executor.map(show, range(len(twins))))
    for twin in twins:
        validator.merge(twin)
    verdicts: list[Verdict] = validator.finish()
    return verdicts
