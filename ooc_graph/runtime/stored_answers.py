"""Stored answers against the rows of the graph that they were searched on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.result import PairsResult, Result
from ooc_graph.errors import CorruptStoreError, InputError, MemoryBudgetError, UsageError
from ooc_graph.runtime.machine import default_limit_bytes
from ooc_graph.runtime.validation import THREAD_BYTES, check_together
from ooc_graph.shards.load import Graph
from ooc_graph.shards.stored_edges import StoredEdges
from ooc_graph.threads import cores
from ooc_graph.validate import Verdict, VertexIndex
from ooc_graph.validate.batch import MOST_ANSWERS, batch_bytes


def check_stored(graph: Graph, paths: Sequence[Path], limit_bytes: int | None) -> list[Verdict]:
    """Verdicts on the answers of paths; those of a kernel in as few passes as memory has room for.

    ``limit_bytes`` None: as searches have it. InputError, NotAStoreError and UsageError name a path
    whose answer is damaged, of another graph, none or of another kind; MemoryBudgetError says what
    one answer needs.
    """
    results = [_opened(graph, path) for path in paths]
    vertices = VertexIndex.dense(graph.first_id or 0, graph.vertices)
    if graph.first_id is None:
        vertices = VertexIndex.ascending(graph.original_ids())
    limit = default_limit_bytes() if limit_bytes is None else limit_bytes
    found: dict[int, Verdict] = {}
    for kernel in dict.fromkeys(result.kernel for result in results):
        source = StoredEdges(graph, kernel == "sssp")
        numbers = [number for number, one in enumerate(results) if one.kernel == kernel]
        most = _most_at_once(source, kernel, vertices, limit)
        for part in (numbers[i : i + most] for i in range(0, len(numbers), most)):
            try:
                verdicts = check_together([results[i] for i in part], vertices, source)
            except CorruptStoreError as error:
                raise _damaged(error, paths) from error
            found |= dict(zip(part, verdicts, strict=True))
    return [found[number] for number in range(len(results))]


def _most_at_once(source: StoredEdges, kernel: str, vertices: VertexIndex, limit: int) -> int:
    count, threads = vertices.count, cores()
    ids = 0 if vertices.ids is None else vertices.ids.nbytes
    beside = source.memory_bytes(threads) + threads * THREAD_BYTES + ids
    if kernel == "components":
        sizes = [(16 + 4 * threads) * count]
    else:
        measure = source.graph.weight_dtype if kernel == "sssp" else None
        dtype = measure or np.dtype(np.uint32)  # levels may need four bytes
        answer = (8 + dtype.itemsize) * count
        sizes = [answer + batch_bytes(count, k, dtype) for k in range(1, MOST_ANSWERS + 1)]
    if limit < beside + sizes[0]:
        needed = beside + sizes[0]
        raise MemoryBudgetError(
            f"validating {kernel} needs {needed:,} bytes, the limit is {limit:,}: give more"
        ).needing(needed)
    return sum(beside + size <= limit for size in sizes)


def _opened(graph: Graph, path: Path) -> Result:
    try:
        result = Result.open(path)
    except CorruptStoreError as error:
        raise _damaged(error, [path]) from error
    if isinstance(result, PairsResult):
        raise UsageError(f"{path}: has many sources; give answers of bfs, sssp or components")
    columns: Any = result.columns
    if columns.attributes["graph_sha256"] != graph.content_sha256:
        raise InputError(
            f"is an answer of another graph than {graph.path}",
            path=path,
            advice="give the graph that was searched, or search again",
        )
    return result


def _damaged(error: CorruptStoreError, answers: Sequence[Path]) -> Exception:
    """The error; one of bad input if it is about an answer."""
    is_answer = any(str(error).startswith(str(path.absolute())) for path in answers)
    return InputError(str(error), advice="or search again") if is_answer else error
