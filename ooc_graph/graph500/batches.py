"""Batches of Graph500's searches by one rank, the memory beside them, and their energy.

Also the least memory of a run by one process on the CPU, before anything is built.
"""

from __future__ import annotations

from math import comb, exp, sqrt
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import parent_id_dtype
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.graph500 import on_device
from ooc_graph.graph500.run import BatchTask, Graph500Options, Run, Searched
from ooc_graph.layout.names import id_dtype, internal_dtype
from ooc_graph.memory.cpu.plan import Facts, least_bytes
from ooc_graph.memory.heads import Lengths
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.strategy import DISK, MEMORY, PINNED
from ooc_graph.report.data import EnergyRecord
from ooc_graph.report.energy import EnergyMeter, energy_record, over_repeats
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.runtime.validation import THREAD_BYTES
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import run_search
from ooc_graph.shards.load import Graph
from ooc_graph.shards.plan import LEAST_SLOT_BYTES, RENUMBER_BYTES, RESERVE_BYTES
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


def may_wait(run: Run, graph: Graph, kernel: str) -> bool:
    """Whether this process has memory for the answers of all kernels, beside a kernel's searches.

    They then wait for one pass over the edges.
    """
    options, workplace = run.options, run.workplace
    is_local = workplace.client is None and workplace.device.name == CPU
    if not options.validate or len(options.kernels) == 1 or not is_local:
        return False
    dtypes = [_MEASURES[one] for one in options.kernels]
    needed = resident_bytes(graph, kernel) + _answer_bytes(graph, kernel) + cores() * THREAD_BYTES
    needed += sum(batch_bytes(graph.vertices, options.searches, dtype) for dtype in dtypes)
    if options.searches == 1:  # no batch has a copy of its only answer's values
        needed += sum(
            graph.vertices * measure_dtype(graph, one).itemsize for one in options.kernels
        )
    return needed <= workplace.resources(on_cpu=True).process_limit_bytes


def is_dealt(plan: Plan, run: Run) -> bool:
    """Whether all workers search, each with all rows, an answer and its validation in memory."""
    resources = run.workplace.resources(on_cpu=True)
    is_in_memory = plan.device == CPU and plan.strategy.tier == MEMORY
    needed = plan.reserved.host_bytes + plan.request.answer_bytes
    return is_in_memory and resources.processes > 1 and needed <= resources.least_limit_bytes


def task_for(
    plan: Plan, run: Run, source: Kronecker, *, on_host: bool = False, in_files: bool = False
) -> BatchTask:
    """The batch as a plan has it carried out."""
    device_bytes = run.workplace.cuda_limits.device_bytes
    resources = run.workplace.resources(on_cpu=True)
    limit_bytes = resources.process_limit_bytes
    if is_dealt(plan, run):
        limit_bytes = resources.least_limit_bytes
    given = plan.task(), source, run.options.validate, device_bytes, on_host
    if not in_files:
        return BatchTask(*given, at_once=_at_once(plan, limit_bytes))
    return BatchTask(*given, at_once=_fitting(plan, limit_bytes), folder=str(run.folder.absolute()))


def _at_once(plan: Plan, available: int) -> int:
    """How many answers memory has room for while the graph is loaded."""
    answer_bytes = _answer_bytes(plan.graph, plan.request.kernel)
    return _fitting(plan, available - _rows_bytes(plan) - answer_bytes)


def _fitting(plan: Plan, available: int) -> int:
    """Answers that are validated together in so much memory, one at least."""
    left, dtype = available - cores() * THREAD_BYTES, _MEASURES[plan.request.kernel]
    return max(1, most_at_once(plan.graph.vertices, dtype, left))


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


# Graph500's initiator: the chance that a bit of an end is 0, and that it is in both ends, or 1.
_ZERO, _ONE, _BOTH_ZERO, _BOTH_ONE = 0.76, 0.24, 0.57, 0.05
# Distances in a row of the same scale from its mean, beyond which none was or will be seen.
_DEVIATIONS = 8
_WEIGHT_BYTES, _MEASURE_BYTES = 4, 4
_MOST_SHARDS = 64


def expected_rows(source: Kronecker) -> int:
    """Vertices with an arc: more than there are, by less than one in a hundred from scale 18 on.

    A vertex whose id has k bits of 1 is an end of an edge with the same chance as every other one.
    """
    vertices, mean, variance = 1 << source.scale, 0.0, 0.0
    edges = source.edge_factor * vertices
    for ones in range(source.scale + 1):
        zeros = source.scale - ones
        end, loop = _ZERO**zeros * _ONE**ones, _BOTH_ZERO**zeros * _BOTH_ONE**ones
        isolated = exp(-2 * edges * (end - loop))
        mean += comb(source.scale, ones) * (1 - isolated)
        variance += comb(source.scale, ones) * isolated * (1 - isolated)
    return min(vertices, int(mean + _DEVIATIONS * sqrt(variance)) + 1)


def least_by_part(source: Kronecker, options: Graph500Options) -> dict[str, int]:
    """Bytes that each part of a run needs at least; parts follow each other."""
    vertices = 1 << source.scale
    # One task renumbers; each thread sorts, with the new ids in memory once.
    numbering = RENUMBER_BYTES * vertices + LEAST_SLOT_BYTES
    sorting = internal_dtype(vertices).itemsize * vertices + cores() * LEAST_SLOT_BYTES
    parts = {"build": RESERVE_BYTES + max(numbering, sorting)}
    for kernel in options.kernels:
        parts[f"{kernel} search"] = least_bytes(_facts(source, kernel, packed=options.compress))
        if options.validate:
            parts[f"{kernel} validation"] = least_check_bytes(vertices, kernel)
    return parts


def describe(source: Kronecker, options: Graph500Options, limit_bytes: int) -> dict[str, int | str]:
    """The least of each part and of all, as a table of names and numbers."""
    parts = least_by_part(source, options)
    least = max(parts.values())
    return {
        "kernel": "graph500",
        "scale": source.scale,
        "budget": limit_bytes,
        **{f"least bytes: {name}": size for name, size in parts.items()},
        "least bytes: in all": least,
        "fits": "yes" if least <= limit_bytes else "no",
    }


def require_budget(source: Kronecker, options: Graph500Options, limit_bytes: int) -> None:
    """Refuse a limit that some part of a run cannot keep, with a MemoryBudgetError."""
    parts = least_by_part(source, options)
    part = max(parts, key=lambda name: parts[name])
    if parts[part] > limit_bytes:
        raise MemoryBudgetError(
            f"graph500 of scale {source.scale} needs at least {parts[part]:,} bytes in one process "
            f"(for {part}), which may use {limit_bytes:,}; raise --memory-limit"
        )


def _facts(source: Kronecker, kernel: str, *, packed: bool) -> Facts:
    """What a plan depends on, of rows that are all of the same length."""
    vertices, rows = 1 << source.scale, expected_rows(source)
    arcs = 2 * source.edge_factor * vertices
    id_bytes = id_dtype(rows).itemsize
    length: IntArray = np.array([-(-arcs // rows)], np.int64)
    side = Lengths(length, np.array([rows], np.int64))
    weight_bytes = _WEIGHT_BYTES if kernel == "sssp" else 0
    tables = id_bytes * vertices + 8 * rows
    given = vertices, rows, _MOST_SHARDS, id_bytes, weight_bytes, _MEASURE_BYTES, tables, (side,)
    return Facts(kernel, *given, packed_bits=8 * id_bytes if packed else 0)
