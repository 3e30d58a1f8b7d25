"""Answers against edges in one call, as the package does with validators and blocks."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ooc_graph.types import EdgeBlock
from ooc_graph.validate import (
    BfsAnswer,
    BfsValidator,
    ComponentsAnswer,
    ComponentsValidator,
    ComponentsVerdict,
    PagerankAnswer,
    PagerankValidator,
    PagerankVerdict,
    SsspAnswer,
    SsspValidator,
    Verdict,
)


def validate_bfs(
    answers: Iterable[BfsAnswer], blocks: Iterable[EdgeBlock], *, directed: bool
) -> list[Verdict]:
    return _finished(BfsValidator, answers, blocks, directed)


def validate_sssp(
    answers: Iterable[SsspAnswer], blocks: Iterable[EdgeBlock], *, directed: bool
) -> list[Verdict]:
    return _finished(SsspValidator, answers, blocks, directed)


def validate_components(answer: ComponentsAnswer, blocks: Iterable[EdgeBlock]) -> ComponentsVerdict:
    (verdict,) = _shown(ComponentsValidator(answer), blocks)
    return verdict


def validate_pagerank(
    answer: PagerankAnswer, blocks: Iterable[EdgeBlock], *, directed: bool, weighted: bool = False
) -> PagerankVerdict:
    blocks, passes = list(blocks), list[Any]()

    def show(arcs: Any) -> None:
        passes.append(arcs)
        _shown(arcs, blocks)

    found = PagerankValidator(answer, show, directed=directed, weighted=weighted).verdict()
    assert not found.ok or len(passes) == answer.passes
    return found


def _finished(
    kind: Any, answers: Iterable[Any], blocks: Iterable[EdgeBlock], directed: bool
) -> list[Verdict]:
    """Verdicts of as many passes as the answers need."""
    blocks, found, left = list(blocks), list[list[Verdict]](), iter(answers)
    rest = len(answers) if isinstance(answers, list) else None
    while not found or found[-1]:
        validator = kind(left, directed=directed, count=rest)
        left = chain(validator.refused, left)
        found.append(_shown(validator, blocks))
        rest = None if rest is None else rest - len(found[-1])
    return list(chain(*found))


def _shown(validator: Any, blocks: Iterable[EdgeBlock]) -> Any:
    for block in blocks:
        validator.block(block)
    return validator.finish()
