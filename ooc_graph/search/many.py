"""Distances from many sources: batches over the cores of this process or a cluster's workers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import cast

from ooc_graph import kernel_cache
from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.answers.late import require_array, require_no_store
from ooc_graph.answers.matrix import LevelsResult, PairsResult
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.keys import key_for, say_changed
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.request import Job, Many, Request
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import DISK, WholeGraph
from ooc_graph.runtime import engine_cache, io_progress, same_graph
from ooc_graph.runtime.workplace import Workplace
from ooc_graph.search.execute import execute, plan_at, retry_after_release
from ooc_graph.search.plan import Plan
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.in_memory import InMemory
from ooc_graph.sinks.in_store import InStore
from ooc_graph.sinks.single import measure_dtype
from ooc_graph.strategies.cpu.on_disk import how_read
from ooc_graph.strategies.many.task import Division, ManyTask, require_answer
from ooc_graph.strategies.many.tasks import how_found, prepare, refuse_negative_loop
from ooc_graph.strategies.many.tiers import note_before, single_of
from ooc_graph.types import AnyArray, IntArray, Progress


def search_many(
    graph: Graph,
    sources: IntArray,
    asked: Asked,
    *,
    workplace: Workplace,
    progress: Progress,
    out: Path | None = None,
    into: AnyArray | None = None,
    overwrite: bool = False,
) -> PairsResult:
    """Find the distances from sources, given by their positions, and give or write them.

    ``into`` is the array that distances go to if they are not written; ``asked`` says if there is
    one. Errors are those of `ooc_graph.johnson`; except for a CorruptStoreError they are raised
    before any distance is written.
    """
    same_graph.require_same(graph)
    require_answerable(graph, asked)
    specs = specs_of(graph, len(sources), asked)
    if into is not None:
        require_no_store(into, out)
        require_array("into", into, specs[0])
    many = Many(specs, asked, out is None)
    request = Request(asked.kernel, many=many)
    if out is None:
        _require_answer(Job(graph, request, workplace.resources(on_cpu=True)), workplace)
    begun_s = perf_counter()
    first = plan_at(workplace, graph, request)
    plan_s = perf_counter() - begun_s
    search = _Search(graph, sources, many, workplace, progress, out, into, overwrite, plan_s)

    def run(found: Plan) -> PairsResult:
        with io_progress.reported(graph.identity, asked.kernel, workplace.client, progress):
            return search.run(found)

    return execute(first, workplace, progress, run)


def _require_answer(job: Job, workplace: Workplace) -> None:
    """Refuse an answer that memory has no room for, whatever is kept of other searches."""
    try:
        require_answer(job)
    except MemoryBudgetError:
        if workplace.client is not None or not engine_cache.keeps_any():
            raise
        workplace.release()
        require_answer(replace(job, resources=workplace.resources(on_cpu=True)))


def specs_of(graph: Graph, sources: int, asked: Asked) -> tuple[ArraySpec, ...]:
    """How distances from so many sources of a graph are stored, and parents where wanted."""
    width = graph.vertices if asked.targets is None else len(asked.targets)
    return answer_specs(asked, sources, width, measure_dtype(graph, single_of(asked.kernel)))


def require_answerable(graph: Graph, asked: Asked) -> None:
    """Refuse what a graph's attributes tell to have no answer."""
    graph.require(ORDER_OF[asked.kernel], signed=True)
    if not asked.hops:
        refuse_negative_loop(graph)
    if asked.reduce == HISTOGRAM:
        asked.bins.width_for(measure_dtype(graph, single_of(asked.kernel)))


@dataclass
class _Search:
    """What `search_many` was asked for, to be carried out by one plan or another."""

    _graph: Graph
    _sources: IntArray
    _many: Many
    _workplace: Workplace
    _progress: Progress
    _out: Path | None
    _into: AnyArray | None
    _overwrite: bool
    _plan_s: float
    _begun_s: float | None = None
    _answers: InMemory | None = None
    _sums_on_device: bool = False

    def run(self, plan: Plan) -> PairsResult:
        """Find all answers; what another plan left of them is completed."""
        task = self._task(plan)
        with self._sink(task) as sink:
            if sink.lacks_any:
                # Potentials may take long: what can be refused without them has been by now.
                self._prepare(task)
                io_stats = sink.find(task, self._workplace, self._progress)
                self._say(task, io_stats)
            columns = sink.finish()
        kind = LevelsResult if self._many.asked.hops else PairsResult
        # Nothing may have been left to search for.
        elapsed_s = 0.0 if self._begun_s is None else perf_counter() - self._begun_s
        info = replace(plan.info, seconds={"plan": self._plan_s, "search": elapsed_s})
        return kind(None, elapsed_s, columns, info)

    def _sink(self, task: ManyTask) -> AbstractContextManager[InMemory | InStore]:
        if self._out is None:
            return nullcontext(self._in_memory(task.sums_on_device))
        return self._in_store(task, self._out)

    def _in_memory(self, sums_on_device: bool) -> InMemory:
        """Room for all answers; with those that were found before, unless bits may differ."""
        if self._answers is not None and sums_on_device == self._sums_on_device:
            return self._answers
        self._answers, self._sums_on_device = None, sums_on_device
        given = self._graph, self._sources, self._many, self._into
        what = f"{self._many.asked.kernel} on {self._graph.name}"
        try:
            self._answers = retry_after_release(what, lambda: InMemory(*given), self._workplace)
        except MemoryBudgetError as error:
            raise MemoryBudgetError(
                f"{what}: the system refuses the memory of the answer; give out= to write it to a "
                "store"
            ) from error
        return self._answers

    @contextmanager
    def _in_store(self, task: ManyTask, out: Path) -> Iterator[InStore]:
        """The store; with what another run, or another plan, left in it."""
        known = _begun_with(self._graph, task, self._sources)
        key = key_for(known)
        with partial_store(out, "result", overwrite=self._overwrite, key=key) as store:
            say_changed(store.other_keys, known, self._progress)
            sink = InStore(self._graph, self._sources, self._many, store)
            sink.require_space(self._progress)
            yield sink

    def _task(self, plan: Plan) -> ManyTask:
        assert isinstance(plan.reserved, Division)
        return ManyTask(
            str(self._graph.path),
            self._graph.identity,
            self._many.asked,
            len(self._sources),
            self._many.specs,
            cast(WholeGraph, plan.strategy),
            plan.reserved,
            capacity=plan.capacity,
        )

    def _prepare(self, task: ManyTask) -> None:
        """See that a task can be done: rows are there, and distances exist."""
        if _is_on_disk(task):
            reserved = task.reserved
            within = reserved.method, reserved.host_bytes, reserved.batch_size
            self._progress.note(note_before(self._graph, task.asked.kernel, *within))
        with self._progress.stage("preparing"):
            self._workplace.call(prepare, task)
        self._begun_s = self._begun_s or perf_counter()

    def _say(self, task: ManyTask, io_stats: IoStats) -> None:
        """Say what was read, or how sources were searched from if not in batches."""
        if _is_on_disk(task):
            self._progress.note(f"{task.asked.kernel} {how_read(io_stats)}")
            return
        if how := self._workplace.call(how_found, task, io_stats):
            self._progress.note(how)


def _is_on_disk(task: ManyTask) -> bool:
    """Whether the CPU searches with arcs in the store."""
    return task.device == CPU and task.strategy.tier == DISK


def _begun_with(graph: Graph, task: ManyTask, sources: IntArray) -> dict[str, str]:
    """What the bytes of all units follow from."""
    asked = task.asked
    return {
        "version": kernel_cache.whole_hash(),
        "kernel": asked.kernel,
        "graph": graph.content_sha256,
        "sources": _digest(sources),
        "targets": "all" if asked.targets is None else _digest(asked.targets),
        "cutoff": str(asked.cutoff),
        "reduce": str(asked.reduce),
        "parents": str(asked.parents),
        "bins": f"{asked.bins.count} {asked.bins.width}",
        "chunks": str(task.spec.chunk),
        # Sums of floats have other last bits there; all else may be completed anywhere.
        "device": task.device if task.sums_on_device else "",
    }


def _digest(positions: IntArray) -> str:
    return hashlib.sha256(positions.data).hexdigest()
