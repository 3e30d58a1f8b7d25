"""Edges -> a committed graph store: the external sort, stage by stage.

Stages: (stage the input) -> degrees -> renumber -> runs -> merge and write -> commit. Every task
is a function of files and writes files of its own, so any worker can do any task, and a task that
is done twice writes the same bytes. The exception are merged pieces, which wait in memory if one
process does all: if it is lost, the merge begins again in files.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.names import LIGHT, id_dtype, shards_for
from ooc_graph.shards import plan
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.input_stages import InputStages
from ooc_graph.shards.merge import Merged, MergeTask
from ooc_graph.shards.merge_writer import MergeWriter
from ooc_graph.shards.pieces import PieceLostError, Pieces
from ooc_graph.shards.renumber import Renumbered, renumber_counted
from ooc_graph.shards.resumed import run_folder, writing
from ooc_graph.shards.runs import RunTask, write_run
from ooc_graph.shards.tables import table_bytes
from ooc_graph.shards.tally import Tally, store_attributes, stored_weight_dtype
from ooc_graph.shards.workforce import Workforce, in_turn, run_all
from ooc_graph.types import Progress


def build(
    source: EdgeSource,
    out: Path,
    *,
    options: BuildOptions,
    workforce: Workforce,
    progress: Progress,
) -> BuildReport:
    """Build and commit the store of a graph; its folder appears when all of it is on disk.

    What a build that was stopped has finished is kept for the next one of the same; of a build that
    fails otherwise nothing is.
    """
    report = BuildReport()
    with writing(out, source, options, progress) as partial:
        Build(partial, workforce, progress, report, options).run(source)
    return report


class Build(InputStages):
    """The stages of one build by threads or processes."""

    def _run(self, source: EdgeSource, description: Future[dict[str, Any]]) -> None:
        paths, total = self._count(source)
        vertices = self._renumber(source, paths)
        merging = self._runs(source, vertices, total)
        written = self._merge(merging)
        (described,) = in_turn(self.workforce, [description])
        runs, space = merging.runs, vertices.space
        attributes = store_attributes(
            total,
            described.result(),
            directed=runs.source.directed,
            weight_dtype=runs.weight_dtype,
            vertices=space.count,
            rows=vertices.kept,
            first_id=None if space.originals else space.first,
            arcs=written.arcs,
            shards=merging.shards,
            orders=merging.orders,
            compressed=bool(merging.packings),
        )
        specs = [*vertices.specs, *written.specs]
        self._commit_store(attributes, written.arcs, specs, [*vertices.entries, *written.entries])

    def _renumber(self, source: EdgeSource, paths: list[str]) -> Renumbered:
        limit_bytes = self.workforce.budget.limit_bytes
        item = paths, source, self.partial.folder, self._scratch, limit_bytes
        with self.report.timed("renumber"):
            result: Renumbered
            (result,) = run_all(
                self.workforce, self.progress, "renumbering", renumber_counted, [item]
            )
        return result

    def _runs(self, source: EdgeSource, vertices: Renumbered, total: Tally) -> MergeTask:
        """Write all runs; what merges them."""
        self.options.require_filled(vertices.kept)
        orders = self.options.orders(source.weighted)
        dtype = stored_weight_dtype(source, total) if LIGHT in orders else None
        ids = id_dtype(vertices.kept)
        arc_bytes, weight_bytes = 2 * ids.itemsize, dtype.itemsize if dtype else 0
        assert self.partial.checkpoints is not None
        folder, slot = run_folder(
            self.partial.spill, self.workforce.budget.slot_bytes(table_bytes(vertices.space))
        )
        tuples = np.load(vertices.tuples)
        arcs = int(tuples.sum(dtype=np.int64))
        capacity = plan.bucket_arcs(slot, arc_bytes, weight_bytes, arcs)
        shards = self.options.shards or shards_for(arcs)
        buckets = plan.plan_buckets(tuples, shards, capacity)
        task = RunTask(
            source,
            vertices.space,
            vertices.internal_of,
            buckets.save(self.partial.checkpoints.attempt / "buckets.npz"),
            self.partial.checkpoints,
            folder,
            ids,
            dtype,
        )
        del tuples
        units = source.units(plan.run_edges(slot, arc_bytes, weight_bytes))
        with self.report.timed("runs"):
            items = [(task, unit) for unit in units]
            given = self.workforce, self.progress, "sorting into runs", write_run, items
            run_all(*given, total=source.edges, unit="edges", amount=lambda edges: edges)
        buffer_bytes = self._buffer_bytes(task, len(orders), capacity, vertices.kept)
        waiting = task.checkpoints.attempt / "pieces"
        waiting.mkdir()
        pieces = Pieces(str(waiting), buffer_bytes)
        packings = self.options.packings(vertices.kept, arcs, dtype, total)
        return MergeTask(task, shards, vertices.kept, capacity, orders, pieces, packings)

    def _merge(self, task: MergeTask) -> Merged:
        self.forget()
        with self.report.timed("merge and write"):
            try:
                return self._write_merged(task)
            except PieceLostError:
                # The process that held them is gone; the runs are still there.
                self.forget()
                in_files = replace(task.pieces, buffer_bytes=0)
                return self._write_merged(replace(task, pieces=in_files))

    def _write_merged(self, task: MergeTask) -> Merged:
        return MergeWriter(task, self.partial.folder, self.workforce, self.progress).run()

    def _buffer_bytes(self, runs: RunTask, orders: int, capacity: int, vertices: int) -> int:
        """Size of the buffers in which pieces wait; 0 if they wait in files."""
        weight_bytes = runs.weight_dtype.itemsize if runs.weight_dtype else 0
        id_bytes = runs.id_dtype.itemsize
        budget, piece_bytes = self.workforce.budget, orders * id_bytes + weight_bytes
        lasting_bytes = plan.LENGTH_BYTES * len(runs.sides) * vertices
        fit = budget.pieces_fit(budget.slot_bytes(0), piece_bytes, vertices, lasting_bytes)
        return capacity * max(id_bytes, weight_bytes) if fit else 0
