"""Searches by one rank that holds the whole graph."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import cast

from ooc_graph.answers.scatter import Tree
from ooc_graph.model.engine import Engine
from ooc_graph.model.strategy import WholeGraph
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course, course_of
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.process import without_traceback
from ooc_graph.sinks import device_columns
from ooc_graph.sinks.trees import lonely_tree, written_of


def search_whole(task: SearchTask) -> Written:
    """Search by one rank with the whole graph; runs on the worker that holds it.

    Raises
    ------
    MemoryBudgetError, MemoryError, DeviceBusyError
        Memory was refused, or others have the device's.
    """
    return without_traceback(_search, task)


def engine_for(task: SearchTask) -> AbstractContextManager[Engine]:
    """Exclusive use of the engine that a task needs; see `engine_cache.engine`."""
    return engine_cache.engine(task.key, cast(WholeGraph, task.strategy).load, task.room)


def _search(task: SearchTask) -> Written:
    with engine_for(task) as engine:
        before = engine.moved
        if task.request.on_device:
            written = device_columns.search(engine, task.root)
        else:
            tree, course = run_search(engine, task.root)
            written = written_of(task, tree, engine.ids, course)
        if engine.note is None:
            return written
        moved = None if before is None or engine.moved is None else engine.moved.since(before)
        if moved is not None and not task.request.on_device:
            # The next search reads a chunk of ids before it has its turn.
            give_back_freed_memory()
        return replace(written, notes=(engine.note(moved, written.course.elapsed_s),))


def run_search(engine: Engine, root: int) -> tuple[Tree, Course]:
    """Search a loaded graph from an original id; the tree is valid until the next search."""
    graph = engine.graph
    position = graph.position_of(root)
    internal = int(engine.ids.internal_of[position])
    if internal < 0:
        return lonely_tree(graph, engine.kernel, root), Course(0.0, ())
    tree = engine.search.run(internal)
    measure = tree.level if engine.kernel == "bfs" else tree.distance
    return Tree(engine.kernel, root, position, tree.parent, measure), course_of(engine.kernel, tree)
