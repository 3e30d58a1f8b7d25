"""The searches of Graph500 on one CUDA device: search, validate and measure energy there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.graph500.run import BatchTask, Searched
from ooc_graph.kernels.cuda.runtime.modules import cuda, device_bytes, within_memory
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder, reached_tuples
from ooc_graph.model.engine import Engine
from ooc_graph.model.task import Trace, trace_of
from ooc_graph.types import IntArray
from ooc_graph.validate.cuda_loader import bytes_per_answer, largest_batch
from ooc_graph.validate.cuda_validator import CudaBfsValidator, CudaSsspValidator

_BLOCK_EDGES = 1 << 26
_EDGE_BYTES = 13  # two ends and a weight, and whether it is odd


def search_batch(task: BatchTask, keys: IntArray) -> list[Searched]:
    """Search from each key and validate the answers, in as few passes over the edges as fit."""
    with task.engine() as engine, within_memory(f"{task.kernel} of Graph500"):
        found = _timed(task, engine, keys)
        return found if task.kernel == "sssp" else _with_levels(engine, keys, found)


def _timed(task: BatchTask, engine: Engine, keys: IntArray) -> list[Searched]:
    tuples = on_device(engine.tuples)
    if not task.validate:
        return [one for one, _ in _searches(engine, tuples, keys)]
    vertices = engine.graph.vertices
    order = OriginalOrder(engine.ids.internal_of)
    # Beside the batch are the answer that it takes next, by original ids, and a block of tuples.
    beside = bytes_per_answer(vertices, task.kernel)
    beside += _EDGE_BYTES * min(_BLOCK_EDGES, task.source.edges)
    free = _free_bytes(task.device_limit_bytes)
    size = largest_batch(vertices, task.kernel, free=free, beside=beside)
    batches = [keys[start : start + size] for start in range(0, len(keys), size)]
    given = task, engine, tuples, order
    return [one for batch in batches for one in _validated(*given, batch)]


def _free_bytes(limit_bytes: int | None) -> int | None:
    """What a limit leaves beside the search, or the device has; None: all that it has."""
    if limit_bytes is None:
        return None
    used = int(cuda().get_default_memory_pool().used_bytes())
    return max(0, min(device_bytes()[0], limit_bytes - used))


def _validated(
    task: BatchTask, engine: Engine, tuples: Any, order: OriginalOrder, keys: IntArray
) -> Iterator[Searched]:
    begun = perf_counter()
    kind = CudaBfsValidator if task.kernel == "bfs" else CudaSsspValidator
    validator = kind(engine.graph.vertices, len(keys))
    found, columns, searching_s = [], None, 0.0
    for one, tree in _searches(engine, tuples, keys):
        searching_s += one.trace.elapsed_s
        measure = tree.level if task.kernel == "bfs" else tree.distance
        if columns is not None and columns[1].dtype != measure.dtype:
            columns = None
        columns = order.columns(tree.parent, measure, columns)
        validator.add(one.root, *columns)
        found.append(one)
    for block in _blocks(task.source):
        validator.block(*block)
    verdicts = validator.finish()
    each = (perf_counter() - begun - searching_s) / len(keys)
    for one, verdict in zip(found, verdicts, strict=True):
        yield replace(one, verdict=verdict, validate_s=each)


def _searches(engine: Engine, tuples: Any, keys: IntArray) -> Iterator[tuple[Searched, Any]]:
    """Search as the answers are asked for; each tree is valid until the next."""
    for key, root in zip(keys.tolist(), _internal(engine, keys), strict=True):
        tree = engine.search.run_on_device(root)
        phases = trace_of("sssp", tree).levels if engine.kernel == "sssp" else ()
        reached, ends = reached_tuples(tree.parent, tuples)
        yield Searched(key, Trace(tree.elapsed_s, phases), None, 0.0, ends // 2, reached), tree


def _internal(engine: Engine, keys: IntArray) -> list[int]:
    """Internal ids of search keys, which all have arcs."""
    first = engine.graph.first_id or 0
    internal: list[int] = engine.ids.internal_of[keys - first].tolist()
    return internal


def with_levels(task: BatchTask, keys: IntArray, found: list[Searched]) -> list[Searched]:
    """Searches whose answers went to host memory, with the levels of each BFS and their arcs.

    Of an SSSP, and where arcs stay in the store, they are known already.
    """
    with task.engine() as engine, within_memory(f"{task.kernel} of Graph500"):
        if engine.kernel != "bfs" or engine.io_stats is not None:
            return found
        return _with_levels(engine, keys, found)


def _with_levels(engine: Engine, keys: IntArray, found: list[Searched]) -> list[Searched]:
    """The same with the levels of each BFS and their arcs.

    Arcs are counted in searches of their own, which are not timed. They come after all that are:
    whoever searches from a root again finds much of the graph in the device's caches.
    """
    engine.search.count_arcs(on=True)
    traces = [
        replace(one.trace, levels=_levels(engine, root))
        for one, root in zip(found, _internal(engine, keys), strict=True)
    ]
    engine.search.count_arcs(on=False)
    return [replace(one, trace=trace) for one, trace in zip(found, traces, strict=True)]


def _levels(engine: Engine, root: int) -> tuple[tuple[int | None, int, str], ...]:
    engine.search.run_on_device(root)
    levels = engine.search.level_trace()
    arcs = (levels["pushed"] + levels["examined"])[1:].tolist()
    directions = ["pull" if pull else "push" for pull in levels["pull"][1:]]
    return tuple(zip(levels["found"][:-1].tolist(), arcs, directions, strict=True))


def _blocks(source: Kronecker) -> Iterator[tuple[Any, Any, Any]]:
    """All tuples, made on the device block by block in the same arrays."""
    cupy = cuda()
    size = min(_BLOCK_EDGES, source.edges)
    ids = np.uint32 if source.scale <= 32 else np.int64
    ends = cupy.empty(size, ids), cupy.empty(size, ids)
    weight = cupy.empty(size, np.float32) if source.weighted else None
    for start in range(0, source.edges, size):
        count = min(size, source.edges - start)
        block = ends[0][:count], ends[1][:count], None if weight is None else weight[:count]
        source.generate_into(start, *block)
        yield block


def search_from_all(engine: Engine, keys: IntArray) -> None:
    """Search once from every key; the answers are dropped.

    To the same end as those that were timed: where arcs stay in the store, in host memory.
    """
    search = engine.search.run_on_device if engine.io_stats is None else engine.search.run
    for root in _internal(engine, keys):
        search(root)


def device_id() -> str:
    """PCI bus id of the current device, as NVML knows it."""
    runtime = cuda().cuda.runtime
    return str(runtime.deviceGetPCIBusId(cuda().cuda.Device().id))
