"""Many sources where the system refuses memory that was reckoned with: what is tried next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.runtime.workplace import Place
from ooc_graph.strategies.many.dividing import Plan
from ooc_graph.types import Progress

Found = TypeVar("Found")


def with_less(
    what: str,
    plan: Plan,
    smaller: Callable[[Plan], Plan | None],
    run: Callable[[Plan], Found],
    place: Place,
    progress: Progress,
) -> Found:
    """Carry work out by a plan and, where memory is refused, by ones that hold less and less.

    Before each of them all processes give up what they hold, and a note is made.

    Parameters
    ----------
    what
        The search and its graph, as in a message.
    plan
        The plan to begin with.
    smaller
        Gives one that holds less than another; None: there is none.
    run
        Carries the work out, what is left of it.

    Raises
    ------
    MemoryBudgetError
        Not even the least is given.
    """
    while True:
        try:
            return run(plan)
        except MemoryError as error:
            refused, why = plan, str(error)
        # Only now: the frames of the error kept what they had of the memory.
        place.release()
        plan = reckoned(what, partial(_smaller, what, smaller, refused, why), place)
        progress.note(_note(what, plan))


def _smaller(what: str, smaller: Callable[[Plan], Plan | None], refused: Plan, why: str) -> Plan:
    plan = smaller(refused)
    if plan is None:
        # It may be a thread that was refused: then more memory is of no use.
        raise MemoryBudgetError(
            f"{what} needs {refused.needed_bytes:,} bytes at least in one worker, and the system "
            f"refuses them{f' ({why})' if why else ''}"
        )
    return plan


def reckoned(what: str, make: Callable[[], Found], place: Place) -> Found:
    """What ``make`` gives; if it is refused memory, with nothing else held in any process.

    Raises
    ------
    MemoryBudgetError
        It is refused that, too.
    """
    try:
        return make()
    except MemoryError:
        pass
    place.release()
    try:
        return make()
    except MemoryError:
        raise MemoryBudgetError(
            f"{what}: the system refuses even what is needed to begin; free some memory"
        ) from None


def _note(what: str, plan: Plan) -> str:
    if plan.budget_bytes:
        how = "leaves arcs in the store and goes on"
    else:
        how = f"goes on in batches of {plan.lanes} sources,"
    return f"memory was refused: {what} {how} within {plan.needed_bytes:,} bytes"
