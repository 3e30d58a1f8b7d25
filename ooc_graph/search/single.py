"""One search: on one rank that holds the whole graph, or on the ranks of a cluster."""

from __future__ import annotations

import operator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ooc_graph.answers.result import BfsResult, SsspResult, TreeResult, result_attributes
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.model.kernel import ORDER_OF, ROWS
from ooc_graph.model.request import Request
from ooc_graph.model.resources import CUDA
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.way import Way, refusal_of
from ooc_graph.runtime import engine_cache, io_progress
from ooc_graph.runtime.fallback import carry_out
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.plan import Plan, may_stay, on_cpu, plan
from ooc_graph.search.ranks import MakeRanks, WritePart, gather, join
from ooc_graph.search.ways import Ways
from ooc_graph.search.whole import search_whole
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
    request.require_together(place.wanted)
    first = plan(graph, request, place.resources(on_cpu=bool(request.only_on_cpu)))
    _require_arrays(arrays, first.way, place, out)
    writing = nullcontext() if out is None else partial_store(out, "result", overwrite=overwrite)
    told = io_progress.told(graph.identity, f"{kernel} from {root}", place.client, progress)
    with writing as store, progress.stage(f"{kernel} from {root}"), told:
        task = SearchTask(
            str(graph.path),
            graph.identity,
            kernel,
            root,
            _folder(store),
            method,
            first.device,
            arrays,
            pinned_bytes=place.cuda_limits.pinned_bytes,
            pins_if_busy=place.wanted == CUDA,
        )

        def run(found: Plan) -> Written:
            way = found.way
            chosen = replace(
                task,
                device=way.device,
                budget_bytes=way.budget_bytes,
                copies=way.copies,
                host_bytes=way.host_bytes,
                may_stay=may_stay(found),
            )
            return _carry_out(graph, chosen, way.exchange, place)

        def run_or_deal(found: Plan) -> Written:
            try:
                return run(found)
            except (MemoryBudgetError, MemoryError) as error:
                if (ranks := found.ranks()) is None:
                    raise
                progress.note(f"{kernel} {ranks.way.said}: {refusal_of(error)}")
            return run(ranks)

        def fall_back(why: str) -> Plan:
            return on_cpu(graph, request, place.resources(on_cpu=True), why)

        if arrays == CUPY:  # nothing else than the device will do
            written = run(first)
        else:
            written = carry_out(first, kernel, place, progress, run_or_deal, fall_back)
        _say(progress, written.notes)
        if store is not None:
            dtype = measure_dtype(graph, kernel)
            attributes = result_attributes(kernel, root, graph.content_sha256, dtype)
            store.commit("result", attributes, written.specs, written.entries)
    if out is not None:
        return replace(TreeResult.open(out), elapsed_s=written.course.elapsed_s)
    kind = BfsResult if kernel == "bfs" else SsspResult
    return kind(root, written.course.elapsed_s, dict(written.columns or {}))


def _as_id(source: Any) -> int:
    try:
        return operator.index(source)
    except TypeError:
        raise UsageError(f"source {source!r}: give one vertex id, an integer") from None


def _folder(store: Partial | None) -> str | None:
    return None if store is None else str(store.folder)


def _require_arrays(arrays: str, way: Way, place: Place, out: Path | None) -> None:
    if arrays not in (NUMPY, CUPY):
        raise UsageError(f"arrays {arrays!r}: choose {NUMPY} or {CUPY}")
    if arrays == NUMPY:
        return
    if place.client is not None or out is not None:
        raise UsageError(
            "arrays='cupy' leaves the answer on this process's device: leave client= and out= out"
        )
    if way.device != CUDA or way.exchange != "one":
        raise UsageError(
            f"arrays='cupy' needs a search by one rank on a CUDA device, and this one is {way.said}"
        )


def _carry_out(graph: Graph, task: SearchTask, chosen: str, place: Place) -> Written:
    internal = graph.internal(task.root)
    if internal < 0:
        return place.call(answer_lonely, task)
    ways = Ways(search_whole, join, WritePart, gather)
    return ways.carry_out(graph, task, MakeRanks(task, internal), chosen, place)
