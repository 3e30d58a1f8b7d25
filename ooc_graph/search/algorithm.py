"""What an algorithm brings so that one rank, or many by any exchange, can carry it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from ooc_graph.answers.result import Result
from ooc_graph.answers.scatter import Columns, Ids
from ooc_graph.errors import UsageError
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.reservation import LOCAL, ONE
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import WholeGraph
from ooc_graph.model.task import SearchTask, Trace, Written, slowest, trace_of
from ooc_graph.runtime import engine_cache, process, same_graph
from ooc_graph.runtime.engine_keys import lend
from ooc_graph.runtime.machine import give_back_freed_memory
from ooc_graph.runtime.workplace import OnCluster, Workplace
from ooc_graph.search.on_engine import by_device, found_by, internal_root
from ooc_graph.search.steps import Arrays, by_steps, of_all_rows
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import deliver, deliver_late, describe, left_there, spare_bytes
from ooc_graph.strategies.ranks import Ranks


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm brings so that each exchange can carry it out; functions of a module."""

    result: type[Result]  # what users are given
    # The coroutines of a worker's ranks, and what they share: called with the task, the graph, the
    # steps by rank, the device, and what gives for each rank where it writes its states.
    start: Callable[..., tuple[dict[int, Any], Any]]
    # Attributes of what a rank finds, and the search of a whole graph: an array each, by row; or
    # without axes, and then the same on all ranks.
    arrays: tuple[str, ...]
    # These arrays if there is nothing to search: of a graph without rows, or a root without arcs.
    nothing: Callable[[SearchTask, Graph], Arrays]
    # The columns by original id, made of these arrays of all rows, and of id tables.
    columns: Callable[[SearchTask, Graph, Arrays, Ids], Columns]

    def carry_out(self, graph: Graph, task: SearchTask, workplace: Workplace) -> Written:
        """Carry a task out by its exchange; UsageError if it needs a cluster, and there is none."""
        if not _has_arcs(graph, task, workplace):
            return self.without_arcs(graph, task)
        exchange = task.reserved.exchange
        if exchange == ONE:
            return self._whole_at(workplace, graph, task)
        if exchange == LOCAL:
            return workplace.call(self.ranks_in_process, task)
        if workplace.client is None:
            raise UsageError("the scheduler exchange needs a Dask client")
        # Imported by searches over ranks alone; the scheduler imports distributed.
        from ooc_graph.exchange import scheduler  # noqa: PLC0415
        from ooc_graph.exchange.left import Left  # noqa: PLC0415
        from ooc_graph.search.rank_states import remove_all  # noqa: PLC0415
        from ooc_graph.search.ranks import MakeRanks, WritePart  # noqa: PLC0415

        run = partial(
            scheduler.run,
            workplace.client,
            MakeRanks(task, self.start),
            graph.shards,
            renew=partial(MakeRanks.renewed, note=workplace.note),
            joins=_joins(task),
            threads=workplace.resources(on_cpu=True).threads,
            note=workplace.note,
        )
        if task.reserved.messages_bytes:
            # Ranks that own their distances leave no memory for answers of earlier searches.
            Left.bring_oldest(workplace.client, 0)
        if task.request.on_worker:
            from ooc_graph.search.rank_answers import left_by_ranks  # noqa: PLC0415

            # Of no rows: what is known of columns besides their values.
            ids = Ids(np.empty(0, np.int32), np.empty(0, np.int64), graph.first_id, None)
            columns = self.columns(task, graph, self.nothing(task, graph), ids)
            written, stats = left_by_ranks(
                run, workplace.cluster, graph, task, columns, self.columns_of
            )
        elif task.folder is None:
            found, stats = run()
            written = self.joined(task, graph, found)
        else:
            traces, stats = run(finish=WritePart(task.kernel, self.arrays, str(task.parts)))
            if task.checkpoints is not None:
                # All parts are there, and the answer may need the space.
                remove_all(task.checkpoints)
            written = workplace.call(self.gather, task, traces)
        return replace(written, notes=(f"{task.kernel}: {stats.summary}",) if stats.links else ())

    def _whole_at(self, workplace: Workplace, graph: Graph, task: SearchTask) -> Written:
        """Have a worker, or this process, search; the answer may stay on the worker."""
        search = process.without_traceback, self.whole, task
        if not isinstance(workplace, OnCluster) or not task.request.on_worker:
            return cast(Written, workplace.call(*search))
        found, there = workplace.call_leaving(describe, spare_bytes(graph, task.request), *search)
        if there is None:
            return cast(Written, found)
        return left_there(found, graph, workplace.cluster, there)

    def whole(self, task: SearchTask) -> Written:
        """Search by one rank with the whole graph; runs on the worker that holds it."""
        with engine_for(task) as engine:
            before = engine.io_stats
            written = by_device(engine, task)
            if written is None:
                trace, arrays = self._search(engine, task)
                if _may_be_late(task):
                    columns = self.columns(task, engine.graph, arrays, engine.ids)
                    written, late = deliver_late(columns, trace)
                    lend(engine, late.settle)
                else:
                    written = self._delivered(task, engine.graph, arrays, engine.ids, trace)
            if engine.note is None:
                return written
            io_stats = engine.read_since(before)
            if io_stats is not None and not task.request.on_device:
                # The next search reads a chunk of ids before it has its turn.
                give_back_freed_memory()
            read_bytes = None if io_stats is None else io_stats.bytes
            return replace(written, notes=(engine.note(io_stats),), read_bytes=read_bytes)

    def _search(self, engine: Engine, task: SearchTask) -> tuple[Trace, Arrays]:
        """Search a loaded graph; by the steps of its ranks if the device has no search of it."""
        if hasattr(engine.search, "run"):
            found = found_by(engine, task)
            return trace_of(task.kernel, found), self._arrays_of(found)
        graph, ranks = engine.graph, engine.steps
        trace, parts = by_steps(self.start, task, graph, ranks)
        return trace, of_all_rows(graph, len(ranks), map(self._arrays_of, parts))

    def without_arcs(self, graph: Graph, task: SearchTask) -> Written:
        """The answer if there is nothing to search; it needs no rows, nor whose ids they have."""
        originals = None if graph.first_id is not None else graph.original_ids()
        internal_of = np.broadcast_to(np.int32(-1), graph.vertices)
        if task.root is None:
            internal_of = internal_of.copy()
        ids = Ids(internal_of, np.empty(0, np.int64), graph.first_id, originals)
        if task.request.on_device:
            from ooc_graph.sinks import device_columns  # noqa: PLC0415

            return device_columns.without_arcs(graph, ids, task)
        arrays, trace = self.nothing(task, graph), Trace(0.0, ())
        if _may_be_late(task):
            return deliver_late(self.columns(task, graph, arrays, ids), trace)[0]
        return self._delivered(task, graph, arrays, ids, trace)

    def ranks_in_process(self, task: SearchTask) -> Written:
        """All ranks in this process, in turn."""
        from ooc_graph.exchange.ranks import run_in_process  # noqa: PLC0415
        from ooc_graph.search.ranks import MakeRanks  # noqa: PLC0415

        graph = same_graph.open_same(task.path, task.identity)
        make = MakeRanks(task, self.start)
        with make(range(graph.shards)) as (coroutines, shared):
            found = run_in_process(coroutines, shared)
        return self.joined(task, graph, found)

    def gather(self, task: SearchTask, traces: Sequence[Trace]) -> Written:
        """Bring together, in the partial store, what every rank wrote."""
        from ooc_graph.search.ranks import read_parts  # noqa: PLC0415

        graph = same_graph.open_same(task.path, task.identity)
        parts = read_parts(task.parts, self.arrays, len(traces))
        arrays = of_all_rows(graph, len(traces), parts)
        written = self._delivered(task, graph, arrays, load_ids(graph), slowest(traces))
        return replace(written, ranks=len(traces))

    def joined(self, task: SearchTask, graph: Graph, found: Sequence[Any]) -> Written:
        """Bring together what every rank found."""
        trace = slowest([trace_of(task.kernel, one) for one in found])
        written = deliver(self.columns_of(task, graph, found), task.folder, trace, task.like)
        return replace(written, ranks=len(found))

    def columns_of(self, task: SearchTask, graph: Graph, found: Sequence[Any]) -> Columns:
        """The columns by original id of what every rank found."""
        arrays = of_all_rows(graph, len(found), (self._arrays_of(one) for one in found))
        return self.columns(task, graph, arrays, load_ids(graph))

    def _arrays_of(self, found: Any) -> Arrays:
        return tuple(getattr(found, name) for name in self.arrays)

    def _delivered(
        self, task: SearchTask, graph: Graph, arrays: Arrays, ids: Ids, trace: Trace
    ) -> Written:
        return deliver(self.columns(task, graph, arrays, ids), task.folder, trace, task.like)


def _joins(task: SearchTask) -> Literal["", "thread", "worker"]:
    """How the scheduler is to join shards; ranks of components do not search together."""
    if not cast(Ranks, task.strategy).joins:
        return ""
    alone = task.kernel == "components" or task.reserved.messages_bytes
    return "thread" if alone else "worker"


def _has_arcs(graph: Graph, task: SearchTask, workplace: Workplace) -> bool:
    """Whether there is anything to search; an engine of this process knows it without reading."""
    if task.root is None:
        return graph.rows > 0
    engine = None
    # A client may have no device.
    if workplace.client is None:
        engine = engine_cache.loaded(task.key, task.capacity)
    if engine is None:
        return graph.internal(task.root) >= 0
    return internal_root(engine, task.root) >= (0,)


def _may_be_late(task: SearchTask) -> bool:
    """Whether columns may be made when they are read: by this process, of arrays in its memory."""
    return task.folder is None and task.strategy.device == CPU and process.dask_worker() is None


def engine_for(task: SearchTask) -> AbstractContextManager[Engine]:
    """Exclusive use of the engine that a task needs; see `engine_cache.engine`."""
    return engine_cache.engine(task.key, cast(WholeGraph, task.strategy).load, task.capacity)
