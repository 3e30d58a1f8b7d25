"""One search: on one rank that holds the whole graph, or on the ranks of a cluster."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.result import BfsResult, SsspResult, TreeResult, result_attributes
from ooc_graph.answers.scatter import Tree, columns_of, write_columns
from ooc_graph.errors import DeviceBusyError, MemoryBudgetError, UsageError
from ooc_graph.kernels import cuda_modules
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.layout.names import id_dtype
from ooc_graph.memory.moved import Moved
from ooc_graph.session import (
    cuda_disk,
    cuda_tiers,
    device_answer,
    disk_notes,
    edges_method,
    rank_memory,
    resident,
    tiers,
)
from ooc_graph.session.choice import Way, carry_out, choose, on_cpu, ranks_instead
from ooc_graph.session.devices import CPU, CUDA
from ooc_graph.session.machine import give_back_freed_memory
from ooc_graph.session.place import Place
from ooc_graph.session.refused import has_less, in_store, may_go_on, may_go_to_store, with_less
from ooc_graph.session.warmup import RANKS, warm
from ooc_graph.session.ways import Course, SearchTask, Ways, Written, course_of, slowest
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.shards.load import Graph
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import AnyArray, Dealing, Progress

KERNELS = ("bfs", "sssp")
NUMPY, CUPY = "numpy", "cupy"
"""Where an answer that is not written lies: in host memory, or on the CUDA device."""


def run_search(held: resident.Searcher, root: int) -> tuple[Tree, Course]:
    """Search a resident graph from an original id; the tree is valid until the next search."""
    graph = held.graph
    position = graph.position_of(root)
    internal = int(held.ids.internal_of[position])
    if internal < 0:
        return lonely_tree(graph, held.kernel, root), Course(0.0, ())
    tree = held.search.run(internal)
    measure = tree.level if held.kernel == "bfs" else tree.distance
    return Tree(held.kernel, root, position, tree.parent, measure), course_of(held.kernel, tree)


def lonely_tree(graph: Graph, kernel: str, root: int) -> Tree:
    """Tree of a root without arcs: nothing but the root is reached."""
    ids = id_dtype(graph.rows)
    parent = np.full(graph.rows, np.iinfo(ids).max, ids)
    tree = Tree(kernel, root, graph.position_of(root), parent, np.empty(0, _measure(graph, kernel)))
    return replace(tree, measure=np.full(graph.rows, tree.unreached, tree.measure.dtype))


def _measure(graph: Graph, kernel: str) -> np.dtype[Any]:
    if kernel == "bfs":
        return np.dtype(np.int32)
    return rank_memory.distance_dtype(graph)


def _answer_bytes(graph: Graph, kernel: str, arrays: str) -> int:
    """Memory of an answer that is not written: vertices, parents, and levels or distances.

    On a device stands all of it; then it is the vertices alone, on their way there.
    """
    return graph.vertices * (8 if arrays == CUPY else 16 + _measure(graph, kernel).itemsize)


def _say(progress: Progress, notes: tuple[str, ...]) -> None:
    for note in notes:
        progress.note(note)


def search(
    graph: Graph,
    kernel: str,
    root: int,
    *,
    place: Place,
    progress: Progress,
    out: Path | None = None,
    exchange: str = "auto",
    method: str = edges_method.ROWS,
    overwrite: bool = False,
    arrays: str = NUMPY,
) -> TreeResult:
    """Search from one vertex and give the answer, or write it.

    Raises
    ------
    UnknownVertexError, UsageError, NegativeWeightError, MemoryBudgetError, OutputExistsError
        Before anything is written.
    DeviceError, DeviceBusyError
        If CUDA was asked for, and is not there or others use it; nothing is written then.
    CorruptStoreError
        If a chunk is not as the manifest says; nothing is written then either.
    """
    resident.require_same(graph.path, graph.identity)
    graph.require(resident.ORDER_OF[kernel])
    root = _as_id(root)
    graph.position_of(root)
    held_bytes = 0 if out is not None else _answer_bytes(graph, kernel, arrays)
    way = choose(
        graph,
        kernel,
        place,
        exchange=exchange,
        method=method,
        tiers=True,
        pinned=True,
        answer_bytes=held_bytes,
        on_device=arrays == CUPY,
    )
    _require_arrays(arrays, way, place, out)
    writing = nullcontext() if out is None else partial_store(out, "result", overwrite=overwrite)
    told = disk_notes.told(graph.identity, f"{kernel} from {root}", place, progress)
    with writing as store, progress.stage(f"{kernel} from {root}"), told:
        task = SearchTask(
            str(graph.path),
            graph.identity,
            kernel,
            root,
            _folder(store),
            method,
            way.device,
            arrays,
            pinned_bytes=place.cuda_limits.pinned_bytes,
            pins_if_busy=place.wanted == CUDA,
        )

        def run(way: Way) -> Written:
            chosen = replace(
                task,
                device=way.device,
                budget_bytes=way.budget_bytes,
                copies=way.copies,
                host_bytes=way.host_bytes,
                may_stay=way.device == CUDA
                and ranks_instead(graph, kernel, way, place, exchange) is None
                and cuda_disk.suits(graph, kernel, place),
            )
            return _carry_out(graph, chosen, way.exchange, place)

        def run_or_deal(way: Way) -> Written:
            try:
                return run(way)
            except MemoryBudgetError as error:
                ranks = ranks_instead(graph, kernel, way, place, exchange)
                if ranks is None:
                    raise
                progress.note(f"{kernel} {ranks.said}: {error}")
            return run(ranks)

        def fall_back(why: str) -> Way:
            return on_cpu(
                graph,
                kernel,
                place,
                exchange=exchange,
                method=method,
                why=why,
                tiers=True,
                answer_bytes=held_bytes,
            )

        if arrays == CUPY:  # nothing else than the device will do
            written = run(way)
        else:
            written = carry_out(way, kernel, place, progress, run_or_deal, fall_back)
        _say(progress, written.notes)
        if store is not None:
            dtype = _measure(graph, kernel)
            attributes = result_attributes(kernel, root, graph.content_sha256, dtype)
            store.commit("result", attributes, written.specs, written.entries)
    if out is not None:
        return replace(TreeResult.open(out), elapsed_s=written.course.elapsed_s)
    kind = BfsResult if kernel == "bfs" else SsspResult
    return kind(root, written.course.elapsed_s, dict(written.columns or {}))


def _as_id(source: Any) -> int:
    try:
        return operator.index(source)
    except TypeError:
        raise UsageError(f"source {source!r}: give one vertex id, an integer") from None


def _folder(store: Partial | None) -> str | None:
    return None if store is None else str(store.folder)


def _require_arrays(arrays: str, way: Way, place: Place, out: Path | None) -> None:
    if arrays not in (NUMPY, CUPY):
        raise UsageError(f"arrays {arrays!r}: choose {NUMPY} or {CUPY}")
    if arrays == NUMPY:
        return
    if place.client is not None or out is not None:
        raise UsageError(
            "arrays='cupy' leaves the answer on this process's device: leave client= and out= out"
        )
    if way.device != CUDA or way.exchange != "one":
        raise UsageError(
            f"arrays='cupy' needs a search by one rank on a CUDA device, and this one is {way.said}"
        )


def _carry_out(graph: Graph, task: SearchTask, chosen: str, place: Place) -> Written:
    internal = graph.internal(task.root)
    if internal < 0:
        return place.call(answer_lonely, task)
    ways = Ways(search_whole, _join, WritePart, _gather)
    return ways.carry_out(graph, task, MakeRanks(task, internal), chosen, place)


def search_whole(task: SearchTask) -> Written:
    """One rank with the whole graph; runs on the worker that holds it.

    Where memory is refused, more of the arcs stay in the store; or, on a CUDA device, rows are in
    pinned host memory.

    Raises
    ------
    MemoryBudgetError
        The least was refused.
    DeviceBusyError
        Others have the device's memory, all but less than what would do.
    """
    refused: tuple[str, ...] = ()
    asked, busy = task, ""
    while True:
        try:
            written = _search_held(task)
            if refused:  # the next search need not be refused first
                resident.hold_instead(_searched(asked), _searched(task))
            return replace(written, notes=(*refused, *written.notes))
        except (MemoryError, MemoryBudgetError, DeviceBusyError) as error:
            go_on = _less_of(task) if _may_go_on(error, task) else None
            if go_on is None:
                if busy and not isinstance(error, DeviceBusyError):
                    # What was tried instead needs something else; later this may be needless.
                    raise DeviceBusyError(busy) from error
                raise
            is_busy = isinstance(error, DeviceBusyError)
            busy = busy or (str(error) if is_busy else "")
        # Only now: the frames of the error kept what they had of the memory.
        less, note = go_on(task)
        said = f"others have memory of the device: {note}" if is_busy else note
        task, refused = replace(task, **less), (*refused, said)


def _may_go_on(error: Exception, task: SearchTask) -> bool:
    if isinstance(error, DeviceBusyError):
        return task.device == CUDA and task.pins_if_busy
    return may_go_on(error, task)


def _less_of(task: SearchTask) -> Callable[[SearchTask], tuple[dict[str, Any], str]] | None:
    """What says how to go on with less memory; None where there is no such way."""
    if has_less(task) and not _pins_too_much(task):
        return with_less
    return in_store if may_go_to_store(task) else None


def _pins_too_much(task: SearchTask) -> bool:
    """Whether what holds less of a CUDA device's memory is beyond the limit of pinned memory."""
    if task.device != CUDA or task.pinned_bytes is None:
        return False
    graph = resident.open_same(task.path, task.identity)
    return cuda_tiers.pinned_bytes(graph, task.kernel) > task.pinned_bytes


def _searched(task: SearchTask) -> tuple[Any, ...]:
    """What `resident.searcher` is asked for."""
    whom = task.path, task.identity, task.kernel, task.method, task.device
    return *whom, task.budget_bytes, task.copies, task.arrays == CUPY, task.host_bytes


def _search_held(task: SearchTask) -> Written:
    with resident.searcher(*_searched(task), less=not _pins_too_much(task)) as held:
        before = held.moved
        if task.arrays == CUPY:
            written = device_answer.search(held, task.root)
            notes = _pinned_notes(held, written.course) or _moved_since(held, before)
            return replace(written, notes=notes)
        tree, course = run_search(held, task.root)
        notes = _pinned_notes(held, course)
        written = replace(_written(task, tree, held.ids, course), notes=notes)
        if said := _moved_since(held, before):
            written = replace(written, notes=said)
            # The next search reads a chunk of ids before it has its turn.
            give_back_freed_memory()
        return written


def _pinned_notes(held: resident.Searcher, course: Course) -> tuple[str, ...]:
    """What is said of rows in pinned memory, where they are there."""
    if held.pinned is None:
        return ()
    bus = cuda_tiers.over_bus(held.search, course.elapsed_s)
    return (cuda_tiers.note_of(held.pinned, bus),)


def _moved_since(held: resident.Searcher, before: Moved | None) -> tuple[str, ...]:
    """What is said of a search whose arcs stay in the store; nothing of others."""
    if before is None or held.moved is None:
        return ()
    moved = held.moved.since(before)
    if isinstance(held.search, DeviceTierSearch):
        return (cuda_disk.note_of(held.search, moved),)
    return (tiers.note_of(held.search.plan, moved),)


def answer_lonely(task: SearchTask) -> Written:
    """A root without arcs needs no rows."""
    graph = resident.open_same(task.path, task.identity)
    if task.arrays == CUPY:
        return device_answer.lonely(graph, resident.load_ids(graph), task)
    return _deliver(task, graph, (lonely_tree(graph, task.kernel, task.root), Course(0.0, ())))


def _deliver(task: SearchTask, graph: Graph, joined: tuple[Tree, Course]) -> Written:
    return _written(task, joined[0], resident.load_ids(graph), joined[1])


def _written(task: SearchTask, tree: Tree, ids: Any, course: Course) -> Written:
    if task.folder is None:
        return Written(course, columns=columns_of(tree, ids))
    specs, entries = write_columns(tree, ids, Path(task.folder))
    return Written(course, tuple(specs), tuple(entries))


@dataclass(frozen=True)
class MakeRanks:
    """Makes a worker's coroutines; the shards it loads stay on the worker for the next search."""

    task: SearchTask
    internal: int

    def __call__(self, shards: Sequence[int]) -> tuple[dict[int, Any], Any]:
        """Coroutines of these shards and what they share."""
        from ooc_graph.exchange import scheduler  # noqa: PLC0415 (imports distributed)

        return self.build(shards, resident.Ranks(scheduler.worker_state()))

    def build(self, shards: Sequence[int], kept: resident.Ranks) -> tuple[dict[int, Any], Any]:
        """As the call, with ranks that are taken from ``kept`` and go back there."""
        resident.release()
        graph = resident.open_same(self.task.path, self.task.identity)
        if self.task.device == CPU:
            warm(self.task.kernel, graph, resident.device(), variant=RANKS)
        key = (self.task.path, self.task.identity, self.task.kernel, self.task.device)
        kept.keep_only(key, shards)
        ranks = {shard: kept.take(key, shard) for shard in shards}
        missing = [shard for shard in shards if ranks[shard] is None]
        if self.task.device == CUDA:
            there = [shard for shard in shards if shard not in missing]
            needed = rank_memory.ranks_bytes(graph, self.task.kernel, missing, there)
            cuda_modules.require_memory(needed, f"{self.task.kernel} on {graph.path}")
        ranks |= {shard: self._rank(graph, shard) for shard in missing}
        coroutines, shared = self._coroutines(graph, ranks)
        return {
            shard: _timed(coroutine, partial(kept.put_back, key, shard, ranks[shard]))
            for shard, coroutine in coroutines.items()
        }, shared

    def _rank(self, graph: Graph, shard: int) -> Any:
        rows = graph.load(resident.ORDER_OF[self.task.kernel], shard)
        return getattr(resident.device(self.task.device), f"{self.task.kernel}_rank")(rows)

    def _coroutines(self, graph: Graph, ranks: dict[int, Any]) -> tuple[dict[int, Any], Any]:
        device = resident.device(self.task.device)
        if self.task.kernel == "bfs":
            shared: Any = device.bfs_shared(graph.rows, graph.shards)
            algorithm: Any = bfs
        else:
            shared = device.sssp_shared(graph.rows, _measure(graph, "sssp"))
            algorithm = sssp
        return {
            shard: algorithm(rank, self.internal, shared) for shard, rank in ranks.items()
        }, shared


def _timed(coroutine: Any, put_back: Callable[[], None]) -> Generator[Any, Any, Any]:
    """The coroutine; its tree has the seconds from first step to last, and arrays of its own."""
    start = perf_counter()
    try:
        tree = yield from coroutine
        return replace(tree.copy(), elapsed_s=perf_counter() - start)
    finally:
        # Two runs at once on a worker must not have the same rank: it is free only now.
        put_back()


@dataclass(frozen=True)
class WritePart:
    """Writes a rank's part of the answer where the gathering task finds it."""

    folder: str

    def __call__(self, shard: int, tree: Any) -> Course:
        """Write it; only the course travels."""
        kernel = "bfs" if hasattr(tree, "level") else "sssp"
        np.save(Path(self.folder) / f"{shard}-parent.npy", tree.parent)
        measure = tree.level if kernel == "bfs" else tree.distance
        np.save(Path(self.folder) / f"{shard}-measure.npy", measure)
        return course_of(kernel, tree)


def _gather(task: SearchTask, courses: Sequence[Course]) -> Written:
    """Bring the parts together, in original order, in the partial store."""
    graph, parts = resident.open_same(task.path, task.identity), task.parts
    columns = [
        (np.load(parts / f"{s}-parent.npy"), np.load(parts / f"{s}-measure.npy"))
        for s in range(graph.shards)
    ]
    tree = _join_columns(graph, task, columns)
    return _deliver(task, graph, (tree, slowest(courses)))


def _join(task: SearchTask, graph: Graph, trees: Sequence[Any]) -> Written:
    columns = [(t.parent, t.level if task.kernel == "bfs" else t.distance) for t in trees]
    courses = [course_of(task.kernel, tree) for tree in trees]
    return _deliver(task, graph, (_join_columns(graph, task, columns), slowest(courses)))


def _join_columns(
    graph: Graph, task: SearchTask, columns: Sequence[tuple[AnyArray, AnyArray]]
) -> Tree:
    tree = lonely_tree(graph, task.kernel, task.root)
    for shard, (parent, measure) in enumerate(columns):
        mine = Dealing(graph.rows, graph.shards, shard).owned()
        tree.parent[mine], tree.measure[mine] = parent, measure
    return tree
