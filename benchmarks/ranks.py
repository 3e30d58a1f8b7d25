"""Searches by ranks on worker processes against one process of all cores, by part.

    python benchmarks/ranks.py --store G.zarr --scale 22 [--workers CORES] [--searches 8]

The store is that of Graph500's generator with a shard for each worker; it is built if it is not
there. Each source is searched by one process of all cores, and by the ranks of the workers, of one
thread each, in turn; the answers are compared byte for byte. Times are of the search alone: of
ranks, from when all have begun to when the last is done.

A rank's time has these parts, here as means over the ranks: its steps, taking in what all ranks
share (merge), waiting for the slowest rank of a superstep, and the exchange itself. On a busy
machine a message waits for a core in every superstep; processor time of all threads, those of Dask
included, is measured as well.

Workers share memory; each source is searched through Dask's connections, too (by_messages).

With --budget BYTES each worker, and the one process, keeps heads of its rows in memory within so
many bytes, and reads the tails from the store; what they read is recorded.

With --owned each rank has the distances of its own rows alone, as where memory is short (sssp).

With --several N it measures instead how long one call takes for N sources, each with a store: by
one worker of one thread and by all workers, in turn.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster
from exchange_latency import share_memory
from harness.graphs import internal_keys
from harness.program import KERNELS, Program, load_average
from harness.timing import answer_of, measure_of, medians, take_turns

import ooc_graph as og
from ooc_graph.exchange.scheduler import run
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache
from ooc_graph.search.ranks import MakeRanks
from ooc_graph.search.single import ALGORITHMS
from ooc_graph.search.steps import of_all_rows
from ooc_graph.strategies.cpu.in_memory import InMemory
from ooc_graph.strategies.cpu.on_disk import OnDisk
from ooc_graph.strategies.cpu.owned import Owned
from ooc_graph.strategies.cpu.owned_on_disk import OwnedOnDisk
from ooc_graph.strategies.owned_lists import MOST_LISTED, messages_bytes
from ooc_graph.strategies.ranks import OfRanks, Ranks


class Clocked:
    """An object whose methods' seconds are added up by name."""

    def __init__(self, inner: Any, seconds: dict[str, float]) -> None:
        self._inner, self._seconds = inner, seconds

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_inner", "_seconds"):
            super().__setattr__(name, value)
        else:
            setattr(self._inner, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return partial(self._call, name, found) if callable(found) else found

    def _call(self, name: str, method: Any, *arguments: Any, **options: Any) -> Any:
        begun = perf_counter()
        try:
            return method(*arguments, **options)
        finally:
            self._seconds[name] += perf_counter() - begun


no_seconds = partial(defaultdict, float)


@dataclass
class Course:
    """When a rank began, asked, was answered and ended; seconds of its steps and merges.

    Processor time is that of its process.
    """

    merges: dict[str, float]
    steps: dict[str, float] = field(default_factory=no_seconds)
    begun: float = 0.0
    asked: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    ended: float = 0.0
    processor: float = 0.0

    def of(self, coroutine: Any) -> Generator[Any, Any, Any]:
        """The coroutine, noting its course."""
        self.begun, processor = perf_counter(), process_time()
        try:
            request = next(coroutine)
            while True:
                self.asked.append(perf_counter())
                answer = yield request
                self.answered.append(perf_counter())
                request = coroutine.send(answer)
        except StopIteration as stop:
            self.ended = perf_counter()
            self.processor = process_time() - processor
            return stop.value

    def beside(self, coroutine: Any) -> Generator[Any, Any, tuple[Any, "Course"]]:
        """The coroutine, returning this with its tree."""
        tree = yield from coroutine
        return tree, self


def task_of(
    graph: og.Graph, kernel: str, root: int, budget_bytes: int, *, owned: bool = False
) -> SearchTask:
    """A search by ranks that have their rows in memory, or heads of them within a budget."""
    inner: OfRanks = OnDisk() if budget_bytes else InMemory()
    if owned:
        inner = OwnedOnDisk() if budget_bytes else Owned()
    strategy = Ranks(inner)
    messages = messages_bytes(graph, graph.shards, MOST_LISTED) if owned else 0
    reserved = Reservation(strategy.name, budget_bytes, messages_bytes=messages)
    of_graph = str(graph.path), graph.identity
    return SearchTask(*of_graph, Request(kernel), root, None, strategy, reserved)


def load_alone(graph: og.Graph, kernel: str, budget_bytes: int) -> Any:
    """A search of the whole graph by this process."""
    strategy = OnDisk() if budget_bytes else InMemory()
    reserved = Reservation(strategy.name, budget_bytes, copies=True)
    return strategy.load(graph, kernel, reserved).search


def bytes_read() -> int:
    """What a worker's ranks, of the kernel that was used last, have read of the store."""
    *_, engine = engine_cache._engines.values()
    return sum(rank.io_stats.bytes for rank in engine.ranks.values() if hasattr(rank, "io_stats"))


@contextmanager
def make(task: SearchTask, mine: Sequence[int]) -> Iterator[tuple[dict[int, Any], Any]]:
    """Coroutines of a worker's ranks, as the package makes them, with their courses."""
    algorithm, merges = ALGORITHMS[task.kernel], no_seconds()
    courses = {shard: Course(merges) for shard in mine}

    def start(*given: Any) -> tuple[dict[int, Any], Any]:
        *before, ranks, device, states = given
        steps = {shard: Clocked(rank, courses[shard].steps) for shard, rank in ranks.items()}
        coroutines, shared = algorithm.start(*before, steps, device, states)
        return {shard: courses[shard].of(one) for shard, one in coroutines.items()}, shared

    with MakeRanks(task, start)(mine) as (coroutines, shared):
        told = {shard: courses[shard].beside(one) for shard, one in coroutines.items()}
        yield told, Clocked(shared, merges)


def parts_of(courses: Sequence[Course]) -> dict[str, float]:
    """Seconds by part, means over the ranks, and of the whole."""
    asked = np.array([course.asked for course in courses])
    answered = np.array([course.answered for course in courses])
    last = asked.max(axis=0)
    # Who begins early waits in the first superstep, which is none of the search.
    begun = max(course.begun for course in courses)
    merge = float(np.mean([course.merges["merge"] for course in courses]))
    parts: dict[str, float] = defaultdict(float)
    for course in courses:
        for name, seconds in course.steps.items():
            parts[name] += seconds / len(courses)
    steps = sum(parts.values())
    ends = [course.ended for course in courses]
    parts["waiting"] = float((last - asked)[:, 1:].sum(axis=1).mean() + max(ends) - np.mean(ends))
    parts["merge"] = merge
    parts["exchange"] = float((answered - last).sum(axis=1).mean()) - merge
    parts["whole"] = max(ends) - begun
    parts["rest"] = parts["whole"] - steps - parts["waiting"] - merge - parts["exchange"]
    return dict(parts)


def compared(
    kernel: str,
    graph: og.Graph,
    client: Client,
    roots: Sequence[int],
    budget_bytes: int,
    *,
    owned: bool,
) -> dict[str, Any]:
    """Search from each root both ways; times and parts."""
    search, original_of = load_alone(graph, kernel, budget_bytes), graph.original_of()
    read: dict[str, list[int]] = {"alone": [], "ranks": []}
    alone, together, parts, supersteps, sent = [], [], [], [], []
    processor: dict[str, list[float]] = {"alone": [], "ranks": []}
    by_messages: dict[str, list[float]] = {"whole": [], "exchange": []}
    sent_apart: list[int] = []
    for index, root in enumerate([roots[0], roots[0], *roots]):
        begun = process_time()
        tree = search.run(root)
        alone_s = process_time() - begun
        task = task_of(graph, kernel, int(original_of[root]), budget_bytes, owned=owned)
        results, stats = run(client, partial(make, task), graph.shards)
        arrays = ((tree.parent, measure_of(tree)) for tree, _ in results)
        whole = of_all_rows(graph, graph.shards, arrays)
        assert tuple(column.tobytes() for column in whole) == answer_of(tree)
        if budget_bytes:
            read["alone"].append(search.io_stats.bytes)
            read["ranks"].append(sum(client.run(bytes_read).values()))
        else:
            client.run(share_memory, False)
            apart, apart_stats = run(client, partial(make, task), graph.shards)
            client.run(share_memory, True)
            for name, seconds in parts_of([course for _, course in apart]).items():
                if index >= 2 and name in by_messages:
                    by_messages[name].append(seconds)
            sent_apart.append(apart_stats.bytes_sent)
        if index < 2:  # compiling, and memory that is touched for the first time
            continue
        found = parts_of([course for _, course in results])
        alone.append(tree.elapsed_s)
        together.append(found.pop("whole"))
        processor["alone"].append(alone_s)
        processor["ranks"].append(sum(course.processor for _, course in results))
        parts.append(found)
        supersteps.append(stats.supersteps)
        sent.append(stats.bytes_sent)
    each = {who: np.diff(read[who])[1:] for who in read if read[who]}
    names = {name for found in parts for name in found}
    middle = {n: float(np.median([found.get(n, 0.0) for found in parts])) for n in names}
    return {
        "alone_s": alone,
        "ranks_s": together,
        "ratio_of_medians": float(np.median(together) / np.median(alone)),
        "processor_s": {who: float(np.median(times)) for who, times in processor.items()},
        "by_messages_s": {n: float(np.median(times)) for n, times in by_messages.items() if times},
        "parts_s": dict(sorted(middle.items(), key=lambda part: -part[1])),
        "supersteps": float(np.median(supersteps)),
        "bytes_sent": float(np.median(sent)),
        **({"by_messages_bytes": float(np.median(sent_apart[2:]))} if sent_apart else {}),
        **{f"{who}_read_bytes": float(np.median(bytes_)) for who, bytes_ in each.items()},
    }


@contextmanager
def one_thread_each(workers: int) -> Iterator[Client]:
    """Workers of one thread, however many cores there are."""
    given = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": 0}
    with LocalCluster(dashboard_address="127.0.0.1:0", **given) as cluster, Client(cluster) as one:
        yield one


def dealt(
    kernel: str, graph: og.Graph, sources: Sequence[int], clients: dict[str, Client], folder: Path
) -> dict[str, Any]:
    """Seconds of a call for all sources by each client's workers, in turn."""

    def call(name: str) -> None:
        getattr(og, kernel)(graph, sources, out=folder / "answers", client=clients[name])

    def remove(_: str) -> None:
        shutil.rmtree(folder / "answers", ignore_errors=True)

    calls = {name: partial(call, name) for name in clients}
    take_turns(calls, 1, before=remove)
    turns = take_turns(calls, 3, before=remove)
    remove("")
    middle = medians(turns.times_s)
    return turns.times_s | {"times_faster": middle["one_worker_s"] / middle["all_workers_s"]}


def main() -> None:
    program = Program("ranks", __doc__, scale=22, searches=8, kernels=KERNELS)
    program.add("--store", type=Path, required=True)
    program.add("--workers", type=int, default=len(os.sched_getaffinity(0)))
    program.add("--budget", type=int, default=0)
    program.add("--owned", action="store_true")
    program.add("--several", type=int, default=0)
    options = program.parse()
    source = og.Kronecker(options.scale)
    if not options.store.exists():
        og.build(source, options.store, shards=options.workers)
    graph = og.open(options.store)
    assert graph.shards == options.workers
    if options.several:
        keys = source.search_keys(options.several)
        with (
            dask.config.set(og.dask_config()),
            program.scratch() as folder,
            one_thread_each(1) as one,
            one_thread_each(options.workers) as many,
        ):
            for kernel in options.kernels:
                clients = {"one_worker_s": one, "all_workers_s": many}
                figures = dealt(kernel, graph, keys, clients, folder)
                parameters = program.given("scale", "workers", "several") | {"kernel": kernel}
                program.record(parameters, figures | load_average(), "several")
        return
    roots = internal_keys(graph, source, options.searches)
    with og.local_cluster(options.workers) as client:
        for kernel in options.kernels:
            owned = options.owned
            figures = compared(kernel, graph, client, roots, options.budget, owned=owned)
            parameters = program.given("scale", "workers") | {"edge_factor": 16, "kernel": kernel}
            parameters |= {"owned": True} if owned else {}
            program.record(parameters | {"budget_bytes": options.budget}, figures | load_average())


if __name__ == "__main__":
    main()
