"""What a process keeps between searches: the rows of one graph, bound to the device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distributed import get_worker

from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.session.machine import cores
from ooc_graph.session.warmup import warm
from ooc_graph.shards.load import Graph

ORDER_OF = {"bfs": HUB, "sssp": LIGHT}


@dataclass(frozen=True)
class Searcher:
    """A graph in memory with buffers for one kernel, and its id tables.

    Parameters
    ----------
    kernel
        ``bfs`` or ``sssp``.
    search
        The device's search.
    graph, ids, tuples
        The store, its id tables, and tuples by internal id.
    """

    kernel: str
    search: Any
    graph: Graph
    ids: Ids
    tuples: Any


_lock = threading.RLock()
_held: dict[tuple[str, str, str], Searcher] = {}
_device: list[CpuDevice] = []


def threads_here() -> int:
    """Threads a search may use in this process: the Dask worker's, or all cores."""
    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return cores()


def device() -> CpuDevice:
    """The device of this process, made when first asked for."""
    with _lock:
        if not _device:
            _device.append(CpuDevice(threads_here()))
        return _device[0]


@contextmanager
def searcher(path: str, identity: str, kernel: str) -> Iterator[Searcher]:
    """Exclusive use of a resident graph; loads it, in place of what was held before."""
    with _lock:
        key = (path, identity, kernel)
        if key not in _held:
            _held.clear()
            _held[key] = _load(path, kernel)
        yield _held[key]


def release() -> None:
    """Forget what is held."""
    with _lock:
        _held.clear()


def load_ids(graph: Graph) -> Ids:
    """Id tables of a graph."""
    originals = None if graph.first_id is not None else graph.original_ids()
    return Ids(graph.internal_of(), graph.original_of(), graph.first_id, originals)


def _load(path: str, kernel: str) -> Searcher:
    graph = Graph.open(path)
    warm(kernel, graph, device(), ranks=False)
    shard = graph.load(ORDER_OF[kernel])
    search = device().bfs(shard) if kernel == "bfs" else device().sssp(shard)
    return Searcher(kernel, search, graph, load_ids(graph), shard.tuples)
