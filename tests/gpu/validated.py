"""Answers before both validators, the CPU's and the device's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.types import EdgeBlock
from ooc_graph.validate import BfsAnswer, BfsValidator, SsspValidator, Verdict
from ooc_graph.validate.cuda_validator import CudaBfsValidator, CudaSsspValidator

NO_VERTEX = 0xFFFFFFFF


def ends_of(pairs: Any) -> EdgeBlock:
    """Edges without weights."""
    pairs = np.array(pairs, np.int64).reshape(-1, 2)
    return EdgeBlock(pairs[:, 0].copy(), pairs[:, 1].copy())


def cut(edges: EdgeBlock, places: Sequence[int]) -> list[EdgeBlock]:
    """Blocks that end at some places, and the rest."""
    columns = [edges.source, edges.target]
    if edges.weight is not None:
        columns.append(edges.weight)
    return [EdgeBlock(*part) for part in zip(*(np.split(c, places) for c in columns), strict=True)]


def parents_as(parent: np.ndarray, dtype: str) -> Any:
    """Parents on the device, as 32 bits where that is asked for and they fit."""
    import cupy

    if dtype == "int64" or parent.min() < -1 or parent.max() >= NO_VERTEX:
        return cupy.asarray(parent)
    return cupy.asarray(parent.astype(np.uint32))


def measure_as(measure: np.ndarray, dtype: str) -> Any:
    """Levels on the device, in bytes where asked for and they fit; distances as they are."""
    import cupy

    fits = measure.dtype == np.int32 and measure.min() >= -1 and measure.max() < 255
    if dtype == "uint8" and fits:
        return cupy.asarray(measure.astype(np.uint8))
    return cupy.asarray(measure)


def on_device(
    answers: Sequence[Any],
    blocks: Sequence[EdgeBlock],
    *,
    directed: bool = False,
    room: int | None = None,
    types: tuple[str, str, str] = ("uint32", "uint8", "int64"),
) -> list[Verdict]:
    """Verdicts of the device; ``types`` are those of parents, levels and ends of edges."""
    import cupy

    bfs = isinstance(answers[0], BfsAnswer)
    kind = CudaBfsValidator if bfs else CudaSsspValidator
    check = kind(answers[0].vertices.count, room or len(answers), directed=directed)
    for answer in answers:
        measure = measure_as(answer.level if bfs else answer.distance, types[1])
        check.add(answer.root, parents_as(answer.parent, types[0]), measure)
    for block in blocks:
        ids = np.concatenate([block.source, block.target])
        dtype = types[2] if ((ids >= 0) & (ids <= NO_VERTEX)).all() else "int64"
        ends = (cupy.asarray(ids.astype(dtype)) for ids in (block.source, block.target))
        check.block(*ends, None if block.weight is None else cupy.asarray(block.weight))
    return check.finish()


def on_host(
    answers: Sequence[Any], blocks: Sequence[EdgeBlock], *, directed: bool = False
) -> list[Verdict]:
    """Verdicts of the CPU's validator."""
    kind: Any = BfsValidator if isinstance(answers[0], BfsAnswer) else SsspValidator
    verdicts: list[Verdict] = []
    while len(verdicts) < len(answers):  # a batch may take fewer than all
        check = kind(answers[len(verdicts) :], directed=directed)
        for block in blocks:
            check.block(block)
        verdicts += check.finish()
    return verdicts


def agreed(answers: Sequence[Any], blocks: Sequence[EdgeBlock], **options: Any) -> list[Verdict]:
    """Verdicts, once both have given the same."""
    expected = on_host(answers, blocks, directed=options.get("directed", False))
    found = on_device(answers, blocks, **options)
    different = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
    assert not different, different[:3]
    return found
