"""Answers against the rows of the graph that they were searched on, here or on workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn, TypeAlias

import numpy as np

from ooc_graph.answers.matrix import PairsResult
from ooc_graph.answers.pagerank import PagerankResult
from ooc_graph.answers.result import Result, require_unlimited
from ooc_graph.errors import CorruptStoreError, InputError, MemoryBudgetError, UsageError
from ooc_graph.forked import free_in_child
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.layout.names import LIGHT, ORDER_OF, PAGERANK, VERTEX, WEIGHTED_PAGERANK
from ooc_graph.layout.stored import Stored
from ooc_graph.runtime.left_answers import for_task, in_task, watched, worker_of
from ooc_graph.runtime.same_graph import open_same
from ooc_graph.runtime.stored_edges import StoredEdges
from ooc_graph.runtime.validation import THREAD_BYTES, check_together, name_of
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.shards.load import Graph
from ooc_graph.shards.workforce import run_all
from ooc_graph.types import Advance, Progress, unseen
from ooc_graph.validate import Verdict, VertexIndex
from ooc_graph.validate.batch import batch_bytes, most_at_once
from ooc_graph.validate.components import components_bytes
from ooc_graph.validate.pagerank import LISTED_BYTES, pagerank_bytes

Answer: TypeAlias = Result | Path
"""Columns in memory, or the path of a stored answer."""

ALONE = {
    "components": components_bytes,
    PAGERANK: pagerank_bytes,
    WEIGHTED_PAGERANK: pagerank_bytes,
}
"""By kernel whose answers have a pass each: its memory besides the answer."""

# A pass has the memory of its process; a worker may have several threads that carry out tasks.
_pass_by_pass = free_in_child(Lock())


def check_answers(
    graph: Graph, answers: Sequence[Answer], workplace: Workplace, progress: Progress
) -> list[Verdict]:
    """Verdicts on answers; those of a kernel in as few passes as memory has room for.

    One process makes a pass. If there is a client, its workers share the passes: one that has an
    answer makes its pass, and the others are sent what this process has in memory. InputError,
    NotAStoreError and UsageError name an answer that is damaged or of another graph, is none or of
    another kind; MemoryBudgetError says what one needs.
    """
    given = [_accepted(graph, answer) for answer in answers]
    workplace.release()  # the limit is for all that processes have in memory
    offered = workplace.resources(on_cpu=True)
    items, order, share = [], list[int](), -(-len(given) // offered.processes)
    client = workplace.client
    kinds = [(one.kernel, worker_of(client, one.answer)) for one in given]
    for kind in dict.fromkeys(kinds):
        kernel, numbers = kind[0], [number for number, one in enumerate(kinds) if one == kind]
        listed = max(given[number].listed for number in numbers)
        limits = offered.least_limit_bytes, offered.threads
        size = min(share, _most_at_once(graph, kernel, listed, *limits))
        for part in (numbers[i : i + size] for i in range(0, len(numbers), size)):
            order += part
            items.append((kernel, str(graph.path), graph.identity, [given[i].answer for i in part]))
    edges = StoredEdges(graph, weighted=False).edges
    if client is None:
        with progress.stage("validating", edges * len(items), "edges") as bar:
            found = [_check_pass(*item, bar.advance) for item in items]
    else:
        for *_, answers_of_pass in items:
            answers_of_pass[:] = [for_task(client, answer) for answer in answers_of_pass]
        with workplace.workforce() as workforce:
            checked = watched(workforce, client, [one.answer for one in given])
            found = run_all(checked, progress, "validating", _check_pass, items)
    verdicts = dict(zip(order, chain(*found), strict=True))
    return [verdicts[number] for number in range(len(order))]


def _check_pass(
    kernel: str,
    path: str,
    identity: str,
    answers: Sequence[Answer | tuple[Any, ...]],
    advance: Advance = unseen,
) -> list[Verdict]:
    """Verdicts on answers of a kernel, validated together; runs on a worker."""
    graph = open_same(path, identity)
    with _pass_by_pass:
        results = [Result.open(one) if isinstance(one, Path) else in_task(one) for one in answers]
        source = StoredEdges(graph, ORDER_OF[kernel] == LIGHT)
        vertices = vertices_of(graph)
        try:
            looked_at: set[tuple[int, int] | None] = set()
            for result in results:
                _require_vertices(result, vertices, graph, looked_at)
            return check_together(results, vertices, source, advance)
        except CorruptStoreError as error:
            _raise_damaged(error, answers)


def vertices_of(graph: Graph) -> VertexIndex:
    """The vertices of a graph as its answers have them."""
    if graph.first_id is not None:
        return VertexIndex.dense(graph.first_id, graph.vertices)
    return VertexIndex.ascending(graph.original_ids())


def _require_vertices(
    result: Result, vertices: VertexIndex, graph: Graph, looked_at: set[tuple[int, int] | None]
) -> None:
    """Refuse a stored answer with other vertices than the graph; shared files are read once."""
    stored = result.columns
    if not isinstance(stored, Stored):
        return
    spec = stored.spec(VERTEX)
    is_same = spec.length == vertices.count
    for index in range(spec.chunks if is_same else 0):
        path = stored.path / spec.chunk_path(index)
        state = path.stat() if path.exists() else None
        file = (state.st_dev, state.st_ino) if state else None
        if file not in looked_at:
            ids = vertices.ids_of(*spec.bounds(index))
            is_same &= np.array_equal(stored.chunk(spec, index), ids)
            looked_at.add(file)
    if not is_same:
        raise other_graph(graph, str(stored.path))


def _most_at_once(graph: Graph, kernel: str, listed: int, limit_bytes: int, threads: int) -> int:
    """Answers of a pass for which memory has room; MemoryBudgetError if it has none for one.

    ``listed``: see `_Accepted`.
    """
    count, source = graph.vertices, StoredEdges(graph, ORDER_OF[kernel] == LIGHT)
    # With what is there of edges, and ids that have gaps.
    needed = source.memory_bytes(threads) + threads * THREAD_BYTES
    needed += 0 if graph.first_id is not None else 8 * count
    if kernel in ALONE:
        needed += 8 * count + ALONE[kernel](VertexIndex.dense(0, count), threads)
        needed += LISTED_BYTES * listed
        most = int(needed <= limit_bytes)
    else:
        # Levels may need four bytes.
        levels = np.dtype(np.uint32)
        dtype = distances_of(graph.weight_dtype) if kernel == "sssp" else levels
        needed += (8 + dtype.itemsize) * count
        most = most_at_once(count, dtype, limit_bytes - needed)
        needed += batch_bytes(count, 1, dtype)
    if not most:
        name = PAGERANK if kernel == WEIGHTED_PAGERANK else kernel
        raise MemoryBudgetError(
            f"validating {name} needs {needed:,} bytes, the limit is {limit_bytes:,}: give more"
        ).needing(needed)
    return most


@dataclass(frozen=True)
class _Accepted:
    """An answer, a stored one as its path, and its kernel.

    ``listed``: how many vertices PageRank was given with chances.
    """

    kernel: str
    answer: Answer
    listed: int


def _accepted(graph: Graph, answer: Answer) -> _Accepted:
    """What can be validated; what is no answer of the graph is refused."""
    try:
        result = answer if isinstance(answer, Result) else Result.open(answer)
    except CorruptStoreError as error:
        _raise_damaged(error, [answer])
    stored = result.columns if isinstance(result.columns, Stored) else None
    name = name_of(result)
    if isinstance(result, PairsResult):
        raise UsageError(
            f"{name}: has many sources; give answers of bfs, sssp, components or pagerank"
        )
    require_unlimited(result, name)
    kernel, listed = result.kernel, 0
    if isinstance(result, PagerankResult):
        if result.asked is None:
            raise UsageError(f"{name}: does not say what was asked; rank again to validate")
        kernel = WEIGHTED_PAGERANK if result.asked.weighted else PAGERANK
        listed = result.asked.listed
    if ORDER_OF[kernel] == LIGHT and not graph.weighted:
        has = "has distances" if kernel == "sssp" else "counts weights"
        raise UsageError(f"{name}: {has}, and {graph.name} holds no weights")
    unread = result.unread
    if stored is not None:
        is_other = stored.attributes["graph_sha256"] != graph.content_sha256
    elif unread is not None and unread.graph_sha256 == graph.content_sha256:
        is_other = False
    else:
        # Also one that is unread: a read changes no verdict.
        is_other = not VertexIndex.ascending(result.on_host(VERTEX)).same_as(vertices_of(graph))
    if is_other:
        raise other_graph(graph, name)
    return _Accepted(kernel, result if stored is None else stored.path, listed)


def other_graph(graph: Graph, name: str) -> InputError:
    """The error of an answer that is not of the graph."""
    return InputError(
        f"is an answer of another graph than {graph.name}",
        path=name,
        advice="give the graph that was searched, or search again",
    )


def _raise_damaged(error: CorruptStoreError, answers: Sequence[object]) -> NoReturn:
    """Raise the error, or one of bad input if it is about an answer."""
    stores = (os.path.abspath(one) for one in answers if isinstance(one, Path))  # noqa: PTH100
    # A file of the store or the store itself, not one whose name begins as that does.
    if str(error).startswith(tuple(store + end for store in stores for end in "/:")):
        raise InputError(str(error)) from error
    raise error
