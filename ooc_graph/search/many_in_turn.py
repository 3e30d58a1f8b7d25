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
from ooc_graph.model.resources import AUTO, CPU, CUDA
from ooc_graph.model.way import refusal_of
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.many_ways import PairsWay
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
    otherwise; searches one by one may then go on with their rows in pinned memory. Where the host
    refuses memory, those may go on with arcs in the store, which want least of it.

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
    only_cpu = only_in_store = is_hosts = False
    for way in ways:
        if way.device == CUDA and (only_cpu or (only_in_store and way.host_bytes is None)):
            continue
        if why := str(refused or way.why):
            progress.note(f"{what} {way.said}: {why}")
        try:
            return run(way)
        except (UsageError, DeviceBusyError, MemoryBudgetError, MemoryError) as error:
            if way.device == CPU:
                raise
            found, ends = _refusal(error), _ends(error, way, place.wanted)
            of_host = isinstance(error, MemoryError)
        # Only now: the frames of the error kept what they had of the memory.
        place.release()
        if not isinstance(refused, DeviceBusyError):
            refused, is_hosts = found, of_host
        only_in_store = only_in_store or of_host
        if ends and place.wanted == CUDA:
            break
        only_cpu = ends
    assert refused is not None
    if is_hosts:
        raise MemoryBudgetError(f"{what} on a CUDA device: {refused}; use --device cpu")
    raise refused


def _ends(error: Exception, way: PairsWay, wanted: str) -> bool:
    """Whether an error leaves no other way to a device that is worth trying."""
    if isinstance(error, DeviceError):
        # There is no device.
        return True
    if isinstance(error, DeviceBusyError):
        return wanted == AUTO or not way.is_one_by_one
    return isinstance(error, UsageError) and way.is_one_by_one


def _refusal(error: Exception) -> OocGraphError:
    """An error without the frames that hold memory; of host memory one that says so."""
    if isinstance(error, OocGraphError):
        return type(error)(str(error))
    return MemoryBudgetError(refusal_of(error))
