"""What a process keeps between searches: the rows of one graph, bound to the device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ooc_graph.errors import StoreReplacedError
from ooc_graph.forked import abandon, free_in_child, in_child
from ooc_graph.layout.manifest import load_same
from ooc_graph.layout.replaced import refuse_other
from ooc_graph.layout.stored import Stored
from ooc_graph.model.engine import Searcher
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.runtime import io_progress, process
from ooc_graph.shards.in_memory import find_graph
from ooc_graph.shards.load import Graph

Load = Callable[..., Searcher]

_held: dict[tuple[Any, ...], Searcher] = {}
# Where memory was refused, and less is held: what was asked for, by what is held.
_asked: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def _forget() -> None:
    _held.clear()
    _asked.clear()


# A child that is forked between two searches uses the rows that its parent holds.
_lock = free_in_child(threading.RLock(), half_done=_forget)


@in_child
def _leave_cuda() -> None:
    """What is on a CUDA device is of no use in a forked child, which cannot free it either."""
    if any(CUDA in key for key in _held):
        abandon(dict(_held))
        _forget()


@contextmanager
def searcher(
    load: Load,
    path: str,
    identity: str,
    kernel: str,
    method: str = ROWS,
    device_name: str = CPU,
    budget_bytes: int = 0,
    copies: bool = True,
    named: bool = True,
    host_bytes: int | None = None,
    *,
    less: bool = False,
) -> Iterator[Searcher]:
    """Exclusive use of a resident graph; loads it, in place of what was held before.

    Parameters
    ----------
    load
        Loads a graph: called with the graph and ``kernel`` to ``host_bytes``, in their order.
    budget_bytes
        Memory for a search whose arcs stay in the store, or, on a CUDA device, device memory for
        one whose rows are in host memory or in the store; 0: all are brought into memory. Of
        batches from many sources on a CUDA device the most that they take of it; 0: what there is.
    copies
        Whether rows in memory may be kept in another form besides.
    named
        Whether answers stay on the device, with original ids as parents. It needs no memory for
        that where not, which matters where rows are in pinned host memory.
    host_bytes
        Host memory for a search on a CUDA device whose arcs stay in the store; else None.
    less
        Whether that will do which holds less, since this was refused memory before.
    """
    with _lock, io_progress.watched(identity, process.dask_worker()):
        within = budget_bytes, copies, named, host_bytes
        key = _key(path, identity, kernel, method, device_name, *within)
        for held, asked in _asked.items():
            # What is in the store, on a CUDA device, pins no rows: it suits whatever may be pinned.
            if asked == key and (less or held[-1][-1] is not None):
                key = held
                break
        if key not in _held:
            # Ranks first: only then is what they held seen as free.
            release_ranks()
            release()
            how = kernel, method, device_name, *key[-1]
            _held[key] = load(open_same(path, identity), *how)
        try:
            yield _held[key]
        except StoreReplacedError:
            # Even if a store of the same content stands there, its files are others.
            release()
            raise


def _key(
    path: str,
    identity: str,
    kernel: str,
    method: str,
    device_name: str,
    budget_bytes: int,
    copies: bool,
    named: bool,
    host_bytes: int | None = None,
) -> tuple[Any, ...]:
    whatever = device_name != CUDA or not budget_bytes
    within = budget_bytes, copies, named or whatever, host_bytes
    return (path, identity, kernel, method, device_name, process.number_of(device_name), within)


def hold_instead(asked: tuple[Any, ...], held: tuple[Any, ...]) -> None:
    """Let what is held stand for what was asked for, until it is released.

    Parameters
    ----------
    asked, held
        Arguments of `searcher`.
    """
    with _lock:
        key = _key(*held)
        if key in _held:
            _asked[key] = _key(*asked)


def held_within(
    graph: Graph, kernel: str, device_name: str = CPU, method: str = ROWS
) -> tuple[int, bool] | None:
    """How this process holds a graph for a kernel on a device: ``budget_bytes`` and ``copies``.

    Where it holds less than was asked for, as was asked. None where it does not hold it, or on
    another CUDA device than the current one, or with arcs in the store there.
    """
    for budget_bytes, copies, _, host_bytes in _held_here(graph, kernel, device_name, method):
        if host_bytes is None:
            return budget_bytes, copies
    return None


def held_in_store(graph: Graph, kernel: str, method: str = ROWS) -> tuple[int, int] | None:
    """Budgets of the search on the current CUDA device that leaves a graph's arcs in the store.

    Of device and of host memory, as they were asked for; None where this process has no such
    search.
    """
    for budget_bytes, _, _, host_bytes in _held_here(graph, kernel, CUDA, method):
        if host_bytes is not None:
            return budget_bytes, host_bytes
    return None


def _held_here(
    graph: Graph, kernel: str, device_name: str, method: str
) -> list[tuple[int, bool, bool, Any]]:
    """How searches of a graph that are held were asked for."""
    wanted, found = (str(graph.path), graph.identity, [kernel, method, device_name]), []
    with _lock:
        for key in _held:
            path, identity, *others, number, within = _asked.get(key, key)
            if (path, identity, others) == wanted and number == process.number_of(device_name):
                found.append(within)
    return found


def held(
    path: str,
    identity: str,
    kernel: str,
    method: str = ROWS,
    device_name: str = CPU,
    budget_bytes: int = 0,
    host_bytes: int | None = None,
) -> Searcher | None:
    """What this process holds of what `searcher` would give, unnamed; loads nothing."""
    whom = path, identity, kernel, method, device_name, budget_bytes
    with _lock:
        return _held.get(_key(*whom, copies=True, named=False, host_bytes=host_bytes))


def release() -> None:
    """Forget the graph that searches of one rank hold in this process, on whichever device."""
    with _lock:
        # Forgotten first: an interrupt while one is closed is to leave none that is not usable.
        given_up = list(_held.values())
        _held.clear()
        _asked.clear()
        while given_up:
            # Nobody has it after this: what it had of a device's memory is unused then.
            given_up.pop().close()
        process.free_unused()


def release_ranks(dask_worker: Any = None) -> None:
    """Forget the ranks that a Dask worker keeps; by default the worker of the calling task."""
    worker = dask_worker or process.dask_worker()
    plugin = None if worker is None else _plugin_of(worker)
    if plugin is not None:
        plugin.state.clear()


def _plugin_of(worker: Any) -> Any:
    from ooc_graph.exchange.resident import find_resident  # noqa: PLC0415 (imports distributed)

    return find_resident(worker)


def release_idle(dask_worker: Any = None) -> bool:
    """Forget what a worker keeps, unless a search is at work; whether that was so.

    For the worker's event loop, which must not wait for a search.
    """
    if not _lock.acquire(blocking=False):
        return False
    try:
        release_ranks(dask_worker)
        release()
    finally:
        _lock.release()
    return True


def keeps_something(dask_worker: Any) -> bool:
    """Whether a worker, or its process, keeps rows between searches."""
    plugin = _plugin_of(dask_worker)
    return bool(_held) or (plugin is not None and bool(plugin.state))


class Ranks:
    """Ranks of one graph that wait on a worker for their next search.

    Parameters
    ----------
    state
        The worker's dictionary.
    """

    def __init__(self, state: dict[Any, Any]) -> None:
        self._state = state

    def keep_only(self, graph: Any, shards: Sequence[int]) -> None:
        """Forget the ranks of other graphs and of other shards."""
        with _lock:
            for key in list(self._state):
                if key[0] != graph or key[1] not in shards:
                    del self._state[key]

    def take(self, graph: Any, shard: int) -> Any:
        """Take a rank for one search, which alone has it then; None if there is none."""
        with _lock:
            return self._state.pop((graph, shard), None)

    def put_back(self, graph: Any, shard: int, rank: Any) -> None:
        """Leave a rank for the next search."""
        with _lock:
            self._state[graph, shard] = rank


def open_same(path: str, identity: str) -> Graph:
    """The graph that a search was asked for.

    Raises
    ------
    StoreReplacedError
        If another store stands there by now.
    """
    held = find_graph(path)
    if held is None:
        return Graph(Stored.open(path, "graph", identity))
    refuse_other(held.path, held.identity, identity)
    return held


def require_same(path: Path, identity: str) -> None:
    """Refuse a store that is not the one that was opened; reads the manifest alone."""
    held = find_graph(path)
    if held is None:
        load_same(path, identity)
    else:
        refuse_other(path, held.identity, identity)
