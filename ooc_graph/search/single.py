"""One search: on one rank that holds the whole graph, or on the ranks of a cluster."""

from __future__ import annotations

import operator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ooc_graph.answers.result import BfsResult, SsspResult, TreeResult, result_attributes
from ooc_graph.errors import UsageError
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.model.kernel import ORDER_OF, ROWS
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import ONE
from ooc_graph.model.resources import CUDA
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.runtime import engine_cache, io_progress
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import TREES
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.trees import CUPY, NUMPY, answer_bytes, answer_lonely, measure_dtype
from ooc_graph.types import Progress

KERNELS = ("bfs", "sssp")


def _say(progress: Progress, notes: tuple[str, ...]) -> None:
    for note in notes:
        progress.note(note)


def search(
    graph: Graph,
    kernel: str,
    root: int,
    *,
    place: Place,
    progress: Progress,
    out: Path | None = None,
    exchange: str = "auto",
    method: str = ROWS,
    overwrite: bool = False,
    arrays: str = NUMPY,
) -> TreeResult:
    """Search from one vertex and give the answer, or write it.

    Raises
    ------
    UnknownVertexError, UsageError, NegativeWeightError, MemoryBudgetError, OutputExistsError
        Before anything is written.
    DeviceError, DeviceBusyError
        If CUDA was asked for, and is not there or others use it; nothing is written then.
    CorruptStoreError
        If a chunk is not as the manifest says; nothing is written then either.
    """
    engine_cache.require_same(graph.path, graph.identity)
    graph.require(ORDER_OF[kernel])
    root = _as_id(root)
    graph.position_of(root)
    held_bytes = 0 if out is not None else answer_bytes(graph, kernel, arrays)
    request = Request(kernel, exchange, method, held_bytes, arrays == CUPY)
    first = plan_at(place, graph, request)
    _require_arrays(arrays, first, place, out)
    writing = nullcontext() if out is None else partial_store(out, "result", overwrite=overwrite)
    told = io_progress.told(graph.identity, f"{kernel} from {root}", place.client, progress)
    with writing as store, progress.stage(f"{kernel} from {root}"), told:

        def run(found: Plan) -> Written:
            return search_by(found, root, place, _folder(store))

        written = execute(first, place, progress, run)
        _say(progress, written.notes)
        if store is not None:
            dtype = measure_dtype(graph, kernel)
            attributes = result_attributes(kernel, root, graph.content_sha256, dtype)
            store.commit("result", attributes, written.specs, written.entries)
    if out is not None:
        return replace(TreeResult.open(out), elapsed_s=written.course.elapsed_s)
    return tree_of(kernel, root, written)


def _as_id(source: Any) -> int:
    try:
        return operator.index(source)
    except TypeError:
        raise UsageError(f"source {source!r}: give one vertex id, an integer") from None


def _folder(store: Partial | None) -> str | None:
    return None if store is None else str(store.folder)


def _require_arrays(arrays: str, found: Plan, place: Place, out: Path | None) -> None:
    if arrays not in (NUMPY, CUPY):
        raise UsageError(f"arrays {arrays!r}: choose {NUMPY} or {CUPY}")
    if arrays == NUMPY:
        return
    if place.client is not None or out is not None:
        raise UsageError(
            "arrays='cupy' leaves the answer on this process's device: leave client= and out= out"
        )
    if found.device == CUDA and found.reserved.exchange == ONE:
        return
    where = found.why.removeprefix(f"{found.request.kernel} ") or "on the CPU"
    if found.device == CUDA:
        where = f"by ranks, exchange {found.reserved.exchange}"
    raise UsageError(
        f"arrays='cupy' needs a search by one rank on a CUDA device, and this one is {where}"
    )


def search_by(found: Plan, root: int, place: Place, folder: str | None = None) -> Written:
    """Search from one vertex by a plan; into a partial store's folder, if there is one."""
    return _carry_out(found.graph, found.task(root, folder), place)


def tree_of(kernel: str, root: int, written: Written) -> TreeResult:
    """The answer whose columns came back."""
    kind = BfsResult if kernel == "bfs" else SsspResult
    return kind(root, written.course.elapsed_s, dict(written.columns or {}))


def _carry_out(graph: Graph, task: SearchTask, place: Place) -> Written:
    if graph.internal(task.root) < 0:
        return place.call(answer_lonely, task)
    return TREES[task.kernel].carry_out(graph, task, place)
