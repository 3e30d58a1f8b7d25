"""How a search is carried out, and on the CPU instead where a device will not do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.runtime.devices import AUTO, CPU, CUDA
from ooc_graph.runtime.workplace import Place
from ooc_graph.types import Progress

Done = TypeVar("Done")


@dataclass(frozen=True)
class Way:
    """How a search is carried out.

    Parameters
    ----------
    device
        ``cpu`` or ``cuda``.
    exchange
        ``one`` rank, or ``local`` or ``scheduler``.
    why
        Why it is the CPU where ``auto`` was asked for; else empty.
    budget_bytes
        Memory for a search whose arcs stay in the store, or, on a CUDA device, device memory for
        one whose rows are in host memory or in the store; 0 where all are brought into memory.
    copies
        Whether rows in memory may be kept in another form besides, which some searches gain by.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    """

    device: str
    exchange: str
    why: str = ""
    budget_bytes: int = 0
    copies: bool = True
    host_bytes: int | None = None

    @property
    def said(self) -> str:
        """Where it goes, in words."""
        if self.device == CPU:
            return f"on the CPU: {self.why}" if self.why else "on the CPU"
        return "by one rank" if self.exchange == "one" else f"by ranks, exchange {self.exchange}"


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


def refusal_of(error: Exception) -> str:
    """What an error says that tells of refused memory; Python's own may say nothing."""
    if not isinstance(error, MemoryError):
        return str(error)
    return f"host memory was refused: {error}" if str(error) else "host memory was refused"
