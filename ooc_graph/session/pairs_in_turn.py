"""Many sources by one way after another, until one is not refused what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ooc_graph.errors import (
    DeviceBusyError,
    DeviceError,
    MemoryBudgetError,
    OocGraphError,
    UsageError,
)
from ooc_graph.session.devices import AUTO, CPU, CUDA
from ooc_graph.session.pairs_ways import PairsWay
from ooc_graph.session.place import Place
from ooc_graph.types import Progress

Found = TypeVar("Found")


def carry_out_in_turn(
    what: str,
    ways: Iterator[PairsWay],
    place: Place,
    progress: Progress,
    run: Callable[[PairsWay], Found],
) -> Found:
    """Carry work out by the first of some ways that is not refused what it needs.

    Before the next one all processes give up what they hold, and a note says why it is tried.
    Where others have the device's memory, batches are left to the CPU with ``auto``, and not done
    otherwise; searches one by one may then go on with their rows in pinned memory.

    Parameters
    ----------
    what
        The work, as a note names it.
    ways
        As of `ways_for`.
    run
        Carries it out one way.

    Raises
    ------
    DeviceBusyError
        Others have the device, or its memory.
    MemoryBudgetError, UsageError
        All ways were refused; says what of the last one.
    """
    refused: OocGraphError | None = None
    only_cpu = False
    for way in ways:
        if only_cpu and way.device == CUDA:
            continue
        if why := str(refused or way.why):
            progress.note(f"{what} {way.said}: {why}")
        try:
            return run(way)
        except (UsageError, DeviceBusyError, MemoryBudgetError, MemoryError) as error:
            if way.device == CPU:
                raise
            found, ends = _refusal(what, error, place.wanted), _ends(error, way, place.wanted)
        # Only now: the frames of the error kept what they had of the memory.
        place.release()
        if not isinstance(refused, DeviceBusyError):
            refused = found
        if ends and place.wanted == CUDA:
            break
        only_cpu = ends
    assert refused is not None
    raise refused


def _ends(error: Exception, way: PairsWay, wanted: str) -> bool:
    """Whether an error leaves no other way to a device that is worth trying."""
    if isinstance(error, MemoryError | DeviceError):
        # Host memory, of which the CPU's ways may need less; or there is no device.
        return True
    if isinstance(error, DeviceBusyError):
        return wanted == AUTO or not way.is_one_by_one
    return isinstance(error, UsageError) and way.is_one_by_one


def _refusal(what: str, error: Exception, wanted: str) -> OocGraphError:
    """An error without the frames that hold memory; of host memory one that says so."""
    if isinstance(error, OocGraphError):
        return type(error)(str(error))
    why = f"host memory was refused: {error}" if str(error) else "host memory was refused"
    if wanted != AUTO:
        why = f"{what} on a CUDA device: {why}; use --device cpu"
    return MemoryBudgetError(why)
