"""Answers against edges in one call, as the package does with validators and blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ooc_graph.types import EdgeBlock
from ooc_graph.validate import (
    BfsAnswer,
    BfsValidator,
    ComponentsAnswer,
    ComponentsValidator,
    ComponentsVerdict,
    SsspAnswer,
    SsspValidator,
    Verdict,
)


def validate_bfs(
    answers: Iterable[BfsAnswer], blocks: Iterable[EdgeBlock], *, directed: bool
) -> list[Verdict]:
    return _finished(BfsValidator(answers, directed=directed), blocks)


def validate_sssp(
    answers: Iterable[SsspAnswer], blocks: Iterable[EdgeBlock], *, directed: bool
) -> list[Verdict]:
    return _finished(SsspValidator(answers, directed=directed), blocks)


def validate_components(answer: ComponentsAnswer, blocks: Iterable[EdgeBlock]) -> ComponentsVerdict:
    (verdict,) = _finished(ComponentsValidator(answer), blocks)
    return verdict


def _finished(validator: Any, blocks: Iterable[EdgeBlock]) -> Any:
    for block in blocks:
        validator.block(block)
    return validator.finish()
