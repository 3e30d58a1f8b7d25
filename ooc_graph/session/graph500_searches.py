"""The searches of Graph500, each from its key, and the validation of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import columns_of
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT
from ooc_graph.memory.plan import describe
from ooc_graph.report.data import EnergyRecord
from ooc_graph.session import disk_notes, graph500_cuda, resident
from ooc_graph.session.api import check_edges, validator_of
from ooc_graph.session.choice import Way, carry_out, choose, on_cpu, resident_bytes
from ooc_graph.session.compile_parts import check_pair
from ooc_graph.session.devices import CPU, CUDA
from ooc_graph.session.edges_method import ROWS
from ooc_graph.session.graph500_energy import measure as measure_energy
from ooc_graph.session.graph500_run import BatchTask, Run, Searched, moved_by
from ooc_graph.session.machine import cores
from ooc_graph.session.place import Place
from ooc_graph.session.refused import has_less, with_less
from ooc_graph.session.search import run_search, search
from ooc_graph.session.tiers import describe_moved, plan_within
from ooc_graph.session.ways import Course
from ooc_graph.shards.load import Graph
from ooc_graph.types import IntArray, NoProgress
from ooc_graph.validate import BfsAnswer, BfsValidator, SsspAnswer, SsspValidator, VertexIndex
from ooc_graph.validate.cuda_validator import MOST_VERTICES

_ANSWER_BYTES = 40
# Where arcs stay in the store: bytes a vertex of an answer's columns, of tuples and a copy of those
# of rows reached, of a validation of one answer; and of the edges that each thread looks at.
_COLUMNS_BYTES, _TUPLES_BYTES, _CHECK_BYTES, _CHECK_BLOCK_BYTES = 24, 17, 64, 8 << 20
_MOST_BATCH = 16
_SURELY_ENOUGH_SCALE, _SURELY_ENOUGH_KEYS = 12, 64
_MOST_COUNTED_SCALE = 20


def refuse_few_keys(source: Kronecker, searches: int) -> None:
    """Refuse a graph too small to have so many vertices with an arc.

    Graph500's draw of search keys gives up on such graphs and takes isolated vertices, from
    which there is nothing to time. From scale 12 on there are always enough for 64.
    """
    if source.scale >= _SURELY_ENOUGH_SCALE and searches <= _SURELY_ENOUGH_KEYS:
        return
    if source.scale > _MOST_COUNTED_SCALE:
        return
    u, v, _ = source.block(0, source.edges)
    usable = len(np.unique(np.concatenate([u[u != v], v[u != v]])))
    if usable < searches:
        raise UsageError(
            f"scale {source.scale} has {usable} vertices with an arc, which is fewer than "
            f"{searches} searches; give a smaller --searches or a larger --scale"
        )


def search_all(
    run: Run, graph: Graph, source: Kronecker, kernel: str, keys: IntArray
) -> tuple[list[Searched], list[EnergyRecord]]:
    """Search from all keys, timed, and validate: on one worker in batches, else key by key.

    Returns
    -------
    searches, energy
        Energy of the searches, measured over repeats of them; nothing where many ranks search.
    """
    beside = check_bytes(graph) if run.options.validate else answer_bytes(graph)
    in_tiers: dict[str, Any] = {"tiers": True, "answer_bytes": beside}

    def search_by(way: Way) -> tuple[list[Searched], list[EnergyRecord]]:
        with disk_notes.told(graph.identity, kernel, run.place, run.progress):
            return _search_by(way, run, graph, source, kernel, keys)

    return carry_out(
        choose(graph, kernel, run.place, **in_tiers),
        kernel,
        run.place,
        run.progress,
        search_by,
        lambda why: on_cpu(
            graph, kernel, run.place, exchange="auto", method=ROWS, why=why, **in_tiers
        ),
    )


def answer_bytes(graph: Graph) -> int:
    """Memory beside a search whose arcs stay in the store: an answer, and tuples at each row."""
    return graph.vertices * _COLUMNS_BYTES + graph.rows * _TUPLES_BYTES


def check_bytes(graph: Graph) -> int:
    """As `answer_bytes`, with what its validation takes."""
    return answer_bytes(graph) + graph.vertices * _CHECK_BYTES + cores() * _CHECK_BLOCK_BYTES


def _search_by(
    way: Way, run: Run, graph: Graph, source: Kronecker, kernel: str, keys: IntArray
) -> tuple[list[Searched], list[EnergyRecord]]:
    if why := _searched_one_by_one(way, graph, validated=run.options.validate):
        if way.device == CUDA and run.options.validate:
            run.progress.note(f"{kernel} validated on the CPU: {why}")
        search = partial(_search_one, run, graph, source, kernel, way.exchange)
        run.timed(f"{kernel} warm-up", lambda: search(keys[:1]))
        return _all_batches(run, kernel, search, keys, 1), []
    batches = _Batches(
        run,
        BatchTask(
            str(graph.path),
            graph.identity,
            kernel,
            source,
            run.options.validate,
            way.device,
            way.budget_bytes,
            way.copies,
        ),
    )
    with run.progress.stage(f"{kernel}: loading, warming up"):
        run.timed(f"{kernel} warm-up", lambda: batches.call(warm_up, int(keys[0])))
    if way.device == CUDA:
        function, size = graph500_cuda.search_batch, len(keys)
    else:
        # Where arcs stay in the store, what is beside them has room for one answer.
        size = 1 if batches.task.budget_bytes else _batch(graph, kernel, run.place)
        function = search_batch
    found = _all_batches(run, kernel, partial(batches.call, function), keys, size)
    task = batches.task
    if task.budget_bytes:
        plan = plan_within(graph, kernel, task.budget_bytes)
        run.tiers[kernel] = {**describe(plan), **describe_moved(moved_by(found))}
    energy = [measure_energy(run, task, keys, found)] if run.options.energy else []
    return found, energy


@dataclass
class _Batches:
    """Carries batches out by one rank; where memory is refused, again with less in memory."""

    run: Run
    task: BatchTask

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``function(task, …)`` where the graph is."""
        place = self.run.place
        while True:
            try:
                return place.call(function, self.task, *arguments)
            except MemoryError:
                # On a CUDA device nothing stays in the store, and rows are not pinned here.
                if self.task.device == CUDA or not has_less(self.task):
                    raise
            less, note = place.call(with_less, self.task)
            self.run.progress.note(note)
            self.task = replace(self.task, **less)


def _searched_one_by_one(way: Way, graph: Graph, *, validated: bool) -> str:
    """Why answers do not stay where they are found, in batches; empty where they do."""
    if way.exchange != "one":
        return "no rank has the whole answer"
    if validated and way.device == CUDA and graph.vertices > MOST_VERTICES:
        return f"{graph.vertices:,} vertices, of which a device takes {MOST_VERTICES:,} at most"
    return ""


def _all_batches(
    run: Run,
    kernel: str,
    search: Callable[[IntArray], list[Searched]],
    keys: IntArray,
    size: int,
) -> list[Searched]:
    found: list[Searched] = []

    def all_batches() -> None:
        with run.progress.stage(f"{kernel}: searching, validating", len(keys), "searches") as bar:
            for start in range(0, len(keys), size):
                found.extend(search(keys[start : start + size]))
                bar.advance(len(found) - start)

    run.timed(f"{kernel} searches", all_batches)
    return found


def _batch(graph: Graph, kernel: str, place: Place) -> int:
    """Answers held at a time, in what the graph leaves of the worker's memory."""
    left = place.process_limit_bytes - resident_bytes(graph, kernel)
    return int(min(_MOST_BATCH, max(1, left // (graph.vertices * _ANSWER_BYTES))))


def _search_one(
    run: Run, graph: Graph, source: Kronecker, kernel: str, exchange: str, keys: IntArray
) -> list[Searched]:
    """One search, by ranks or by one that does not validate; the answer is validated here."""
    (key,) = keys.tolist()
    exchange = "auto" if exchange == "one" else exchange
    result = search(graph, kernel, key, place=run.place, progress=NoProgress(), exchange=exchange)
    reached = result.reached
    internal = graph.internal_of()[reached]
    edges = int(graph.tuples()[internal[internal >= 0]].sum(dtype=np.int64)) // 2
    course = Course(result.elapsed_s or 0.0, ())
    one = Searched(key, course, None, 0.0, edges, int(np.count_nonzero(reached)))
    if not run.options.validate:
        return [one]
    begun = perf_counter()
    (verdict,) = check_edges(validator_of([result], source.directed), source, cores())
    return [replace(one, verdict=verdict, validate_s=perf_counter() - begun)]


def search_keys(graph: Graph, source: Kronecker, count: int) -> IntArray:
    """Graph500's search keys: drawn at random, vertices without an arc left out."""
    internal_of = graph.internal_of()
    return source.search_keys(count, degree=lambda ids: internal_of[ids] >= 0)


def warm_up(task: BatchTask, key: int) -> None:
    """Load the graph, compile, and search once untimed, as the reference does."""
    with task.searcher() as held:
        run_search(held, key)
    if task.validate and task.device == CPU:
        check_pair(task.kernel, task.source.weighted)


def search_batch(task: BatchTask, keys: IntArray) -> list[Searched]:
    """Search from each key and validate the answers in one pass over the edges."""
    with task.searcher() as held:
        found: list[Searched] = []
        answers = _answers(held, keys, found)
        if not task.validate:
            for _ in answers:
                pass
            return found
        kind: Any = BfsValidator if task.kernel == "bfs" else SsspValidator
        validator = kind(answers, directed=False)
        begun = perf_counter()
        verdicts = check_edges(validator, task.source, resident.threads_here())
        each = (perf_counter() - begun) / len(keys)
        return [
            replace(one, verdict=verdict, validate_s=each)
            for one, verdict in zip(found, verdicts, strict=True)
        ]


def _answers(held: resident.Searcher, keys: IntArray, found: list[Searched]) -> Iterator[Any]:
    """Search as the answers are asked for; what is known of each goes to ``found``."""
    graph = held.graph
    vertices = VertexIndex.dense(graph.first_id or 0, graph.vertices)
    tuples = graph.tuples() if held.tuples is None else held.tuples
    for key in keys.tolist():
        before = held.moved
        tree, course = run_search(held, key)
        moved = None if before is None or held.moved is None else held.moved.since(before)
        reached = tree.parent != np.iinfo(tree.parent.dtype).max
        edges = int(tuples[reached].sum(dtype=np.int64)) // 2
        count = int(np.count_nonzero(reached))
        found.append(Searched(key, course, None, 0.0, edges, count, moved))
        columns = columns_of(tree, held.ids)
        if held.kernel == "bfs":
            yield BfsAnswer(key, columns[PARENT], columns[LEVEL], vertices)
        else:
            yield SsspAnswer(key, columns[PARENT], columns[DISTANCE], vertices)
