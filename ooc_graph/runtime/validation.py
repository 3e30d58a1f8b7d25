"""Answers against the edges that they should follow from, by the threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
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
THREAD_BYTES = 8 << 20
"""Host memory of the edges that a thread looks at."""

TREES: dict[str, tuple[Any, Any, str]] = {
    "bfs": (BfsAnswer, BfsValidator, LEVEL),
    "sssp": (SsspAnswer, SsspValidator, DISTANCE),
}
"""By kernel: the answer that its validator takes, the validator, the column beside the parents."""


def check(result: Result, source: EdgeSource) -> Verdict:
    """Hold an answer against the edges that it should follow from, on all cores."""
    vertices = VertexIndex.ascending(result.on_host(VERTEX))
    (verdict,) = check_together([result], vertices, source)
    return verdict


def check_together(results: Sequence[Result], vertices: VertexIndex, source: Any) -> list[Verdict]:
    """Hold trees of one kernel, or components, against edges in one pass, on all cores."""
    if isinstance(results[0], ComponentsResult):
        component = ComponentsAnswer(results[0].component, vertices)
        return check_edges(ComponentsValidator(component), source, cores())
    answer, kind, measure = TREES[results[0].kernel]
    answers = (
        answer(one.root, one.on_host(PARENT), one.on_host(measure), vertices) for one in results
    )
    options = {"count": len(results), "threads": cores()}
    return check_edges(kind(answers, directed=source.directed, **options), source, cores())


def check_edges(validator: Any, source: Any, threads: int) -> list[Verdict]:
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
