"""Answers against the edges that they should follow from, by the threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ooc_graph.answers.result import ComponentsResult, Result
from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.threads import Threads
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


def validator_of(results: Sequence[Result], directed: bool) -> Any:
    """Validator of some results of one kernel on one graph; of components, one result."""
    vertices = VertexIndex.ascending(results[0].on_host(VERTEX))
    if isinstance(results[0], ComponentsResult):
        return ComponentsValidator(ComponentsAnswer(results[0].component, vertices))
    answer, validator, measure = TREES[results[0].kernel]
    answers = [answer(r.root, *map(r.on_host, (PARENT, measure)), vertices) for r in results]
    return validator(answers, directed=directed)


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
