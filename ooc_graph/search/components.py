"""Components of a graph: on one rank that holds it whole, or on the ranks of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.result import ComponentsResult, components_attributes
from ooc_graph.answers.scatter import ComponentColumns, columns_of, write_columns
from ooc_graph.kernels.common.components import ComponentLabels
from ooc_graph.layout.commit import partial_store
from ooc_graph.layout.names import id_dtype
from ooc_graph.model.engine import load_ids
from ooc_graph.model.request import Request
from ooc_graph.model.task import SearchTask, Written
from ooc_graph.model.trace import Course, course_of, slowest
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.algorithm import Algorithm
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.plan import Plan
from ooc_graph.search.whole import engine_for
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tables import save
from ooc_graph.traverse import components as traverse
from ooc_graph.types import AnyArray, Dealing, Progress, Shard

KERNEL = "components"
_NO_ROOT = -1


@dataclass(frozen=True)
class Labelled:
    """An answer as it comes back: written or as columns, and the number of components."""

    written: Written
    count: int


def components(
    graph: Graph,
    *,
    place: Place,
    progress: Progress,
    out: Path | None = None,
    exchange: str = "auto",
    overwrite: bool = False,
) -> ComponentsResult:
    """Find the weakly connected components and give the answer, or write it.

    Raises
    ------
    UsageError, MemoryBudgetError, OutputExistsError
        Before anything is written.
    CorruptStoreError
        If a chunk is not as the manifest says; nothing is written then either.
    """
    engine_cache.require_same(graph.path, graph.identity)
    first = plan_at(place, graph, Request(KERNEL, exchange))
    writing = nullcontext() if out is None else partial_store(out, "result", overwrite=overwrite)
    with writing as store, progress.stage(KERNEL):
        folder = None if store is None else str(store.folder)

        def run(found: Plan) -> Labelled:
            return _carry_out(graph, found.task(_NO_ROOT, folder), place)

        labelled = execute(first, place, progress, run)
        written = labelled.written
        if store is not None:
            attributes = components_attributes(labelled.count, graph.content_sha256)
            store.commit("result", attributes, written.specs, written.entries)
    if out is not None:
        return replace(ComponentsResult.open(out), elapsed_s=written.course.elapsed_s)
    return ComponentsResult(None, written.course.elapsed_s, dict(written.columns or {}))


def _carry_out(graph: Graph, task: SearchTask, place: Place) -> Labelled:
    if graph.rows == 0:
        return place.call(label_without_arcs, task)
    return ALGORITHM.carry_out(graph, task, place)


def label_without_arcs(task: SearchTask) -> Labelled:
    """Where there are no arcs every vertex is its own component."""
    graph = engine_cache.open_same(task.path, task.identity)
    none = ComponentLabels(np.empty(0, id_dtype(0)), 0.0, {})
    return _deliver(task, load_ids(graph), none.label, course_of(KERNEL, none))


def label_whole(task: SearchTask) -> Labelled:
    """One rank with the whole graph; runs on the worker that holds it."""
    with engine_for(task) as held:
        found = held.search.run()
        return _deliver(task, held.ids, found.label, course_of(KERNEL, found))


def components_rank(device: Any, rows: Shard) -> Any:
    """The steps on a rank's rows."""
    return device.components_rank(rows)


def start(
    task: SearchTask,  # noqa: ARG001
    graph: Graph,
    ranks: dict[int, Any],
    device: Any,
) -> tuple[dict[int, Any], Any]:
    """The coroutines of a worker's ranks, and what they share."""
    shared = device.components_shared(graph.rows)
    return {shard: traverse.components(rank, shared) for shard, rank in ranks.items()}, shared


@dataclass(frozen=True)
class WriteLabels:
    """Writes a rank's labels where the gathering task finds them."""

    folder: str

    def __call__(self, shard: int, found: ComponentLabels) -> Course:
        """Write them; only the course travels."""
        save(Path(self.folder), f"{shard}-label", found.label)
        return course_of(KERNEL, found)


def _gather(task: SearchTask, courses: Sequence[Course]) -> Labelled:
    """Bring the parts together, in original order, in the partial store."""
    graph = engine_cache.open_same(task.path, task.identity)
    labels = (np.load(task.parts / f"{shard}-label.npy") for shard in range(graph.shards))
    return _deliver(task, load_ids(graph), _whole(graph, labels), slowest(courses))


def _join(task: SearchTask, graph: Graph, parts: Sequence[ComponentLabels]) -> Labelled:
    course = slowest([course_of(KERNEL, part) for part in parts])
    label = _whole(graph, (part.label for part in parts))
    return _deliver(task, load_ids(graph), label, course)


def _whole(graph: Graph, labels: Iterable[AnyArray]) -> AnyArray:
    """Labels of all rows from those of each shard."""
    label = np.empty(graph.rows, id_dtype(graph.rows))
    for shard, part in enumerate(labels):
        label[Dealing(graph.rows, graph.shards, shard).owned()] = part
    return label


def _deliver(task: SearchTask, ids: Any, label: AnyArray, course: Course) -> Labelled:
    columns = ComponentColumns(label, ids)
    if task.folder is None:
        return Labelled(Written(course, columns=columns_of(columns, ids)), columns.count())
    specs, entries = write_columns(columns, ids, Path(task.folder))
    return Labelled(Written(course, tuple(specs), tuple(entries)), columns.count())


ALGORITHM = Algorithm(components_rank, start, label_whole, _join, WriteLabels, _gather)
"""Components, as each exchange carries them out."""
