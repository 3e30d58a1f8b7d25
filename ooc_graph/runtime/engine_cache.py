"""What a process keeps between searches: graphs that are loaded, whole or dealt to ranks.

If memory is short, what was used longest ago is released first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, StoreReplacedError
from ooc_graph.forked import abandon, free_in_child, in_child
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.engine import Engine, RankEngine
from ooc_graph.model.reservation import Freed, Key, Reservation
from ooc_graph.model.resources import CUDA, FREE, Capacity
from ooc_graph.runtime import io_progress, process
from ooc_graph.runtime.engine_keys import Kept, serve_the_same, short_of, take_back
from ooc_graph.runtime.same_graph import open_same
from ooc_graph.shards.load import Graph, when_left

Load = Callable[[Graph, str, Reservation], Engine]
"""Loads a graph for a kernel within a reservation."""
LoadRanks = Callable[[Graph, Mapping[Any, Any]], dict[Any, Any]]
"""Gives the ranks of a worker by name, given those that it has already."""


# Each may have files open.
_MOST_ENGINES = 16

_engines: dict[Kept, Engine | RankEngine] = {}
# Ranks that a search has now, which are not among the engines meanwhile.
_in_use: list[Kept] = []
# What serves instead of engines that were refused memory, by these and the capacity they had.
_instead: dict[tuple[Kept, Capacity], Kept] = {}


def _forget() -> None:
    _engines.clear()
    _in_use.clear()
    _instead.clear()


# A child that is forked between two searches uses the rows that its parent holds.
_lock = free_in_child(threading.RLock(), half_done=_forget)


@in_child
def _leave_cuda() -> None:
    """What is on a CUDA device is of no use in a forked child, which cannot free it either."""
    if any(kept.key.device == CUDA for kept in _engines):
        abandon(dict(_engines))
        _forget()


@contextmanager
def engine(key: Key, load: Load, capacity: Capacity = FREE) -> Iterator[Engine]:
    """Exclusive use of a loaded graph; loads it if it is not there.

    Engines that were used longest ago are released until it fits: all that are left stay together
    within ``capacity``, the memory for all engines of this process.
    """
    with _lock, io_progress.watched(key.identity, process.dask_worker()):
        wanted = Kept(key, process.number_of(key.device))
        kept = _instead.get((wanted, capacity), wanted)
        if kept not in _engines:
            kept = wanted
        _release_others(kept, capacity)
        # The last is the one that was used last.
        found = _engines.pop(kept, None)
        _engines[kept] = _load(kept.key, load) if found is None else found
        take_back(_engines[kept])
        try:
            yield cast(Engine, _engines[kept])
        except StoreReplacedError:
            # Even if a store of the same content stands there, its files are others.
            release()
            raise


@contextmanager
def ranks(
    key: Key,
    names: Sequence[Any],
    load: LoadRanks,
    capacity: Capacity = FREE,
    *,
    apart: bool = True,
) -> Iterator[RankEngine]:
    """Exclusive use of a worker's ranks, by their names; loads those that are not there.

    Unlike `engine` it lets other searches of the process run meanwhile, since ranks wait for those
    of other workers; a second search by the same ranks loads its own. Ranks that stand ``apart`` do
    not depend on the worker's others: they serve again if ranks are dealt otherwise.
    """
    wanted = Kept(key, process.number_of(key.device), process.worker_address(), tuple(names))
    with _lock:
        before: dict[Any, Any] = {}
        if wanted not in _engines:
            before = _take_superseded(wanted) if apart else {}
        _release_others(wanted, capacity)
        found = cast(RankEngine | None, _engines.pop(wanted, None))
        if found is None:
            found = _load(key, lambda graph, *_: RankEngine(graph, load(graph, before)))
        _in_use.append(wanted)
    is_replaced = False
    try:
        yield found
    except StoreReplacedError:
        is_replaced = True
        raise
    finally:
        with _lock:
            _in_use.remove(wanted)
            if wanted in _engines:
                _release(wanted)
            _engines[wanted] = found
            if is_replaced:
                release()


def _take_superseded(wanted: Kept) -> dict[Any, Any]:
    """Wanted ranks that the worker had among others; the others are released."""
    found: dict[Any, Any] = {}
    for kept in [one for one in _engines if one.ranks and serve_the_same(one, wanted)]:
        found |= cast(RankEngine, _engines.pop(kept)).ranks
    return {name: rank for name, rank in found.items() if name in wanted.ranks}


def _load(key: Key, load: Callable[[Graph, str, Reservation], Any]) -> Any:
    """Load a graph; if it is refused memory beside other engines, once more without them."""
    graph = open_same(key.path, key.identity)
    try:
        return load(graph, key.kernel, key.reserved)
    except (MemoryError, MemoryBudgetError, DeviceBusyError):
        if not _engines:
            raise
    # Only now: the frames of the error kept what they had of the memory.
    release()
    return load(graph, key.kernel, key.reserved)


def _release_others(wanted: Kept, capacity: Capacity) -> None:
    """Release other engines until one fits beside those that are left.

    Those go first that hold some of what is short, and among them the one used longest ago. Ranks
    of other workers in this process stay: the capacity is that of one worker.
    """
    workers = "", process.worker_address()
    in_use = [kept for kept in _in_use if kept.worker in workers]
    while others := [kept for kept in _engines if kept != wanted and kept.worker in workers]:
        short = short_of(wanted, wanted in _engines, [*others, *in_use], capacity)
        if not short and len(others) < _MOST_ENGINES:
            return
        holding = [one for one in others if short and getattr(one.key.reserved, short)]
        _release((holding or others)[0])


def use_instead(asked: Key, serving: Key, capacity: Capacity) -> None:
    """Let one engine serve, until it is released, what another was refused this capacity for."""
    with _lock:
        number = process.number_of(asked.device)
        if Kept(serving, number) in _engines:
            _instead[Kept(asked, number), capacity] = Kept(serving, number)


def reservations(
    graph: Graph, kernel: str, device: str, capacity: Capacity = FREE
) -> list[Reservation]:
    """What engines hold of a graph for a kernel on the current device, or serve instead."""
    whom = str(graph.path), graph.identity, kernel, device
    with _lock:
        kept = [*_engines, *(asked for asked, within in _instead if within == capacity)]
        kept = [one for one in kept if one.key[:-1] == whom and not one.ranks]
        number = process.number_of(device) if kept else ""
        return [one.key.reserved for one in kept if one.number == number]


def reserved_device_bytes() -> int:
    """Device memory reserved for all that this process holds on the current CUDA device."""
    with _lock:
        number = process.number_of(CUDA)
        keys = [kept.key for kept in _engines if kept.number == number]
        return sum(key.reserved.device_bytes for key in keys if key.device == CUDA)


def loaded(key: Key, capacity: Capacity = FREE) -> Engine | None:
    """What this process has of what `engine` would give; loads nothing."""
    with _lock:
        kept = Kept(key, process.number_of(key.device))
        return cast(Engine | None, _engines.get(_instead.get((kept, capacity), kept)))


def give_up(key: Key) -> Freed:
    """Release all engines, since one was refused memory; what that left free."""
    with _lock:
        was_loaded = any(kept.key == key for kept in _engines)
        had_others = len(_engines) > was_loaded
        release()
        free = cuda_modules.device_bytes()[0] if key.device == CUDA else 0
        return Freed(was_loaded, had_others, free)


def release(graph: Graph | None = None) -> None:
    """Release all engines of this process, or a graph's, and what a build has left."""
    with _lock:
        for kept in [kept for kept in _engines if graph is None or kept.is_of(graph)]:
            _release(kept)
        process.forget_build()
        process.free_unused()


def _release(kept: Kept) -> None:
    # Forgotten first: an interrupt while it is closed is to leave none that is not usable.
    engine = _engines.pop(kept)
    try:
        take_back(engine)
    finally:
        for asked in [asked for asked, serving in _instead.items() if serving == kept]:
            del _instead[asked]
        # Nobody has it after this: what it had of a device's memory is unused then.
        engine.close()
        del engine
        process.free_unused()


when_left.append(release)


def keeps_any() -> bool:
    """Whether this process has an engine."""
    return bool(_engines)


def release_idle() -> bool:
    """Release all engines, unless a search is at work; whether that was so.

    For a worker's event loop, which must not wait for a search.
    """
    if not _lock.acquire(blocking=False):
        return False
    try:
        release()
    finally:
        _lock.release()
    return True
