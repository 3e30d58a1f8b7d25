"""Searches by one rank that holds the whole graph, with less of it where memory is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ooc_graph.answers.scatter import Tree
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.memory.moved import Moved
from ooc_graph.session import cuda_disk, cuda_tiers, device_answer, resident, tiers
from ooc_graph.session.devices import CUDA
from ooc_graph.session.loading import Searcher
from ooc_graph.session.machine import give_back_freed_memory
from ooc_graph.session.refused import (
    SingleTask,
    has_less,
    in_store,
    in_store_alone,
    less_in_store,
    may_go_on,
    may_go_to_store,
    may_take_less_in_store,
    may_take_less_of_host,
    with_less,
    with_shortfall,
)
from ooc_graph.session.search_answer import CUPY, lonely_tree, written_of
from ooc_graph.session.ways import Course, SearchTask, Written, course_of
from ooc_graph.shards.device_tiers import DeviceTierSearch


def search_whole(task: SearchTask) -> Written:
    """One rank with the whole graph; runs on the worker that holds it.

    Where memory is refused, more of the arcs stay in the store; or, on a CUDA device whose memory
    it is, rows are in pinned host memory, and then in the store.

    Raises
    ------
    MemoryBudgetError, MemoryError
        The least was refused: of a plan, or by the system.
    DeviceBusyError
        Others have the device's memory, all but less than what would do.
    """
    refused: tuple[str, ...] = ()
    asked, busy = task, ""
    while True:
        try:
            written = _search_held(task)
            if refused:  # the next search need not be refused first
                resident.hold_instead(_searched(asked), _searched(task))
            return replace(written, notes=(*refused, *written.notes))
        except (MemoryError, MemoryBudgetError, DeviceBusyError) as error:
            go_on = less_of(error, task) if goes_on_after(error, task) else None
            if go_on is None:
                if busy and not isinstance(error, DeviceBusyError):
                    # What was tried instead needs something else; later this may be needless.
                    raise DeviceBusyError(busy) from error
                raise
            is_busy = isinstance(error, DeviceBusyError)
            busy = busy or (str(error) if is_busy else "")
        # Only now: the frames of the error kept what they had of the memory.
        less, note = go_on(task)
        said = f"others have memory of the device: {note}" if is_busy else note
        task, refused = replace(task, **less), (*refused, said)


def goes_on_after(error: Exception, task: SingleTask) -> bool:
    """As `may_go_on`, and where others have the device's memory, if rows may be pinned then."""
    if isinstance(error, DeviceBusyError):
        return task.device == CUDA and task.pins_if_busy
    return may_go_on(error, task)


def less_of(
    error: Exception, task: SingleTask
) -> Callable[[Any], tuple[dict[str, Any], str]] | None:
    """What says how to go on with less memory; None where there is no such way."""
    if task.device == CUDA and isinstance(error, MemoryError):
        return in_store_alone if may_take_less_of_host(task) else None
    if has_less(task) and not _pins_too_much(task):
        return with_less
    if may_go_to_store(task):
        return in_store
    return less_in_store if may_take_less_in_store(task) else None


def _pins_too_much(task: SingleTask) -> bool:
    """Whether what holds less of a CUDA device's memory is beyond the limit of pinned memory."""
    if task.device != CUDA or task.pinned_bytes is None:
        return False
    graph = resident.open_same(task.path, task.identity)
    return cuda_tiers.pinned_bytes(graph, task.kernel) > task.pinned_bytes


def _searched(task: SearchTask) -> tuple[Any, ...]:
    """What `resident.searcher` is asked for."""
    whom = task.path, task.identity, task.kernel, task.method, task.device
    return *whom, task.budget_bytes, task.copies, task.arrays == CUPY, task.host_bytes


def _search_held(task: SearchTask) -> Written:
    with resident.searcher(*_searched(task), less=not _pins_too_much(task)) as held:
        before = held.moved
        if task.arrays == CUPY:
            written = device_answer.search(held, task.root)
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
    bus = cuda_tiers.over_bus(held.search, course.elapsed_s)
    budgets = task.budget_bytes, held.pinned.budget_bytes
    return (with_shortfall(cuda_tiers.note_of(held.pinned, bus), *budgets, "of the device's"),)


def _moved_since(task: SearchTask, held: Searcher, before: Moved | None) -> tuple[str, ...]:
    """What is said of a search whose arcs stay in the store; nothing of others."""
    if before is None or held.moved is None:
        return ()
    moved = held.moved.since(before)
    if isinstance(held.search, DeviceTierSearch):
        plan, said = held.search.plan, cuda_disk.note_of(held.search, moved)
        said = with_shortfall(said, task.budget_bytes, plan.device_budget_bytes, "of the device's")
        host = task.host_bytes or 0, plan.host_budget_bytes
        return (with_shortfall(said, *host, "of the host's"),)
    return (tiers.note_of(held.search.plan, moved),)
