"""Distances from many sources: batches over the cores of this process or a cluster's workers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from ooc_graph import kernel_cache
from ooc_graph.answers.pairs import Asked, pairs_specs
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.answers.result import LevelsResult, PairsResult
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.memory.moved import Moved
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.runtime import engine_cache, io_progress
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.many_in_turn import carry_out_in_turn
from ooc_graph.search.many_refused import reckoned, with_less
from ooc_graph.search.many_ways import PairsWay, plan_by, ways_for
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.in_memory import Held
from ooc_graph.sinks.in_store import Writing
from ooc_graph.strategies.many.dividing import Plan, require_answer, smaller_plan
from ooc_graph.strategies.many.singly import smaller_singly
from ooc_graph.strategies.many.task import PairsTask
from ooc_graph.strategies.many.tasks import how_found, prepare, refuse_negative_loop
from ooc_graph.strategies.many.tiers import note_after, note_before
from ooc_graph.types import AnyArray, IntArray, Progress

Found = TypeVar("Found")


def pairs(
    graph: Graph,
    sources: IntArray,
    asked: Asked,
    *,
    place: Place,
    progress: Progress,
    out: Path | None = None,
    into: AnyArray | None = None,
    overwrite: bool = False,
) -> PairsResult:
    """Find the distances from sources, given by their places, and give or write them.

    Parameters
    ----------
    into
        Where distances go that are not written; with it ``asked`` has room. None: to new memory.

    Raises
    ------
    UsageError, MemoryBudgetError, OutputExistsError, NegativeCycleError, InputError, DiskFullError
        Before any distance is written.
    CorruptStoreError
        If a chunk of the graph is not as the manifest says.
    """
    engine_cache.require_same(graph.path, graph.identity)
    require_answerable(graph, asked)
    specs = specs_of(graph, len(sources), asked)
    if into is not None:
        require_room(into, specs[0], out)
    if out is None:
        # Before a way is looked for, as there is none.
        require_answer(specs, asked, place.resources(on_cpu=True))

    search = _Search(graph, sources, asked, specs, place, progress, into)

    def run(way: PairsWay) -> PairsResult:
        with io_progress.told(graph.identity, asked.kernel, place.client, progress):
            if out is None:
                return search.held(way)
            return search.stored(way, out, overwrite=overwrite)

    ways = ways_for(graph, specs, asked, place.resources, in_memory=out is None)
    return carry_out_in_turn(asked.kernel, ways, place, progress, run)


def specs_of(graph: Graph, sources: int, asked: Asked) -> tuple[ArraySpec, ...]:
    """How distances from so many sources of a graph are stored, and parents where wanted."""
    width = graph.vertices if asked.targets is None else len(asked.targets)
    return pairs_specs(asked, sources, width, _dtype(graph, asked))


def require_room(into: Any, spec: ArraySpec, out: Path | None) -> None:
    """Refuse an array that distances cannot go to.

    Parameters
    ----------
    into
        The array.
    spec
        Of the distances.
    out
        Where they are to be written instead.

    Raises
    ------
    UsageError
    """
    if out is not None:
        raise UsageError("into= and out=: give one of them, an array or a store")
    wanted = spec.shape(spec.length)
    # Of its kinds a matrix keeps two dimensions in each row.
    is_array = isinstance(into, np.ndarray) and not isinstance(into, np.matrix)
    if not is_array or into.dtype != spec.dtype or into.shape != wanted:
        found = type(into).__name__
        if is_array:
            found = f"{into.dtype} {into.shape}"
        raise UsageError(f"into: give a NumPy array of {spec.dtype} {wanted}, not {found}")
    if not into.flags.carray:
        raise UsageError("into: give an array that is C-contiguous, aligned, and may be written to")


def require_answerable(graph: Graph, asked: Asked) -> None:
    """Refuse what a graph's attributes tell to have no answer.

    Raises
    ------
    UsageError, NegativeCycleError
    """
    graph.require(ORDER_OF[asked.kernel], signed=True)
    if not asked.hops:
        refuse_negative_loop(graph)
    if asked.reduce == HISTOGRAM:
        asked.bins.width_for(_dtype(graph, asked))


class _Search:
    """What `pairs` was asked for, to be carried out one way or another."""

    def __init__(
        self,
        graph: Graph,
        sources: IntArray,
        asked: Asked,
        specs: tuple[ArraySpec, ...],
        place: Place,
        progress: Progress,
        into: AnyArray | None,
    ) -> None:
        self._graph, self._sources, self._asked, self._specs = graph, sources, asked, specs
        self._place, self._progress, self._into = place, progress, into
        self._what = f"{asked.kernel} on {graph.path}"
        self._begun_s: float | None = None
        self._answers: Held | None = None
        self._sums_on_device = False

    def held(self, way: PairsWay) -> PairsResult:
        """Find all answers, which stay in memory."""
        plan, self._begun_s = self._plan(way, in_memory=True), None
        answers = self._room(self._task(plan, way).sums_on_device)

        def find(plan: Plan) -> PairsResult:
            task = self._prepared(plan, way)
            moved = answers.find(task, plan.chunks, self._place, self._progress)
            self._say(task, moved)
            kind = LevelsResult if self._asked.hops else PairsResult
            return kind(None, self._elapsed_s, answers.columns)

        return self._with_less(way, plan, find, in_memory=True)

    def _room(self, sums_on_device: bool) -> Held:
        """Room for all answers; with those that another way has found, unless bits may differ."""
        if self._answers is not None and sums_on_device == self._sums_on_device:
            return self._answers
        self._answers, self._sums_on_device = None, sums_on_device
        given = self._graph, self._sources, self._asked, self._specs, self._into
        try:
            self._answers = reckoned(self._what, lambda: Held(*given), self._place)
        except MemoryBudgetError as error:
            raise MemoryBudgetError(
                f"{self._what}: the system refuses the memory of the answer; give out= to write "
                "it to a store"
            ) from error
        return self._answers

    def stored(self, way: PairsWay, out: Path, *, overwrite: bool) -> PairsResult:
        """Write all answers; what another run left of them is gone on with."""
        plan, self._begun_s = self._plan(way, in_memory=False), None
        key = _key(self._graph, self._task(plan, way), self._sources)
        with partial_store(out, "result", overwrite=overwrite, key=key) as store:
            writing = Writing(self._graph, self._sources, self._asked, self._specs, store)
            writing.require_space(self._progress)

            def write(plan: Plan) -> None:
                if writing.missing:
                    # Potentials may take long: what can be refused without them has been by now.
                    task = self._prepared(plan, way)
                    moved = writing.find(task, plan.chunks, self._place, self._progress)
                    self._say(task, moved)
                writing.commit()

            self._with_less(way, plan, write, in_memory=False)
        return replace(PairsResult.open(out), elapsed_s=self._elapsed_s)

    def _plan(self, way: PairsWay, *, in_memory: bool) -> Plan:
        def plan() -> Plan:
            given = self._graph, self._specs, self._asked, self._place.resources()
            return plan_by(way, *given, in_memory=in_memory)

        return reckoned(self._what, plan, self._place)

    def _with_less(
        self, way: PairsWay, plan: Plan, run: Callable[[Plan], Found], *, in_memory: bool
    ) -> Found:
        """Carry out what a plan says, or one that holds less if host memory is refused."""
        if way.is_one_by_one and way.host_bytes is None:
            # There is none that holds less.
            return run(plan)

        def smaller(refused: Plan) -> Plan | None:
            given = self._graph, self._specs, self._asked, self._place.resources()
            if way.is_one_by_one:
                return smaller_singly(*given, refused, in_memory=in_memory)
            return smaller_plan(*given, way.device, refused, in_memory=in_memory)

        return with_less(self._what, plan, smaller, run, self._place, self._progress)

    def _task(self, plan: Plan, way: PairsWay) -> PairsTask:
        whom = str(self._graph.path), self._graph.identity
        budget_bytes = plan.budget_bytes
        if way.device == CUDA and not way.is_one_by_one:
            # Batches take what they find; what searches one by one take follows from their plans.
            budget_bytes = self._place.cuda_limits.device_bytes or 0
        return PairsTask(
            *(*whom, self._asked, len(self._sources), plan.lanes, self._specs),
            device=way.device,
            budget_bytes=budget_bytes,
            method=plan.method,
            closing=plan.closing,
            host_bytes=plan.host_bytes,
            stretch=plan.stretch,
        )

    def _prepared(self, plan: Plan, way: PairsWay) -> PairsTask:
        """A task that can be done: rows are there, and distances exist."""
        if plan.budget_bytes and way.device == CPU:
            within = plan.method, plan.budget_bytes, plan.lanes
            self._progress.note(note_before(self._graph, self._asked.kernel, *within))
        task = self._task(plan, way)
        with self._progress.stage("preparing"):
            self._place.call(prepare, task)
        self._begun_s = self._begun_s or perf_counter()
        return task

    @property
    def _elapsed_s(self) -> float:
        """Seconds since searches began."""
        return 0.0 if self._begun_s is None else perf_counter() - self._begun_s

    def _say(self, task: PairsTask, moved: Moved) -> None:
        """Say what was read, or which way was taken where it was not batches."""
        if task.budget_bytes and task.device == CPU:
            self._progress.note(note_after(task.asked.kernel, moved))
            return
        if how := self._place.call(how_found, task, moved):
            self._progress.note(how)


def _dtype(graph: Graph, asked: Asked) -> np.dtype[Any]:
    if asked.hops:
        return np.dtype(np.int32)
    weights = graph.weight_dtype
    return weights if weights is not None and weights.kind == "f" else np.dtype(np.int64)


def _key(graph: Graph, task: PairsTask, sources: IntArray) -> str:
    """What the bytes of all units follow from."""
    digest = hashlib.sha256()
    told = {
        "package": kernel_cache.whole_hash(),
        "kernel": task.asked.kernel,
        "graph": graph.content_sha256,
        "cutoff": task.asked.cutoff,
        "reduce": task.asked.reduce,
        "parents": task.asked.parents,
        "bins": [task.asked.bins.count, task.asked.bins.width],
        "sources a chunk": task.spec.chunk,
        "targets": None if task.asked.targets is None else len(task.asked.targets),
    }
    if task.sums_on_device:
        # Sums of floats have other last bits there; all else may be gone on with anywhere.
        told["device"] = task.device
    digest.update(json.dumps(told, sort_keys=True).encode())
    digest.update(sources.data)
    if task.asked.targets is not None:
        digest.update(task.asked.targets.data)
    return digest.hexdigest()
