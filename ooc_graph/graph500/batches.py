"""Batches of Graph500's searches by one rank, the memory beside them, and their energy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.graph500 import on_device
from ooc_graph.graph500.run import BatchTask, Run, Searched
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import DISK, PINNED
from ooc_graph.report.data import EnergyRecord
from ooc_graph.report.energy import EnergyMeter, energy_record, over_repeats
from ooc_graph.report.statistics import teps_statistics
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import run_search
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda.pinned_budgets import pinned_bytes
from ooc_graph.threads import cores
from ooc_graph.types import IntArray
from ooc_graph.validate.batch import batch_bytes

# Where rows are not all where they are searched: bytes a vertex of an answer's columns, and of
# tuples and a copy of those of rows reached; and of the edges that each thread looks at.
_COLUMNS_BYTES, _TUPLES_BYTES, _CHECK_BLOCK_BYTES = 24, 17, 8 << 20
# Host memory a row beside its arcs and a vertex, where a CUDA device searches: id tables, the tree.
_ROW_BYTES, _TABLE_BYTES = 48, 12
_MOST_AT_ONCE = 32
_MEASURES: dict[str, np.dtype[Any]] = {"bfs": np.dtype(np.uint8), "sssp": np.dtype(np.float32)}


def answer_bytes(graph: Graph) -> int:
    """Memory beside a search whose rows are not in it: an answer, and tuples at each row."""
    return graph.vertices * _COLUMNS_BYTES + graph.rows * _TUPLES_BYTES


def check_bytes(graph: Graph) -> int:
    """As `answer_bytes`, with what its validation takes."""
    one = batch_bytes(graph.vertices, 1, _MEASURES["sssp"])
    return answer_bytes(graph) + one + cores() * _CHECK_BLOCK_BYTES


def task_for(plan: Plan, run: Run, source: Kronecker, *, on_host: bool = False) -> BatchTask:
    """The batch as a plan has it carried out."""
    device_bytes = run.workplace.cuda_limits.device_bytes
    limit_bytes = run.workplace.resources(on_cpu=True).process_limit_bytes
    given = plan.task(), source, run.options.validate, device_bytes, on_host
    return BatchTask(*given, at_once=_at_once(plan, limit_bytes))


def _at_once(plan: Plan, available: int) -> int:
    """Answers held at a time, in what the graph leaves of the worker's memory."""
    graph, kernel = plan.graph, plan.request.kernel
    if plan.device == CPU and plan.strategy.tier == DISK:
        return 1  # what is beside the arcs that are held has room for one answer
    if plan.device == CPU:
        rows = resident_bytes(graph, kernel)
    else:
        rows = graph.rows * _ROW_BYTES + graph.vertices * _TABLE_BYTES + _rows_bytes(plan)
    left = available - rows - check_bytes(graph)
    each = (batch_bytes(graph.vertices, n, _MEASURES[kernel]) for n in range(2, _MOST_AT_ONCE + 1))
    alone = batch_bytes(graph.vertices, 1, _MEASURES[kernel])
    return 1 + sum(many - alone <= left for many in each)


def _rows_bytes(plan: Plan) -> int:
    """Host memory of rows that a CUDA device searches."""
    graph, kernel, reserved = plan.graph, plan.request.kernel, plan.reserved
    if plan.strategy.tier == PINNED:
        return pinned_bytes(graph, kernel)
    if plan.strategy.tier == DISK:
        facts = cuda_disk.known_facts(graph, kernel)
        return cuda_disk.plan_within(facts, reserved.device_bytes, reserved.host_bytes).host_bytes
    return 0


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
