"""How a search is carried out, and on the CPU instead where a device will not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.model.resources import AUTO, CUDA
from ooc_graph.model.way import refusal_of
from ooc_graph.runtime.workplace import Place
from ooc_graph.types import Progress

Done = TypeVar("Done")


class Planned(Protocol):
    """How work is carried out."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""

    @property
    def why(self) -> str:
        """Why it is the CPU, if ``auto`` was asked for; else empty."""


Tried = TypeVar("Tried", bound=Planned)


def carry_out(
    first: Tried,
    what: str,
    place: Place,
    progress: Progress,
    run: Callable[[Tried], Done],
    fall_back: Callable[[str], Tried],
) -> Done:
    """Carry work out; where ``auto`` took a CUDA device that will not do, on the CPU.

    Parameters
    ----------
    first
        How it is carried out first, a plan: it has a ``device``, and says ``why`` if not on CUDA.
    what
        The work, as a note names it.
    run
        Carries it out so.
    fall_back
        The plan for the CPU, given why.
    """
    if first.device == CUDA:
        try:
            return run(first)
        except (UsageError, DeviceBusyError, MemoryBudgetError) as error:
            if place.wanted != AUTO:
                raise
            why = str(error)
        except MemoryError as error:
            # Host memory: strategies of the CPU may need less of it.
            why = refusal_of(error)
            if place.wanted != AUTO:
                raise MemoryBudgetError(
                    f"{what} on a CUDA device: {why}; use --device cpu"
                ) from error
        first = fall_back(why)
    if first.why:
        progress.note(f"{what} on the CPU: {first.why}")
    return run(first)
