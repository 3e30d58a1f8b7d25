"""Searches by the ranks of a graph: their coroutines, and one answer of what each found."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Tree
from ooc_graph.kernels.common.devices import rank_of
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course, course_of, slowest
from ooc_graph.runtime import engine_cache, process
from ooc_graph.runtime.warmup import RANKS, warm
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tables import save
from ooc_graph.sinks.trees import deliver, lonely_tree, measure_dtype
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray, Dealing


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's coroutines; the shards it loads stay on the worker for the next search."""

    task: SearchTask
    internal: int

    def __call__(self, shards: Sequence[int]) -> tuple[dict[int, Any], Any]:
        """Coroutines of these shards and what they share."""
        from ooc_graph.exchange import scheduler  # noqa: PLC0415 (imports distributed)

        return self.build(shards, engine_cache.Ranks(scheduler.worker_state()))

    def build(self, shards: Sequence[int], kept: engine_cache.Ranks) -> tuple[dict[int, Any], Any]:
        """As the call, with ranks that are taken from ``kept`` and go back there."""
        engine_cache.release()
        graph = engine_cache.open_same(self.task.path, self.task.identity)
        if self.task.device == CPU:
            warm(self.task.kernel, graph, process.device(), variant=RANKS)
        key = (self.task.path, self.task.identity, self.task.kernel, self.task.device)
        kept.keep_only(key, shards)
        ranks = {shard: kept.take(key, shard) for shard in shards}
        missing = [shard for shard in shards if ranks[shard] is None]
        if self.task.device == CUDA:
            there = [shard for shard in shards if shard not in missing]
            needed = rank_memory.ranks_bytes(graph, self.task.kernel, missing, there)
            cuda_modules.require_memory(needed, f"{self.task.kernel} on {graph.path}")
        ranks |= {shard: self._rank(graph, shard) for shard in missing}
        coroutines, shared = self._coroutines(graph, ranks)
        return {
            shard: _timed(coroutine, partial(kept.put_back, key, shard, ranks[shard]))
            for shard, coroutine in coroutines.items()
        }, shared

    def _rank(self, graph: Graph, shard: int) -> Any:
        rows = graph.load(ORDER_OF[self.task.kernel], shard)
        return rank_of(process.device(self.task.device), self.task.kernel)(rows)

    def _coroutines(self, graph: Graph, ranks: dict[int, Any]) -> tuple[dict[int, Any], Any]:
        device = process.device(self.task.device)
        if self.task.kernel == "bfs":
            shared: Any = device.bfs_shared(graph.rows, graph.shards)
            algorithm: Any = bfs
        else:
            shared = device.sssp_shared(graph.rows, measure_dtype(graph, "sssp"))
            algorithm = sssp
        return {
            shard: algorithm(rank, self.internal, shared) for shard, rank in ranks.items()
        }, shared


def _timed(coroutine: Any, put_back: Callable[[], None]) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has the seconds from first step to last, and arrays of its own."""
    start = perf_counter()
    try:
        tree = yield from coroutine
        return replace(tree.copy(), elapsed_s=perf_counter() - start)
    finally:
        # Two runs at once on a worker must not have the same rank: it is free only now.
        put_back()


@dataclass(frozen=True)
class WritePart:
    """Writes a rank's part of the answer where the gathering task finds it."""

    folder: str

    def __call__(self, shard: int, tree: Any) -> Course:
        """Write it; only the course travels."""
        kernel = "bfs" if hasattr(tree, "level") else "sssp"
        measure = tree.level if kernel == "bfs" else tree.distance
        save(Path(self.folder), f"{shard}-parent", tree.parent)
        save(Path(self.folder), f"{shard}-measure", measure)
        return course_of(kernel, tree)


def gather(task: SearchTask, courses: Sequence[Course]) -> Written:
    """Bring the parts together, in original order, in the partial store."""
    graph, parts = engine_cache.open_same(task.path, task.identity), task.parts
    columns = [
        (np.load(parts / f"{s}-parent.npy"), np.load(parts / f"{s}-measure.npy"))
        for s in range(graph.shards)
    ]
    tree = _join_columns(graph, task, columns)
    return deliver(task, graph, (tree, slowest(courses)))


def join(task: SearchTask, graph: Graph, trees: Sequence[Any]) -> Written:
    """Bring what every rank found together, in original order."""
    columns = [(t.parent, t.level if task.kernel == "bfs" else t.distance) for t in trees]
    courses = [course_of(task.kernel, tree) for tree in trees]
    return deliver(task, graph, (_join_columns(graph, task, columns), slowest(courses)))


def _join_columns(
    graph: Graph, task: SearchTask, columns: Sequence[tuple[AnyArray, AnyArray]]
) -> Tree:
    tree = lonely_tree(graph, task.kernel, task.root)
    for shard, (parent, measure) in enumerate(columns):
        mine = Dealing(graph.rows, graph.shards, shard).owned()
        tree.parent[mine], tree.measure[mine] = parent, measure
    return tree
