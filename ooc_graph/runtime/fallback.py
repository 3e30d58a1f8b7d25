"""How a search is carried out, and on the CPU instead where a device will not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.model.resources import AUTO, CUDA
from ooc_graph.model.way import Way, refusal_of
from ooc_graph.runtime.workplace import Place
from ooc_graph.types import Progress

Done = TypeVar("Done")


def carry_out(
    way: Way,
    what: str,
    place: Place,
    progress: Progress,
    run: Callable[[Way], Done],
    fall_back: Callable[[str], Way],
) -> Done:
    """Carry work out; where ``auto`` took a CUDA device that will not do, on the CPU.

    Parameters
    ----------
    way
        How `choose` said.
    what
        The work, as a note names it.
    run
        Carries it out one way.
    fall_back
        The way on the CPU, given why.
    """
    if way.device == CUDA:
        try:
            return run(way)
        except (UsageError, DeviceBusyError, MemoryBudgetError) as error:
            if place.wanted != AUTO:
                raise
            why = str(error)
        except MemoryError as error:
            # Host memory: the CPU's ways may need less of it.
            why = refusal_of(error)
            if place.wanted != AUTO:
                raise MemoryBudgetError(
                    f"{what} on a CUDA device: {why}; use --device cpu"
                ) from error
        way = fall_back(why)
    if way.why:
        progress.note(f"{what} on the CPU: {way.why}")
    return run(way)
