"""The searches of Graph500, each from its key, and the validation of their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.graph500 import on_device
from ooc_graph.graph500.batches import check_bytes, is_dealt, may_wait, measure_energy, task_for
from ooc_graph.graph500.on_host import (
    SEARCHED,
    remove_filed,
    search_dealt,
    search_there,
    warm_up,
)
from ooc_graph.graph500.run import BatchTask, Run, Searched
from ooc_graph.graph500.tiers import describe_engine, tier_facts, where_rows_are
from ooc_graph.graph500.waiting import Waiting
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import DEVICE, HOST, said_by
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import DISK, MEMORY
from ooc_graph.model.task import Trace
from ooc_graph.report.data import EnergyRecord
from ooc_graph.runtime import io_progress
from ooc_graph.runtime.validation import check
from ooc_graph.search.execute import execute, plan_at, try_plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.search.single import result_of, search_by
from ooc_graph.shards.load import Graph
from ooc_graph.shards.workforce import run_all
from ooc_graph.types import Advance, IntArray, unseen
from ooc_graph.validate.cuda_batch import MOST_VERTICES


def search_all(
    run: Run,
    graph: Graph,
    source: Kronecker,
    kernel: str,
    keys: IntArray,
    waiting: Waiting | None = None,
) -> tuple[list[Searched], list[EnergyRecord]]:
    """Search from all keys, timed, and validate: in batches by one rank each, else key by key.

    The searches, and their energy, measured over repeats of them; nothing if many ranks search.
    Answers join those that are ``waiting`` if memory has room for all, else these are validated.
    """
    # Validation has the memory that another kernel's searches would keep.
    run.workplace.release()
    if waiting is not None and not may_wait(run, graph, kernel):
        waiting.validate(run, source)
        waiting = None
    remove_filed(run.folder)
    first = run.timed(f"{kernel} plan", lambda: _plan(run, graph, kernel))
    searches = _Searches(run, source, kernel, keys, waiting)
    with io_progress.reported(graph.identity, kernel, run.workplace.client, run.progress):
        return execute(first, run.workplace, run.progress, searches.run, searches.ease)


def _plan(run: Run, graph: Graph, kernel: str) -> Plan:
    """The first plan, with room for an answer and its validation if all rows stay in memory.

    If they do not, searches have all memory: answers wait in files, and are validated when the
    graph is released.
    """
    alone = Request(kernel)
    if not run.options.validate:
        return plan_at(run.workplace, graph, alone)
    try:
        first = try_plan_at(
            run.workplace, graph, Request(kernel, answer_bytes=check_bytes(graph, kernel))
        )
    except MemoryBudgetError:
        return plan_at(run.workplace, graph, alone)
    return plan_at(run.workplace, graph, alone) if _is_in_store(first) else first


def _is_in_store(plan: Plan) -> bool:
    """Whether one process searches on the CPU, with arcs in the store."""
    return plan.device == CPU and plan.strategy.tier == DISK and not plan.reserved.is_of_ranks


class _Searches:
    """The searches of a kernel: what is found survives a change of plan on its device."""

    def __init__(
        self,
        run: Run,
        source: Kronecker,
        kernel: str,
        keys: IntArray,
        waiting: Waiting | None,
    ) -> None:
        self._run, self._source, self._kernel, self._keys = run, source, kernel, keys
        self._waiting = waiting
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
        if kind == HOST and self._waiting is not None and self._waiting.validators:
            self._waiting.validate(self._run, self._source)
            return f"{self._kernel}: answers of other searches were validated first: {why}"
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
        run.timed(f"{self._kernel} warm-up", lambda: search(self._keys[:1], unseen))
        return self._all_batches(search, 1)

    def _in_batches(self, plan: Plan) -> tuple[list[Searched], list[EnergyRecord]]:
        run, kernel, keys, call = self._run, self._kernel, self._keys, self._run.workplace.call
        in_files = run.options.validate and not plan.request.answer_bytes
        task = task_for(plan, run, self._source, on_host=self._on_host, in_files=in_files)
        with run.progress.stage(f"{kernel}: loading, warming up"):
            run.timed(f"{kernel} warm-up", lambda: call(warm_up, task, int(keys[0])))
        self._task = task
        if said := where_rows_are(task):
            run.progress.note(said)
        if not in_files and is_dealt(plan, run):
            found = self._dealt(task)
        else:
            size = len(keys) if task.stays_there else task.at_once
            is_one_batch = task.tier == MEMORY and len(keys) <= size and not self._found
            waiting = self._waiting if is_one_batch else None
            found = self._all_batches(partial(search_there, run, task, waiting), size)
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

    def _dealt(self, task: BatchTask) -> list[Searched]:
        """Deal the keys that are left to the workers, in as few batches as memory allows."""
        run, keys = self._run, self._keys[len(self._found) :]
        each = -(-len(keys) // run.workplace.resources(on_cpu=True).processes)
        size = -(-each // -(-each // task.at_once))
        items = [(task, keys[start : start + size]) for start in range(0, len(keys), size)]

        def all_batches() -> None:
            stage = f"{self._kernel}: searching, validating"
            with run.workplace.workforce() as workforce:
                batches = run_all(
                    workforce,
                    run.progress,
                    stage,
                    search_dealt,
                    items,
                    total=len(keys),
                    unit="searches",
                    amount=len,
                )
            self._found.extend(one for batch in batches for one in batch)

        try:
            run.timed(f"{self._kernel} searches", all_batches)
        except (MemoryError, MemoryBudgetError):
            # One worker searches from now on; what the others still do has had a minute to end.
            run.workplace.release()
            raise
        return self._found

    def _all_batches(
        self, search: Callable[[IntArray, Advance], list[Searched]], size: int
    ) -> list[Searched]:
        """Search from the keys that are left, so many at a time."""
        run, keys, found = self._run, self._keys, self._found

        def all_batches() -> None:
            stage = f"{self._kernel}: searching, validating"
            with run.progress.stage(stage, len(keys), "searches") as bar:
                bar.advance(len(found))
                while (start := len(found)) < len(keys):
                    found.extend(search(keys[start : start + size], bar.advance))

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


def _search_one(
    run: Run, plan: Plan, source: Kronecker, keys: IntArray, advance: Advance
) -> list[Searched]:
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
        advance(1)
        return [one]
    advance(SEARCHED)
    begun, edge = perf_counter(), (1 - SEARCHED) / source.edges
    verdict = check(result, source, lambda edges: advance(edges * edge))
    return [replace(one, verdict=verdict, validate_s=perf_counter() - begun)]
