"""The searches of Graph500, each from its key, and the validation of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import TreeColumns
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.graph500 import on_device
from ooc_graph.graph500.batches import answer_bytes, check_bytes, measure_energy, task_for
from ooc_graph.graph500.run import BatchTask, Run, Searched
from ooc_graph.graph500.tiers import describe_engine, tier_facts, where_rows_are
from ooc_graph.layout.names import PARENT
from ooc_graph.model.engine import Engine
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import DEVICE, said_by
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY
from ooc_graph.model.task import Trace
from ooc_graph.report.data import EnergyRecord
from ooc_graph.runtime import io_progress
from ooc_graph.runtime.compile_parts import check_pair
from ooc_graph.runtime.process import thread_count
from ooc_graph.runtime.validation import TREES, check, check_edges
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.search.single import result_of, search_by
from ooc_graph.search.trees import run_search
from ooc_graph.shards.load import Graph
from ooc_graph.types import IntArray
from ooc_graph.validate import VertexIndex
from ooc_graph.validate.cuda_batch import MOST_VERTICES


def search_all(
    run: Run, graph: Graph, source: Kronecker, kernel: str, keys: IntArray
) -> tuple[list[Searched], list[EnergyRecord]]:
    """Search from all keys, timed, and validate: on one worker in batches, else key by key.

    The searches, and their energy, measured over repeats of them; nothing if many ranks search.
    """
    # Validation has the memory that another kernel's searches would keep.
    run.workplace.release()
    beside = check_bytes(graph) if run.options.validate else answer_bytes(graph)
    first = plan_at(run.workplace, graph, Request(kernel, answer_bytes=beside))
    searches = _Searches(run, source, kernel, keys)
    with io_progress.reported(graph.identity, kernel, run.workplace.client, run.progress):
        return execute(first, run.workplace, run.progress, searches.run, searches.ease)


class _Searches:
    """The searches of a kernel: what is found survives a change of plan on its device."""

    def __init__(self, run: Run, source: Kronecker, kernel: str, keys: IntArray) -> None:
        self._run, self._source, self._kernel, self._keys = run, source, kernel, keys
        self._found: list[Searched] = []
        self._task: BatchTask | None = None
        self._on_host, self._device = False, ""

    def run(self, plan: Plan) -> tuple[list[Searched], list[EnergyRecord]]:
        """Search from the keys that are left by a plan; all searches, and their energy."""
        # Of a plan that was given up.
        self._run.tiers.pop(self._kernel, None)
        self._task = None
        if plan.device != self._device:
            # Figures are of one device.
            self._found.clear()
            self._device = plan.device
        if why := _searched_one_by_one(plan, validated=self._run.options.validate):
            return self._one_by_one(plan, why), []
        return self._in_batches(plan)

    def ease(self, kind: str, why: str) -> str:
        """Take less of the device: answers go to host memory; says so, empty if they do already.

        What is refused once the graph has been searched is first of all what answers take there.
        """
        if kind != DEVICE or self._task is None or not self._task.stays_there:
            return ""
        self._on_host = True
        what = "validated on the CPU" if self._task.validate else "answers go to host memory"
        return f"{self._kernel} {what}: {why}"

    def _one_by_one(self, plan: Plan, why: str) -> list[Searched]:
        run = self._run
        if plan.device == CUDA and run.options.validate:
            run.progress.note(f"{self._kernel} validated on the CPU: {why}")
        search = partial(_search_one, run, plan, self._source)
        run.timed(f"{self._kernel} warm-up", lambda: search(self._keys[:1]))
        return self._all_batches(search, 1)

    def _in_batches(self, plan: Plan) -> tuple[list[Searched], list[EnergyRecord]]:
        run, kernel, keys, call = self._run, self._kernel, self._keys, self._run.workplace.call
        task = task_for(plan, run, self._source, on_host=self._on_host)
        with run.progress.stage(f"{kernel}: loading, warming up"):
            run.timed(f"{kernel} warm-up", lambda: call(warm_up, task, int(keys[0])))
        self._task = task
        if said := where_rows_are(task):
            run.progress.note(said)
        size = len(keys) if task.stays_there else task.at_once
        found = self._all_batches(partial(call, search_batch, task), size)
        self._task = None
        try:
            if task.tier != MEMORY:
                run.tiers[kernel] = tier_facts(call(describe_engine, task), found)
            if task.device == CUDA and not task.stays_there:
                # Last: whoever searches from a root again finds much of the graph in the device's
                # caches.
                found = call(on_device.with_levels, task, keys, found)
            energy = [measure_energy(run, task, keys, found)] if run.options.energy else []
        except (MemoryError, MemoryBudgetError, DeviceBusyError) as error:
            # The searches are done and validated; only these figures are missing.
            run.progress.note(f"{kernel}: levels or energy are left out: {said_by(error)}")
            energy = []
        return found, energy

    def _all_batches(
        self, search: Callable[[IntArray], list[Searched]], size: int
    ) -> list[Searched]:
        """Search from the keys that are left, so many at a time."""
        run, keys, found = self._run, self._keys, self._found

        def all_batches() -> None:
            stage = f"{self._kernel}: searching, validating"
            with run.progress.stage(stage, len(keys), "searches") as bar:
                bar.advance(len(found))
                while (start := len(found)) < len(keys):
                    found.extend(search(keys[start : start + size]))
                    bar.advance(len(found) - start)

        run.timed(f"{self._kernel} searches", all_batches)
        return found


def _searched_one_by_one(plan: Plan, *, validated: bool) -> str:
    """Why answers do not stay where they are found, in batches; empty if they do."""
    if plan.reserved.is_of_ranks:
        return "no rank has the whole answer"
    vertices = plan.graph.vertices
    if validated and plan.device == CUDA and vertices > MOST_VERTICES:
        return f"{vertices:,} vertices, of which a device takes {MOST_VERTICES:,} at most"
    return ""


def _search_one(run: Run, plan: Plan, source: Kronecker, keys: IntArray) -> list[Searched]:
    """One search, by ranks or by one that does not validate; the answer is validated here."""
    (key,) = keys.tolist()
    graph, kernel = plan.graph, plan.request.kernel
    result = result_of(kernel, key, search_by(plan, key, run.workplace))
    reached = result.reached
    internal = graph.internal_of()[reached]
    edges = int(graph.tuples()[internal[internal >= 0]].sum(dtype=np.int64)) // 2
    trace = Trace(result.elapsed_s or 0.0, ())
    one = Searched(key, trace, None, 0.0, edges, int(np.count_nonzero(reached)))
    if not run.options.validate:
        return [one]
    begun = perf_counter()
    verdict = check(result, source)
    return [replace(one, verdict=verdict, validate_s=perf_counter() - begun)]


def warm_up(task: BatchTask, key: int) -> None:
    """Load the graph, compile, and search once untimed, as the reference does."""
    with task.engine() as engine:
        run_search(engine, key)
    if task.validate and not task.stays_there:
        check_pair(task.kernel, task.source.weighted)


def search_batch(task: BatchTask, keys: IntArray) -> list[Searched]:
    """Search from each key and validate the answers, in as few passes over the edges as fit."""
    if task.stays_there:
        return on_device.search_batch(task, keys)
    with task.engine() as engine:
        batches = [keys[i : i + task.at_once] for i in range(0, len(keys), task.at_once)]
        return [one for batch in batches for one in _validated(task, engine, batch)]


def _validated(task: BatchTask, engine: Engine, keys: IntArray) -> list[Searched]:
    """Search from each key and validate the answers in one pass over the edges."""
    found: list[Searched] = []
    answers = _answers(engine, keys, found)
    if not task.validate:
        for _ in answers:
            pass
        return found
    _, kind, _ = TREES[task.kernel]
    threads = thread_count()
    validator = kind(answers, directed=False, count=len(keys), threads=threads)
    begun = perf_counter()
    verdicts = check_edges(validator, task.source, threads)
    each = (perf_counter() - begun) / len(keys)
    return [
        replace(one, verdict=verdict, validate_s=each)
        for one, verdict in zip(found, verdicts, strict=True)
    ]


def _answers(engine: Engine, keys: IntArray, found: list[Searched]) -> Iterator[Any]:
    """Search as the answers are asked for; what is known of each goes to ``found``."""
    graph = engine.graph
    vertices = VertexIndex.dense(graph.first_id or 0, graph.vertices)
    tuples = graph.tuples() if engine.tuples is None else engine.tuples
    for key in keys.tolist():
        before = engine.io_stats
        tree, trace = run_search(engine, key)
        io_stats = engine.read_since(before)
        reached = tree.parent != np.iinfo(tree.parent.dtype).max
        edges = int(tuples[reached].sum(dtype=np.int64)) // 2
        count = int(np.count_nonzero(reached))
        found.append(Searched(key, _counted(trace), None, 0.0, edges, count, io_stats))
        yield _answer(engine, key, tree, vertices)
        del tree


def _answer(engine: Engine, key: int, tree: Any, vertices: VertexIndex) -> Any:
    """What is validated; the caller alone has its columns."""
    answer, _, measure = TREES[engine.kernel]
    columns = TreeColumns(tree, engine.ids).in_memory()
    return answer(key, columns[PARENT], columns[measure], vertices)


def _counted(trace: Trace) -> Trace:
    """Without levels whose arcs were not counted on the way: that comes after all searches."""
    return replace(trace, levels=()) if any(arcs < 0 for _, arcs, _ in trace.levels) else trace
