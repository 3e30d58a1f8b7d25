"""Batches of Graph500's searches by one rank, the memory beside them, and their energy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.answers.scatter import parent_id_dtype
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.graph500 import on_device
from ooc_graph.graph500.run import BatchTask, Run, Searched
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import DISK, PINNED
from ooc_graph.report.data import EnergyRecord
from ooc_graph.report.energy import EnergyMeter, energy_record, over_repeats
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.runtime.validation import THREAD_BYTES
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import run_search
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import measure_dtype
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda.pinned_budgets import pinned_bytes
from ooc_graph.threads import cores
from ooc_graph.types import IntArray
from ooc_graph.validate.batch import batch_bytes, most_at_once

_PARENT_BYTES = 8  # a vertex
# Host memory a row beside its arcs and a vertex, where a CUDA device searches: id tables, the tree.
_ROW_BYTES, _TABLE_BYTES = 48, 12
_MOST_AT_ONCE = 32
_MEASURES: dict[str, np.dtype[Any]] = {"bfs": np.dtype(np.uint8), "sssp": np.dtype(np.float32)}


def check_bytes(graph: Graph, kernel: str) -> int:
    """Memory of an answer and its validation, beside its search."""
    return _answer_bytes(graph, kernel) + least_check_bytes(graph.vertices, kernel)


def _answer_bytes(graph: Graph, kernel: str) -> int:
    columns = graph.vertices * (_PARENT_BYTES + measure_dtype(graph, kernel).itemsize)
    return columns + graph.rows * parent_id_dtype(graph.vertices).itemsize


def least_check_bytes(vertices: int, kernel: str) -> int:
    """Memory that the validation of an answer takes beside its columns."""
    return batch_bytes(vertices, 1, _MEASURES[kernel]) + cores() * THREAD_BYTES


def task_for(
    plan: Plan, run: Run, source: Kronecker, *, on_host: bool = False, in_files: bool = False
) -> BatchTask:
    """The batch as a plan has it carried out."""
    device_bytes = run.workplace.cuda_limits.device_bytes
    limit_bytes = run.workplace.resources(on_cpu=True).process_limit_bytes
    given = plan.task(), source, run.options.validate, device_bytes, on_host
    if not in_files:
        return BatchTask(*given, at_once=_at_once(plan, limit_bytes))
    return BatchTask(*given, at_once=_fitting(plan, limit_bytes), folder=str(run.folder))


def _at_once(plan: Plan, available: int) -> int:
    """How many answers memory has room for while the graph is loaded."""
    answer_bytes = _answer_bytes(plan.graph, plan.request.kernel)
    return _fitting(plan, available - _rows_bytes(plan) - answer_bytes)


def _fitting(plan: Plan, available: int) -> int:
    """Answers that one pass over the edges validates in so much memory, one at least."""
    left, dtype = available - cores() * THREAD_BYTES, _MEASURES[plan.request.kernel]
    return max(1, most_at_once(plan.graph.vertices, dtype, left, _MOST_AT_ONCE))


def _rows_bytes(plan: Plan) -> int:
    """Host memory of a graph that is searched."""
    graph, kernel, reserved = plan.graph, plan.request.kernel, plan.reserved
    if plan.device == CPU:
        return resident_bytes(graph, kernel)
    tables = graph.rows * _ROW_BYTES + graph.vertices * _TABLE_BYTES
    if plan.strategy.tier == PINNED:
        return tables + pinned_bytes(graph, kernel)
    if plan.strategy.tier == DISK:
        facts = cuda_disk.known_facts(graph, kernel)
        pinned = cuda_disk.plan_within(facts, reserved.device_bytes, reserved.host_bytes)
        return tables + pinned.host_bytes
    return tables


def measure_energy(
    run: Run, task: BatchTask, keys: IntArray, searched: list[Searched]
) -> EnergyRecord:
    """Energy of searches from all keys, where a counter can be read; else why there is none."""
    times_s = [one.trace.elapsed_s for one in searched]
    teps = teps_statistics(times_s, [one.edges for one in searched]).harmonic_mean
    with run.progress.stage(f"{task.kernel}: energy"):
        record: EnergyRecord = run.timed(
            f"{task.kernel} energy", lambda: run.workplace.call(repeat_searches, task, keys, teps)
        )
    return record


def repeat_searches(task: BatchTask, keys: IntArray, teps: float) -> EnergyRecord:
    """Search from all keys again and again; runs on the worker."""
    with task.engine() as engine:
        if task.device == CUDA:
            meter = EnergyMeter([on_device.device_id()])
            energy, turns = over_repeats(meter, lambda: on_device.search_from_all(engine, keys))
        else:

            def turn() -> None:
                for key in keys.tolist():
                    run_search(engine, key)

            energy, turns = over_repeats(EnergyMeter(), turn)
    return energy_record(task.kernel, teps, turns * len(keys), energy)
