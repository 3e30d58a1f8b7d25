"""BFS and SSSP by the ranks of a graph, and one tree of what each of them found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Tree
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course, course_of, slowest
from ooc_graph.runtime import engine_cache
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.search.whole import search_whole
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tables import save
from ooc_graph.sinks.trees import deliver, lonely_tree, measure_dtype
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray, Dealing, Shard


def bfs_rank(device: Any, rows: Shard) -> Any:
    """The steps of BFS on a rank's rows."""
    return device.bfs_rank(rows)


def sssp_rank(device: Any, rows: Shard) -> Any:
    """The steps of SSSP on a rank's rows."""
    return device.sssp_rank(rows)


def start_bfs(
    task: SearchTask, graph: Graph, ranks: dict[int, Any], device: Any
) -> tuple[dict[int, Any], Any]:
    """The coroutines of a worker's ranks, and what they share."""
    shared, root = device.bfs_shared(graph.rows, graph.shards), graph.internal(task.root)
    return {shard: bfs(rank, root, shared) for shard, rank in ranks.items()}, shared


def start_sssp(
    task: SearchTask, graph: Graph, ranks: dict[int, Any], device: Any
) -> tuple[dict[int, Any], Any]:
    """As `start_bfs`."""
    shared = device.sssp_shared(graph.rows, measure_dtype(graph, "sssp"))
    root = graph.internal(task.root)
    return {shard: sssp(rank, root, shared) for shard, rank in ranks.items()}, shared


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
    columns = (
        (np.load(parts / f"{s}-parent.npy"), np.load(parts / f"{s}-measure.npy"))
        for s in range(graph.shards)
    )
    tree = _join_columns(graph, task, columns)
    return deliver(task, graph, (tree, slowest(courses)))


def join(task: SearchTask, graph: Graph, trees: Sequence[Any]) -> Written:
    """Bring what every rank found together, in original order."""
    columns = [(t.parent, t.level if task.kernel == "bfs" else t.distance) for t in trees]
    courses = [course_of(task.kernel, tree) for tree in trees]
    return deliver(task, graph, (_join_columns(graph, task, columns), slowest(courses)))


def _join_columns(
    graph: Graph, task: SearchTask, columns: Iterable[tuple[AnyArray, AnyArray]]
) -> Tree:
    tree = lonely_tree(graph, task.kernel, task.root)
    for shard, (parent, measure) in enumerate(columns):
        mine = Dealing(graph.rows, graph.shards, shard).owned()
        tree.parent[mine], tree.measure[mine] = parent, measure
    return tree


TREES = {
    "bfs": Algorithm(bfs_rank, start_bfs, search_whole, join, WritePart, gather),
    "sssp": Algorithm(sssp_rank, start_sssp, search_whole, join, WritePart, gather),
}
"""The algorithms whose answers are trees."""
