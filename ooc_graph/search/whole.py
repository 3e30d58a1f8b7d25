"""Searches by one rank that holds the whole graph, with less of it where memory is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ooc_graph.answers.scatter import Tree
from ooc_graph.memory.moved import Moved
from ooc_graph.model.engine import Searcher
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course, course_of
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.search.step_down import Step, goes_on_after, less_of, pins_too_much, step_down
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.sinks import device_columns
from ooc_graph.sinks.trees import CUPY, lonely_tree, written_of
from ooc_graph.strategies import loading
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.cuda.on_disk import note_in_store, with_shortfall


def search_whole(task: SearchTask) -> Written:
    """One rank with the whole graph; runs on the worker that holds it.

    Where memory is refused, more of the arcs stay in the store; or, on a CUDA device whose memory
    it is, rows are in pinned host memory, and then in the store.

    Raises
    ------
    MemoryBudgetError, MemoryError, DeviceBusyError
        As `ooc_graph.search.step_down.step_down`.
    """
    refused: list[str] = []
    written, made = step_down(task, _search_held, _step_after, refused.append)
    if refused:  # the next search need not be refused first
        engine_cache.hold_instead(_searched(task), _searched(made))
    return replace(written, notes=(*refused, *written.notes))


def _step_after(error: Exception, task: SearchTask) -> Step | None:
    return less_of(error, task) if goes_on_after(error, task) else None


def _searched(task: SearchTask) -> tuple[Any, ...]:
    """What `resident.searcher` is asked for."""
    whom = task.path, task.identity, task.kernel, task.method, task.device
    return *whom, task.budget_bytes, task.copies, task.arrays == CUPY, task.host_bytes


def _search_held(task: SearchTask) -> Written:
    with loading.searcher(*_searched(task), less=not pins_too_much(task)) as held:
        before = held.moved
        if task.arrays == CUPY:
            written = device_columns.search(held, task.root)
            notes = _pinned_notes(task, held, written.course) or _moved_since(task, held, before)
            return replace(written, notes=notes)
        tree, course = run_search(held, task.root)
        notes = _pinned_notes(task, held, course)
        written = replace(written_of(task, tree, held.ids, course), notes=notes)
        if said := _moved_since(task, held, before):
            written = replace(written, notes=said)
            # The next search reads a chunk of ids before it has its turn.
            give_back_freed_memory()
        return written


def run_search(held: Searcher, root: int) -> tuple[Tree, Course]:
    """Search a resident graph from an original id; the tree is valid until the next search."""
    graph = held.graph
    position = graph.position_of(root)
    internal = int(held.ids.internal_of[position])
    if internal < 0:
        return lonely_tree(graph, held.kernel, root), Course(0.0, ())
    tree = held.search.run(internal)
    measure = tree.level if held.kernel == "bfs" else tree.distance
    return Tree(held.kernel, root, position, tree.parent, measure), course_of(held.kernel, tree)


def _pinned_notes(task: SearchTask, held: Searcher, course: Course) -> tuple[str, ...]:
    """What is said of rows in pinned memory, where they are there."""
    if held.pinned is None:
        return ()
    bus = cuda_pinned.over_bus(held.search, course.elapsed_s)
    budgets = task.budget_bytes, held.pinned.budget_bytes
    return (with_shortfall(cuda_pinned.note_of(held.pinned, bus), *budgets, "of the device's"),)


def _moved_since(task: SearchTask, held: Searcher, before: Moved | None) -> tuple[str, ...]:
    """What is said of a search whose arcs stay in the store; nothing of others."""
    if before is None or held.moved is None:
        return ()
    moved = held.moved.since(before)
    if isinstance(held.search, DeviceTierSearch):
        return (note_in_store(held.search, moved, task.budget_bytes, task.host_bytes or 0),)
    return (cpu_disk.note_of(held.search.plan, moved),)
