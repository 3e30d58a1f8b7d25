"""Edges -> a committed graph store: the external sort, stage by stage.

Stages: (stage the input) -> degrees -> renumber -> runs -> merge and write -> commit. Every task
is a function of files and writes files of its own, so any worker can do any task, and a task that
is done twice writes the same bytes. The exception are merged pieces, which wait in memory if one
process does all: if it is lost, the merge begins again in files.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial as bind
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import InputError
from ooc_graph.layout.commit import Partial, partial_store
from ooc_graph.layout.names import LIGHT, id_dtype, shards_for
from ooc_graph.shards import plan
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.degrees import Counted, count_ids, count_units
from ooc_graph.shards.merge import MergeTask
from ooc_graph.shards.merge_writer import Merged, MergeWriter
from ooc_graph.shards.pieces import PieceLostError, Pieces
from ooc_graph.shards.renumber import Renumbered, renumber_counted
from ooc_graph.shards.runs import RunTask, write_run
from ooc_graph.shards.staged import StagedSource, column_dtype, stage_unit
from ooc_graph.shards.tables import forget_tables, table_bytes
from ooc_graph.shards.tally import Packings, Tally, store_attributes, stored_weight_dtype
from ooc_graph.shards.workforce import Workforce, in_turn, run_all
from ooc_graph.threads import Threads
from ooc_graph.types import Progress

_STAGE_EDGES = 1 << 22


def build(
    source: EdgeSource,
    out: Path,
    *,
    options: BuildOptions,
    workforce: Workforce,
    progress: Progress,
) -> BuildReport:
    """Build and commit the store of a graph; its folder appears when all of it is on disk.

    Of a build that fails nothing is kept.
    """
    report = BuildReport()
    with partial_store(out, "graph", overwrite=options.overwrite) as partial:
        Build(partial, workforce, progress, report, options).run(source)
    return report


@dataclass(frozen=True)
class Build:
    """The stages of one build; `ooc_graph.shards.cuda_build` has others after the first."""

    partial: Partial
    workforce: Workforce
    progress: Progress
    report: BuildReport
    options: BuildOptions

    @property
    def executor(self) -> Executor:
        """Who carries out tasks."""
        return self.workforce.executor

    def forget(self) -> None:
        """Have all processes of the workforce give memory back."""
        # Another build of this process keeps its pieces. A worker may hold what a client that was
        # killed has left, and gives back everything.
        spill = None if self.workforce.remote else str(self.partial.spill)
        self.workforce.everywhere(bind(forget_tables, spill))

    def run(self, source: EdgeSource) -> None:
        """All stages, from edges to the committed store."""
        local = getattr(source, "in_memory", False)
        try:
            with Threads(1) as own_thread:
                description = (own_thread if local else self.executor).submit(source.describe)
                self._run(self._rereadable(source, local), description)
        finally:
            forget_tables(str(self.partial.spill))
            self.forget()

    def _rereadable(self, source: EdgeSource, local: bool) -> EdgeSource:
        if not source.rereadable:
            return self._stage(source, self.workforce)
        if local and self.workforce.remote:
            # Its data would travel with every task: stage it from here instead.
            with Threads(1) as executor:
                return self._stage(source, replace(self.workforce, executor=executor), local)
        return source

    def _run(self, source: EdgeSource, description: Future[dict[str, Any]]) -> None:
        paths, total = self._count(source)
        vertices = self._renumber(source, paths)
        task = self._runs(source, vertices, total)
        merged = self._merge(task, vertices)
        (described,) = in_turn(self.workforce, [description])
        self._commit(merged, vertices, total, described.result())

    def _folder(self, name: str) -> Path:
        folder = self.partial.spill / name
        folder.mkdir(exist_ok=True)
        return folder

    def _stage(self, source: EdgeSource, workforce: Workforce, local: bool = False) -> EdgeSource:
        folder = str(self._folder("staged"))
        with self.report.timed("read input"):
            parts = run_all(
                workforce,
                self.progress,
                "reading input",
                stage_unit,
                [(source, unit, folder) for unit in source.units(_STAGE_EDGES)],
                total=source.edges,
                unit="edges",
                amount=lambda part: part.edges,
            )
            source.check_totals(sum(part.edges for part in parts))
        dtype = (source.weight_dtype or column_dtype(parts)) if source.weighted else None
        lister = None if local else source
        return StagedSource(source.directed, source.id_range, lister, tuple(parts), dtype)

    def _count(self, source: EdgeSource) -> tuple[list[str], Tally]:
        """Files with counts of every task, and what all tasks counted."""
        folder = self._folder("degrees")
        groups = self._groups(source)
        with self.report.timed("degrees"):
            if source.id_range is not None:
                function: Any = count_units
                items: list[tuple[Any, ...]] = [
                    (source, units, source.id_range, str(folder / f"{number}.npy"))
                    for number, units in enumerate(groups)
                ]
            else:
                function = count_ids
                most = self.workforce.budget.slot_bytes(0)
                items = [
                    (source, units, str(folder / f"{number}"), most)
                    for number, units in enumerate(groups)
                ]
            counted: list[Counted] = run_all(
                self.workforce,
                self.progress,
                "counting degrees",
                function,
                items,
                total=source.edges,
                unit="edges",
                amount=lambda part: part.total.edges,
            )
        total = Tally.sum(part.total for part in counted)
        self.report.edges = total.edges
        self.report.read_s = max(part.read_s for part in counted)
        if source.id_range is None and total.edges == 0:
            raise InputError("the input has no edges", advice="nothing was built")
        return [path for part in counted for path in part.paths], total

    def _groups(self, source: EdgeSource) -> list[Sequence[Unit]]:
        """One group a slot (each holds a table of the vertices), fewer if they do not fit."""
        slots = self.workforce.budget.slots
        if source.id_range is not None:
            slots = min(slots, self._dense_slots(source.id_range[1]))
        units = list(source.units(_STAGE_EDGES))
        return [units[i::slots] for i in range(slots) if units[i::slots]] or [[]]

    def _dense_slots(self, vertices: int) -> int:
        budget = self.workforce.budget
        # Renumbering takes so much in one process: refuse now what cannot be done then.
        plan.BuildBudget(budget.limit_bytes, 1, 1).slot_bytes(plan.RENUMBER_BYTES * vertices)
        left = budget.limit_bytes - budget.processes * plan.RESERVE_BYTES
        return max(1, left // (plan.COUNTED_BYTES * vertices + plan.LEAST_SLOT_BYTES))

    def _renumber(self, source: EdgeSource, paths: list[str]) -> Renumbered:
        limit_bytes = self.workforce.budget.limit_bytes
        item = paths, source, self.partial.folder, self.partial.spill, limit_bytes
        with self.report.timed("renumber"):
            result: Renumbered
            (result,) = run_all(
                self.workforce, self.progress, "renumbering", renumber_counted, [item]
            )
        return result

    def _runs(
        self, source: EdgeSource, vertices: Renumbered, total: Tally
    ) -> tuple[RunTask, int, int, Packings]:
        self.options.require_filled(vertices.kept)
        orders = self.options.orders(source.weighted)
        dtype = stored_weight_dtype(source, total) if LIGHT in orders else None
        ids = id_dtype(vertices.kept)
        arc_bytes, weight_bytes = 2 * ids.itemsize, dtype.itemsize if dtype else 0
        slot = self.workforce.budget.slot_bytes(table_bytes(vertices.space))
        tuples = np.load(vertices.tuples)
        arcs = int(tuples.sum(dtype=np.int64))
        capacity = plan.bucket_arcs(slot, arc_bytes, weight_bytes, arcs)
        shards = self.options.shards or shards_for(arcs)
        buckets = plan.plan_buckets(tuples, shards, capacity)
        task = RunTask(
            source,
            vertices.space,
            vertices.internal_of,
            buckets.save(self.partial.spill / "buckets.npz"),
            str(self._folder("runs")),
            ids,
            dtype,
        )
        del tuples
        units = source.units(plan.run_edges(slot, arc_bytes, weight_bytes))
        with self.report.timed("runs"):
            run_all(
                self.workforce,
                self.progress,
                "sorting into runs",
                write_run,
                [(task, unit) for unit in units],
                total=source.edges,
                unit="edges",
                amount=lambda edges: edges,
            )
        return task, shards, capacity, self.options.packings(vertices.kept, arcs, dtype, total)

    def _merge(
        self, planned: tuple[RunTask, int, int, Packings], vertices: Renumbered
    ) -> tuple[MergeTask, Merged]:
        runs, shards, capacity, packings = planned
        self.forget()
        orders = self.options.orders(runs.source.weighted)
        folder = str(self._folder("pieces"))
        task = MergeTask(
            runs,
            shards,
            vertices.kept,
            capacity,
            orders,
            Pieces(folder, self._buffer_bytes(runs, len(orders), capacity, vertices.kept)),
            packings,
        )
        with self.report.timed("merge and write"):
            try:
                return task, self._write_merged(task)
            except PieceLostError:
                # The process that held them is gone; the runs are still there.
                self.forget()
                task = replace(task, pieces=Pieces(folder, 0))
                return task, self._write_merged(task)

    def _write_merged(self, task: MergeTask) -> Merged:
        return MergeWriter(task, self.partial.folder, self.workforce, self.progress).run()

    def _buffer_bytes(self, runs: RunTask, orders: int, capacity: int, vertices: int) -> int:
        """Size of the buffers in which pieces wait; 0 if they wait in files."""
        weight_bytes = runs.weight_dtype.itemsize if runs.weight_dtype else 0
        id_bytes = runs.id_dtype.itemsize
        budget = self.workforce.budget
        fit = budget.pieces_fit(
            budget.slot_bytes(0),
            orders * id_bytes + weight_bytes,
            vertices,
            plan.LENGTH_BYTES * len(runs.sides) * vertices,
        )
        return capacity * max(id_bytes, weight_bytes) if fit else 0

    def _commit(
        self,
        merged: tuple[MergeTask, Merged],
        vertices: Renumbered,
        total: Tally,
        description: dict[str, Any],
    ) -> None:
        task, written = merged
        runs, space = task.runs, vertices.space
        attributes = store_attributes(
            total,
            description,
            directed=runs.source.directed,
            weight_dtype=runs.weight_dtype,
            vertices=space.count,
            rows=vertices.kept,
            first_id=None if space.originals else space.first,
            arcs=written.arcs,
            shards=task.shards,
            orders=task.orders,
            compressed=bool(task.packings),
        )
        self.report.arcs = sum(written.arcs.values())
        with self.report.timed("commit"):
            self.report.manifest = self.partial.commit(
                "graph",
                attributes,
                [*vertices.specs, *written.specs],
                [*vertices.entries, *written.entries],
            )
