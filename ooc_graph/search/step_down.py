"""Searches that are refused memory, made again with less and less of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime import engine_cache
from ooc_graph.search.refused import (
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
)
from ooc_graph.strategies.cuda.cached import pinned_bytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = TypeVar("Kind", bound="DataclassInstance")
Found = TypeVar("Found")
Step: TypeAlias = Callable[[Any], tuple[dict[str, Any], str]]
"""Gives, of a task that was refused memory, what to change of it, and a line that says so."""


def step_down(
    task: Kind,
    carry_out: Callable[[Kind], Found],
    step_after: Callable[[Exception, Kind], Step | None],
    say: Callable[[str], None],
) -> tuple[Found, Kind]:
    """Carry a task out; where memory is refused, with less and less of it.

    Parameters
    ----------
    task
        As it is carried out first.
    carry_out
        Carries it out.
    step_after
        Says, of an error and the task that had it, how to go on; None: not at all.
    say
        Is told of every step.

    Returns
    -------
    found, task
        What was found, and the task as it was carried out at last.

    Raises
    ------
    MemoryBudgetError, MemoryError
        The least was refused: of a plan, or by the system.
    DeviceBusyError
        Others have the device's memory, all but less than what would do.
    """
    busy = ""
    while True:
        try:
            return carry_out(task), task
        except (MemoryError, MemoryBudgetError, DeviceBusyError) as error:
            step, is_busy = step_after(error, task), isinstance(error, DeviceBusyError)
            if step is None:
                if busy and not is_busy:
                    # What was tried instead needs something else; later this may be needless.
                    raise DeviceBusyError(busy) from error
                raise
            busy = busy or (str(error) if is_busy else "")
        # Only now: the frames of the error kept what they had of the memory.
        less, note = step(task)
        say(f"others have memory of the device: {note}" if is_busy else note)
        task = replace(task, **less)


def goes_on_after(error: Exception, task: SingleTask) -> bool:
    """As `may_go_on`, and where others have the device's memory, if rows may be pinned then."""
    if isinstance(error, DeviceBusyError):
        return task.device == CUDA and task.pins_if_busy
    return may_go_on(error, task)


def less_of(error: Exception, task: SingleTask) -> Step | None:
    """What says how to go on with less memory; None where there is no such way."""
    if task.device == CUDA and isinstance(error, MemoryError):
        return in_store_alone if may_take_less_of_host(task) else None
    if has_less(task) and not pins_too_much(task):
        return with_less
    if may_go_to_store(task):
        return in_store
    return less_in_store if may_take_less_in_store(task) else None


def pins_too_much(task: SingleTask) -> bool:
    """Whether what holds less of a CUDA device's memory is beyond the limit of pinned memory."""
    if task.device != CUDA or task.pinned_bytes is None:
        return False
    graph = engine_cache.open_same(task.path, task.identity)
    return pinned_bytes(graph, task.kernel) > task.pinned_bytes
