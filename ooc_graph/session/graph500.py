"""The main job: Graph500 generated, built, searched, validated and reported."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Client

from ooc_graph.answers.scatter import columns_of
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.layout.names import LEVEL, PARENT
from ooc_graph.report.data import (
    DegreeHistogram,
    LevelRecord,
    ReportData,
    SearchRecord,
    Stage,
    Validation,
    write_report_data,
)
from ooc_graph.report.graph500 import Graph500Result, KernelRuns, output_block
from ooc_graph.report.host import host_facts, package_versions
from ooc_graph.report.memory_watch import MemoryWatch, thinned
from ooc_graph.report.records import append_record
from ooc_graph.session import resident
from ooc_graph.session.api import build_with_report, check_edges, validator_of
from ooc_graph.session.machine import cores
from ooc_graph.session.place import Place, place_for
from ooc_graph.session.search import (
    KERNELS,
    Course,
    choose_exchange,
    resident_bytes,
    run_search,
    search,
)
from ooc_graph.shards.build import BuildOptions, BuildReport
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray, NoProgress, Progress
from ooc_graph.validate import (
    BfsAnswer,
    BfsValidator,
    SsspAnswer,
    SsspValidator,
    Verdict,
    VertexIndex,
)

_ANSWER_BYTES = 40
_MOST_BATCH = 16
_SURELY_ENOUGH_SCALE, _SURELY_ENOUGH_KEYS = 12, 64
_MOST_COUNTED_SCALE = 20


@dataclass(frozen=True)
class Graph500Options:
    """What to run.

    Parameters
    ----------
    scale, edge_factor, seeds
        The graph.
    searches
        Search keys per kernel; Graph500 has 64.
    kernels
        ``bfs``, ``sssp`` or both.
    validate
        Whether every answer is checked (a run counts as Graph500 only if it is).
    shards
        As for a build.
    """

    scale: int
    edge_factor: int = 16
    seeds: tuple[int, int] = (2, 3)
    searches: int = 64
    kernels: tuple[str, ...] = KERNELS
    validate: bool = True
    shards: int | None = None

    def __post_init__(self) -> None:
        unknown = [kernel for kernel in self.kernels if kernel not in KERNELS]
        if unknown or not self.kernels or len(set(self.kernels)) < len(self.kernels):
            raise UsageError(f"--kernels {','.join(self.kernels)}: choose bfs, sssp or bfs,sssp")
        if self.searches < 1:
            raise UsageError(f"--searches {self.searches}: give at least 1")


@dataclass
class Outcome:
    """Figures of a run.

    Parameters
    ----------
    block
        Graph500's output block.
    page
        The report.
    failure
        First broken rule, or None.
    """

    block: str
    page: Path
    failure: str | None = None


@dataclass(frozen=True)
class Searched:
    """What a batch of searches says of one key."""

    root: int
    course: Course
    verdict: Verdict | None
    validate_s: float
    edges: int
    reached: int


@dataclass
class _Run:
    options: Graph500Options
    folder: Path
    place: Place
    progress: Progress
    begun: float = field(default_factory=perf_counter)
    stages: list[Stage] = field(default_factory=list)

    def timed(self, name: str, function: Callable[[], Any]) -> Any:
        start = perf_counter() - self.begun
        result = function()
        self.stages.append(Stage(name, start, perf_counter() - self.begun))
        return result


def graph500(
    options: Graph500Options,
    folder: Path,
    *,
    client: Client | None,
    memory_limit_bytes: int | None,
    progress: Progress,
    overwrite: bool,
    command: Sequence[str] = (),
) -> Outcome:
    """Run Graph500's benchmark and leave graph, records and report in ``folder``.

    Returns
    -------
    Outcome
        Its block says that there are no results if an answer broke a rule.
    """
    place = place_for(client, memory_limit_bytes)
    run = _Run(options, folder, place, progress)
    weighted = "sssp" in options.kernels
    source = Kronecker(
        options.scale, edge_factor=options.edge_factor, seeds=options.seeds, weighted=weighted
    )
    refuse_few_keys(source, options.searches)
    folder.mkdir(parents=True, exist_ok=True)
    with progress.stage("compiling kernels (once on a machine)"):
        _warm_up(place, source, folder)
    with MemoryWatch(origin_s=run.begun) as watch:
        graph, built = _build(run, source, overwrite)
        searched = {kernel: _search_all(run, graph, source, kernel) for kernel in options.kernels}
    return _report(run, graph, built, searched, watch, command)


def _warm_up(place: Place, source: Kronecker, folder: Path) -> None:
    """Build a tiny graph of the same kind, so that no figure has compilation in it."""
    with TemporaryDirectory(prefix=".warm-up-", dir=folder) as scratch:
        tiny = replace(source, scale=min(source.scale, 8))
        options = BuildOptions(shards=2)
        build_with_report(tiny, Path(scratch) / "tiny.zarr", options, client=place.client)


def _build(run: _Run, source: Kronecker, overwrite: bool) -> tuple[Graph, BuildReport]:
    start = perf_counter() - run.begun
    graph, built = build_with_report(
        source,
        run.folder / "graph.zarr",
        BuildOptions(shards=run.options.shards, overwrite=overwrite),
        client=run.place.client,
        memory_limit=run.place.limit_bytes,
        progress=run.progress,
    )
    run.stages += [Stage(name, start + a, start + b) for name, a, b in built.stages]
    return graph, built


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


def _search_all(run: _Run, graph: Graph, source: Kronecker, kernel: str) -> list[Searched]:
    keys = run.timed("search keys", lambda: search_keys(graph, source, run.options.searches))
    if choose_exchange(graph, kernel, "auto", run.place) == "one":
        task = BatchTask(str(graph.path), graph.identity, kernel, source, run.options.validate)
        with run.progress.stage(f"{kernel}: loading, warming up"):
            run.timed(f"{kernel} warm-up", lambda: run.place.call(warm_up, task, int(keys[0])))
        size = _batch(graph, kernel, run.place)
        batches = [keys[start : start + size] for start in range(0, len(keys), size)]
        search: Callable[[IntArray], list[Searched]] = partial(run.place.call, search_batch, task)
    else:
        batches = list(keys.reshape(-1, 1))
        search = partial(_search_with_ranks, run, graph, source, kernel)
        run.timed(f"{kernel} warm-up", lambda: search(keys[:1]))
    found: list[Searched] = []

    def all_batches() -> None:
        with run.progress.stage(f"{kernel}: searching, validating", len(keys), "searches") as bar:
            for batch in batches:
                found.extend(search(batch))
                bar.advance(len(batch))

    run.timed(f"{kernel} searches", all_batches)
    return found


def _batch(graph: Graph, kernel: str, place: Place) -> int:
    """Answers held at a time, in what the graph leaves of the worker's memory."""
    left = place.process_limit_bytes - resident_bytes(graph, kernel)
    return int(min(_MOST_BATCH, max(1, left // (graph.vertices * _ANSWER_BYTES))))


def _search_with_ranks(
    run: _Run, graph: Graph, source: Kronecker, kernel: str, keys: IntArray
) -> list[Searched]:
    """One search on the ranks of all workers; the answer is validated here."""
    (key,) = keys.tolist()
    result = search(
        graph, kernel, key, place=run.place, progress=NoProgress(), exchange="scheduler"
    )
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


@dataclass(frozen=True)
class BatchTask:
    """A batch of searches as it travels to the worker."""

    path: str
    identity: str
    kernel: str
    source: Kronecker
    validate: bool


def warm_up(task: BatchTask, key: int) -> None:
    """Load the graph, compile, and search once untimed, as the reference does."""
    with resident.searcher(task.path, task.identity, task.kernel) as held:
        run_search(held, key)


def search_batch(task: BatchTask, keys: IntArray) -> list[Searched]:
    """Search from each key and validate the answers in one pass over the edges."""
    with resident.searcher(task.path, task.identity, task.kernel) as held:
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
    for key in keys.tolist():
        tree, course = run_search(held, key)
        reached = tree.parent != np.iinfo(tree.parent.dtype).max
        edges = int(held.tuples[reached].sum(dtype=np.int64)) // 2
        found.append(Searched(key, course, None, 0.0, edges, int(np.count_nonzero(reached))))
        columns = columns_of(tree, held.ids)
        if held.kernel == "bfs":
            yield BfsAnswer(key, columns[PARENT], columns[LEVEL], vertices)
        else:
            yield SsspAnswer(key, columns[PARENT], columns["distance"], vertices)


def degree_histogram(path: str) -> tuple[AnyArray, AnyArray]:
    """Degrees (tuples at a vertex) and how many vertices have each, isolated ones included."""
    graph = Graph.open(path)
    degree, count = np.unique(graph.tuples(), return_counts=True)
    isolated = graph.vertices - graph.rows
    if isolated:
        degree, count = np.insert(degree, 0, 0), np.insert(count, 0, isolated)
    return degree, count


def _report(
    run: _Run,
    graph: Graph,
    built: BuildReport,
    searched: dict[str, list[Searched]],
    watch: MemoryWatch,
    command: Sequence[str],
) -> Outcome:
    from ooc_graph.report.page import write_page  # noqa: PLC0415 - matplotlib takes a second

    records = [_record(kernel, one) for kernel, found in searched.items() for one in found]
    failure = _failure(searched, run.options.validate)
    block = _block(run, built, records, failure is None)
    data = ReportData(
        title=f"Graph500, scale {run.options.scale}",
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=shlex.join(command),
        parameters=_parameters(run),
        graph=_graph_facts(graph),
        machine={name: _scalar(value) for name, value in host_facts().items()},
        packages=package_versions(),
        graph_arcs=graph.arcs,
        searches=tuple(records),
        stages=tuple(run.stages),
        memory=thinned(watch.samples),
        memory_limit_bytes=run.place.limit_bytes,
        memory_baseline_bytes=watch.baseline_bytes,
        degree_histogram=DegreeHistogram.of(*run.place.call(degree_histogram, str(graph.path))),
        output_block=block,
        validation=_validation(run.options.validate, failure),
    )
    page = run.folder / "report.html"
    write_page(page, data)
    write_report_data(run.folder / "report.json", data)
    (run.folder / "output.txt").write_text(block)
    append_record(run.folder / "records.jsonl", _json_record(run, graph, built, data, watch))
    return Outcome(block, page, failure)


def _record(kernel: str, one: Searched) -> SearchRecord:
    levels = tuple(LevelRecord(v, arcs, way) for v, arcs, way in one.course.levels)
    return SearchRecord(
        kernel,
        one.root,
        one.course.elapsed_s,
        edges=one.edges,
        reached=one.reached,
        validate_s=one.validate_s if one.verdict is not None else None,
        levels=levels,
    )


def _failure(searched: dict[str, list[Searched]], validated: bool) -> str | None:
    """First broken rule; the validator's count of edges must equal the search's own."""
    if not validated:
        return None
    for kernel, found in searched.items():
        for one in found:
            try:
                _check(one)
            except ValidationFailedError as error:
                return f"{kernel}: {error}"
    return None


def _check(one: Searched) -> None:
    if one.verdict is None:
        raise ValidationFailedError(f"the answer of root {one.root} was not validated")
    one.verdict.raise_if_failed()
    if one.verdict.edges != one.edges:
        raise ValidationFailedError(
            f"root {one.root}: {one.edges} edges were reported, the input has "
            f"{one.verdict.edges} between the vertices reached"
        )


def _block(run: _Run, built: BuildReport, records: list[SearchRecord], valid: bool) -> str:
    options = run.options
    return output_block(
        Graph500Result(
            scale=options.scale,
            edge_factor=options.edge_factor,
            searches=options.searches,
            generation_s=built.read_s,
            processes=run.place.processes,
            construction_s=built.elapsed_s - built.read_s,
            kernels=tuple(
                KernelRuns.of([record for record in records if record.kernel == kernel])
                for kernel in options.kernels
            ),
            valid=valid,
        )
    )


def _validation(validated: bool, failure: str | None) -> Validation:
    if not validated:
        return Validation("skipped")
    return Validation("passed") if failure is None else Validation("failed", failure)


def _parameters(run: _Run) -> dict[str, Any]:
    named = {name: _scalar(value) for name, value in asdict(run.options).items()}
    return {
        **named,
        "worker processes": run.place.processes,
        "memory limit (bytes)": run.place.limit_bytes,
    }


def _graph_facts(graph: Graph) -> dict[str, Any]:
    return {
        "vertices": graph.vertices,
        "vertices with arcs": graph.rows,
        "edges (input tuples)": graph.edges,
        "self-loops": graph.attributes["self_loops"],
        "arcs stored": graph.arcs,
        "shards": graph.shards,
        "row orders": ", ".join(graph.attributes["row_orders"]),
        "manifest SHA-256": graph.identity,
    }


def _scalar(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return value


def _json_record(
    run: _Run, graph: Graph, built: BuildReport, data: ReportData, watch: MemoryWatch
) -> dict[str, Any]:
    return {
        "benchmark": "graph500",
        "parameters": dict(data.parameters),
        "graph": dict(data.graph),
        "build_s": built.elapsed_s,
        "build_stages": built.stages,
        "edges_per_s": built.edges / built.elapsed_s,
        "searches": [asdict(search) for search in data.searches],
        "stages": [asdict(stage) for stage in run.stages],
        "memory_peak_bytes": watch.peak_bytes - watch.baseline_bytes,
        "validation": asdict(data.validation) if data.validation else None,
        "arcs": graph.arcs,
    }
