"""What a process keeps between searches: the rows of one graph, bound to the device."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Ids
from ooc_graph.errors import UsageError
from ooc_graph.kernels import cuda_modules
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.kernels.cuda_held import MOST_ROWS
from ooc_graph.kernels.cuda_many_host import PART_BYTES
from ooc_graph.kernels.cuda_pinned import PinnedRoom
from ooc_graph.kernels.cuda_places import may_place
from ooc_graph.kernels.sssp_near_far_search import CpuNearFarSearch
from ooc_graph.layout.manifest import Manifest
from ooc_graph.layout.names import APSP
from ooc_graph.memory.device_plan import DevicePlan
from ooc_graph.memory.moved import Moved
from ooc_graph.session import cuda_disk, cuda_tiers, disk_notes, orders, source_tiers
from ooc_graph.session.devices import CPU, CUDA
from ooc_graph.session.edges_method import EDGES, ROWS, load_search
from ooc_graph.session.machine import cores
from ooc_graph.session.tiers import load_within
from ooc_graph.session.warmup import NEAR_FAR, TIERS, warm
from ooc_graph.shards.in_memory import find_graph
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tiers import TierSearch

# Device memory a vertex at most; measured peaks are below it.
_CUDA_BFS_BYTES, _CUDA_SSSP_BYTES, _CUDA_WIDE_BYTES = 64, 96, 160
# The same of BFS where rows may have places of their own, and levels 32 bits.
_CUDA_PLACED_BYTES = 116
# Of many sources bytes an arc, while it is found which are needed; bytes of a row; and bytes of a
# vertex in answers on their way to host memory, at least so many in all.
_CUDA_MANY_ARC_BYTES, _CUDA_MANY_BYTES, _ANSWER_BYTES = 64, 1100, 1100
ORDER_OF, CUDA_FIXED_BYTES = orders.ORDER_OF, orders.CUDA_FIXED_BYTES


@dataclass(frozen=True)
class Searcher:
    """A graph in memory with buffers for one kernel, and its id tables.

    Parameters
    ----------
    kernel
        ``bfs``, ``sssp``, ``components``, ``apsp`` or ``multi_source_bfs``.
    search
        The device's search.
    graph, ids, tuples
        The store, its id tables, and tuples by internal id.
    named
        Whether an answer that stays on the device has original ids as parents.
    pinned
        What the device holds where rows are in pinned host memory, else None.
    """

    kernel: str
    search: Any
    graph: Graph
    ids: Ids
    tuples: Any
    named: bool = False
    pinned: DevicePlan | None = None

    @property
    def moved(self) -> Moved | None:
        """What was read of the store so far, where arcs stay there."""
        return self.search.moved if isinstance(self.search, TierSearch) else None


_lock = threading.RLock()
_held: dict[tuple[Any, ...], Searcher] = {}
# Where memory was refused, and less is held: what was asked for, by what is held.
_asked: dict[tuple[Any, ...], tuple[Any, ...]] = {}
_devices: dict[str, Any] = {}


def threads_here() -> int:
    """Threads a search may use in this process: the Dask worker's, or all cores."""
    worker = _worker()
    return cores() if worker is None else int(worker.state.nthreads)


def _worker() -> Any:
    """The Dask worker that runs the calling task, None outside of one.

    Nobody is a worker who has not imported ``distributed``, which takes a third of a second.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker  # noqa: PLC0415

    try:
        return get_worker()
    except ValueError:
        return None


def device(name: str = CPU) -> Any:
    """A device of this process, ``cpu`` or ``cuda``, made when first asked for.

    Raises
    ------
    DeviceError, DeviceBusyError
        There is no CUDA device, or others have it.
    """
    with _lock:
        if name not in _devices:
            _devices[name] = CpuDevice(threads_here()) if name == CPU else _cuda_device()
        return _devices[name]


def _cuda_device() -> Any:
    from ooc_graph.kernels.cuda_device import CudaDevice  # noqa: PLC0415 (where there is one)

    cuda_modules.open_device()
    return CudaDevice()


def _number_of(device_name: str) -> str:
    """Number of the current CUDA device, which alone can use what was loaded there."""
    return str(cuda_modules.cuda().cuda.Device().id) if device_name == CUDA else ""


@contextmanager
def searcher(
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
    budget_bytes
        Memory for a search whose arcs stay in the store, or, on a CUDA device, device memory for
        one whose rows are in host memory or in the store; 0: all are brought into memory.
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
    with _lock, disk_notes.watched(identity, _worker()):
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
            _held[key] = _load(path, identity, kernel, method, device_name, *key[-1])
        yield _held[key]


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
    return (path, identity, kernel, method, device_name, _number_of(device_name), within)


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


def held_in_store(graph: Graph, kernel: str) -> tuple[int, int] | None:
    """Budgets of the search on the current CUDA device that leaves a graph's arcs in the store.

    Of device and of host memory, as they were asked for; None where this process has no such
    search.
    """
    for budget_bytes, _, _, host_bytes in _held_here(graph, kernel, CUDA, ROWS):
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
            if (path, identity, others) == wanted and number == _number_of(device_name):
                found.append(within)
    return found


def held(
    path: str,
    identity: str,
    kernel: str,
    method: str = ROWS,
    device_name: str = CPU,
    budget_bytes: int = 0,
) -> Searcher | None:
    """What this process holds of what `searcher` would give, unnamed; loads nothing."""
    whom = path, identity, kernel, method, device_name, budget_bytes
    with _lock:
        return _held.get(_key(*whom, copies=True, named=False))


def release() -> None:
    """Forget the graph that searches of one rank hold in this process, on whichever device."""
    with _lock:
        # Forgotten first: an interrupt while one is closed is to leave none that is not usable.
        given_up = [held.search for held in _held.values()]
        _held.clear()
        _asked.clear()
        while given_up:
            # Nobody has it after this: what it had of a device's memory is unused then.
            _close(given_up.pop())
        if CUDA in _devices:
            cuda_modules.free_unused()


def _close(search: Any) -> None:
    if isinstance(search, TierSearch):
        search.close()


def release_ranks(dask_worker: Any = None) -> None:
    """Forget the ranks that a Dask worker keeps; by default the worker of the calling task."""
    worker = dask_worker or _worker()
    if worker is None:
        return
    from ooc_graph.exchange.resident import PLUGIN_NAME  # noqa: PLC0415 (imports distributed)

    plugin: Any = worker.plugins.get(PLUGIN_NAME)
    if plugin is not None:
        plugin.state.clear()


def release_all(dask_worker: Any = None) -> None:
    """Give back what searches keep, for a build; run in every worker."""
    release_ranks(dask_worker)
    release()


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
    UsageError
        If another store stands there by now.
    """
    graph = find_graph(path) or Graph.open(path)
    _refuse_replaced(graph.path, graph.identity, identity)
    return graph


def require_same(path: Path, identity: str) -> None:
    """Refuse a store that is not the one that was opened; reads the manifest alone."""
    held = find_graph(path)
    _refuse_replaced(path, held.identity if held else Manifest.load(path).sha256, identity)


def _refuse_replaced(path: Path, found: str, wanted: str) -> None:
    if found != wanted:
        raise UsageError(f"{path}: the store was replaced since it was opened; open it again")


def load_ids(graph: Graph) -> Ids:
    """Id tables of a graph."""
    originals = None if graph.first_id is not None else graph.original_ids()
    return Ids(graph.internal_of(), graph.original_of(), graph.first_id, originals)


def _load(
    path: str,
    identity: str,
    kernel: str,
    method: str,
    device_name: str,
    budget_bytes: int,
    copies: bool,
    named: bool,
    host_bytes: int | None,
) -> Searcher:
    graph = open_same(path, identity)
    if device_name == CUDA:
        if host_bytes is not None:
            return _load_in_store(graph, kernel, budget_bytes, host_bytes, named=named)
        on_cuda = _load_singly_on_cuda if method == source_tiers.ONE_BY_ONE else _load_on_cuda
        return on_cuda(graph, kernel, budget_bytes, named=named)
    if method == EDGES:
        search = load_search(graph, kernel, device())
        return Searcher(kernel, search, graph, load_ids(graph), graph.tuples())
    if budget_bytes and kernel in source_tiers.KERNELS:
        search = source_tiers.load_within(graph, kernel, method, budget_bytes, device())
        return Searcher(kernel, search, graph, load_ids(graph), None)
    if budget_bytes:
        warm(kernel, graph, device(), variant=TIERS)
        search = load_within(graph, kernel, budget_bytes, device())
        return Searcher(kernel, search, graph, load_ids(graph), None)
    shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP)
    with_copies = {"copies": copies} if kernel in {"bfs", "sssp"} else {}
    search = getattr(device(), kernel)(shard, **with_copies)
    warm(kernel, graph, device(), variant=variant_of(search))
    return Searcher(kernel, search, graph, load_ids(graph), shard.tuples)


def _load_in_store(
    graph: Graph, kernel: str, budget_bytes: int, host_bytes: int, *, named: bool
) -> Searcher:
    """A search on the CUDA device that leaves arcs in the store."""
    device(CUDA)
    least = cuda_disk.least_device_bytes(graph, kernel)
    beside = cuda_disk.answer_device_bytes(graph) if named else 0
    budget_bytes = _free_within(budget_bytes, least, beside, f"{kernel} on {graph.path}")
    ids = load_ids(graph)
    search = cuda_disk.load_within(graph, kernel, budget_bytes, host_bytes, threads_here())
    return Searcher(kernel, search, graph, ids, None)


def _free_within(budget_bytes: int, least: int, beside: int, what: str) -> int:
    """Device memory of a budget that others have left, if the least fits in it.

    Raises
    ------
    MemoryBudgetError, DeviceBusyError
        It does not.
    """
    cuda_modules.require_memory(least + beside, what)
    free = cuda_modules.device_bytes()[0]
    # Not to the last byte: what is compiled later takes some, too.
    return min(budget_bytes, max(least, free - free // cuda_tiers.LEFT_SHARE - beside))


def _load_singly_on_cuda(graph: Graph, kernel: str, budget_bytes: int, *, named: bool) -> Searcher:
    """A search from many sources one after the other, by that from one source.

    Its answers do not stay on the device, whatever ``named`` says.
    """
    del named
    single = source_tiers.single_of(kernel)
    held = _load_on_cuda(graph, single, budget_bytes, named=False)
    search = source_tiers.singly_on_device(held.search, graph, kernel)
    return replace(held, kernel=kernel, search=search)


def _load_on_cuda(graph: Graph, kernel: str, budget_bytes: int, *, named: bool) -> Searcher:
    found, what, room = device(CUDA), f"{kernel} on {graph.path}", None
    if budget_bytes:
        least = cuda_tiers.least_device_bytes(graph, kernel, named=named)
        beside = cuda_tiers.answer_device_bytes(graph) if named else 0
        budget_bytes = _free_within(budget_bytes, least, beside, what)
        room = PinnedRoom(threads_here())
    else:
        cuda_modules.require_memory(cuda_bytes(graph, kernel), what)
    shard = graph.load(ORDER_OF[kernel], signed=kernel == APSP, room=room)
    ids = load_ids(graph)
    if kernel == APSP:
        many = found.apsp(shard, threads=threads_here())
        return Searcher(kernel, many, graph, ids, shard.tuples)
    # Ids of 64 bits are put in place of internal ones when an answer leaves the device.
    is_narrow = int(ids.original_of.max(initial=0)) <= MOST_ROWS
    plan = None
    if room is None:
        with_names = {"original_of": ids.original_of} if is_narrow else {}
        search = getattr(found, kernel)(shard, **with_names)
    else:
        is_narrow = is_narrow and named
        names = ids.original_of.astype(np.uint32) if is_narrow else None
        held = budget_bytes, found, shard, room, names
        search, plan = cuda_tiers.search_within(graph, kernel, *held)
    return Searcher(kernel, search, graph, ids, shard.tuples, is_narrow, plan)


def cuda_bytes(graph: Graph, kernel: str) -> int:
    """Device memory of one rank that searches the whole graph on a CUDA device, at most."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    if kernel == APSP:
        answers = max(2 * PART_BYTES, graph.vertices * _ANSWER_BYTES)
        state = graph.arcs * _CUDA_MANY_ARC_BYTES + graph.rows * _CUDA_MANY_BYTES
        return rows + state + answers + CUDA_FIXED_BYTES
    return rows + graph.rows * cuda_state_bytes(graph, kernel) + CUDA_FIXED_BYTES


def cuda_state_bytes(graph: Graph, kernel: str) -> int:
    """Device memory a vertex beside the rows: heads, buffers, answer."""
    if kernel == "bfs":
        placed = may_place(graph.rows, graph.arcs // (2 if graph.directed else 1))
        return _CUDA_PLACED_BYTES if placed else _CUDA_BFS_BYTES
    is_narrow = graph.weight_dtype is not None and graph.weight_dtype.itemsize == 4
    return _CUDA_SSSP_BYTES if is_narrow else _CUDA_WIDE_BYTES


def variant_of(search: Any) -> str:
    """Which of a search's kernels it runs, as `warm` is told."""
    return NEAR_FAR if isinstance(search, CpuNearFarSearch) else ""
