"""Answers of searches from one vertex: in original order, written or as columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Tree, columns_of, write_columns
from ooc_graph.layout.names import id_dtype
from ooc_graph.model import rank_memory
from ooc_graph.model.engine import load_ids
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.sinks import device_columns

NUMPY, CUPY = "numpy", "cupy"
"""Where an answer that is not written lies: in host memory, or on the CUDA device."""


def measure_dtype(graph: Graph, kernel: str) -> np.dtype[Any]:
    """Type of levels, or of distances."""
    if kernel == "bfs":
        return np.dtype(np.int32)
    return rank_memory.distance_dtype(graph)


def answer_bytes(graph: Graph, kernel: str, arrays: str) -> int:
    """Memory of an answer that is not written: vertices, parents, and levels or distances.

    On a device stands all of it; then it is the vertices alone, on their way there.
    """
    return graph.vertices * (8 if arrays == CUPY else 16 + measure_dtype(graph, kernel).itemsize)


def lonely_tree(graph: Graph, kernel: str, root: int) -> Tree:
    """Tree of a root without arcs: nothing but the root is reached."""
    ids = id_dtype(graph.rows)
    parent = np.full(graph.rows, np.iinfo(ids).max, ids)
    none = np.empty(0, measure_dtype(graph, kernel))
    tree = Tree(kernel, root, graph.position_of(root), parent, none)
    return replace(tree, measure=np.full(graph.rows, tree.unreached, tree.measure.dtype))


def answer_lonely(task: SearchTask) -> Written:
    """A root without arcs needs no rows."""
    graph = engine_cache.open_same(task.path, task.identity)
    if task.request.on_device:
        return device_columns.lonely(graph, load_ids(graph), task)
    return deliver(task, graph, (lonely_tree(graph, task.kernel, task.root), Course(0.0, ())))


def deliver(task: SearchTask, graph: Graph, joined: tuple[Tree, Course]) -> Written:
    """As `written_of`, for a search whose process has no id tables yet."""
    return written_of(task, joined[0], load_ids(graph), joined[1])


def written_of(task: SearchTask, tree: Tree, ids: Any, course: Course) -> Written:
    """The answer by original ids: in the task's partial store, or its columns where it has none."""
    if task.folder is None:
        return Written(course, columns=columns_of(tree, ids))
    specs, entries = write_columns(tree, ids, Path(task.folder))
    return Written(course, tuple(specs), tuple(entries))
