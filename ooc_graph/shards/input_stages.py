"""Stages that every build begins with: the input is read, its vertices are counted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial as bind
from pathlib import Path
from typing import Any

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.errors import InputError
from ooc_graph.layout.checkpoints import Checkpoints, NoCheckpoints
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.commit import Partial
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.shards import plan
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.renumber import Counted, count_ids, count_units
from ooc_graph.shards.staged import StagedSource, column_dtype, stage_unit
from ooc_graph.shards.tables import forget_tables
from ooc_graph.shards.tally import Tally
from ooc_graph.shards.workforce import Workforce, run_all
from ooc_graph.threads import Threads
from ooc_graph.types import Progress

_LOG = logging.getLogger("ooc_graph")
_STAGE_EDGES = 1 << 22


@dataclass(frozen=True)
class InputStages:
    """The first stages of one build, and the last, its commit."""

    partial: Partial
    workforce: Workforce
    progress: Progress
    report: BuildReport
    options: BuildOptions

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
                executor = own_thread if local else self.workforce.executor
                description = executor.submit(source.describe)
                identity = source.identity()
                edges = self._rereadable(source, local)
                _require_same(source, identity)
                if edges is source:
                    # It is read until the end.
                    self.partial.before_commit = bind(_require_same, source, identity)
                self._run(edges, description)
        finally:
            forget_tables(str(self.partial.spill))
            try:
                self.forget()
            except Exception:  # noqa: BLE001 -- of a lost cluster: the store may stand
                _LOG.warning("workers were not asked to forget a build", exc_info=True)

    def _run(self, source: EdgeSource, description: Future[dict[str, Any]]) -> None:
        """All stages from a source that can be read again."""
        raise NotImplementedError

    def _rereadable(self, source: EdgeSource, local: bool) -> EdgeSource:
        if not source.rereadable:
            return self._stage(source, self.workforce)
        if local and self.workforce.remote:
            # Its data would travel with every task: stage it from here instead.
            with Threads(1) as executor:
                return self._stage(source, replace(self.workforce, executor=executor), local)
        return source

    @property
    def _scratch(self) -> Path:
        """Where files are that no later run uses, and where tasks of a dead run cannot write."""
        checkpoints = self.partial.checkpoints
        return self.partial.spill if checkpoints is None else checkpoints.attempt

    def _stage(self, source: EdgeSource, workforce: Workforce, local: bool = False) -> EdgeSource:
        partial = self.partial
        checkpoints: Checkpoints | NoCheckpoints = NoCheckpoints(partial.folder)
        if partial.checkpoints is not None:
            checkpoints = partial.checkpoints
        with self.report.timed("read input"):
            items = [(source, unit, checkpoints) for unit in source.units(_STAGE_EDGES)]
            given = workforce, self.progress, "reading input", stage_unit, items
            parts = run_all(
                *given, total=source.edges, unit="edges", amount=lambda part: part.edges
            )
            source.check_totals(sum(part.edges for part in parts))
        dtype = (source.weight_dtype or column_dtype(parts)) if source.weighted else None
        # Of data in memory only the vertices that it lists travel with tasks.
        lister = getattr(source, "vertices_alone", None) if local else source
        return StagedSource(source.directed, lister, tuple(parts), dtype, source.id_range)

    def _count(self, source: EdgeSource) -> tuple[list[str], Tally]:
        """Files with counts of every task, and what all tasks counted."""
        folder = self._scratch / "degrees"
        folder.mkdir(exist_ok=True)
        groups = self._groups(source)
        with self.report.timed("degrees"):
            function: Any = count_ids if source.id_range is None else count_units
            within: Any = source.id_range or self.workforce.budget.slot_bytes(0)
            items = [
                (source, units, str(folder / f"{number}"), within)
                for number, units in enumerate(groups)
            ]
            given = self.workforce, self.progress, "counting degrees", function, items
            counted: list[Counted] = run_all(
                *given, total=source.edges, unit="edges", amount=lambda part: part.total.edges
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

    def _commit_store(
        self,
        attributes: dict[str, Any],
        arcs: dict[str, int],
        specs: list[ArraySpec],
        entries: list[FileEntry],
    ) -> None:
        self.report.arcs = sum(arcs.values())
        with self.report.timed("commit"):
            self.report.manifest = self.partial.commit("graph", attributes, specs, entries)


def _require_same(source: EdgeSource, identity: str | None) -> None:
    """Refuse input whose files are no longer those that were read first."""
    if source.identity() != identity:
        raise InputError(
            "the edge files were changed while they were read", advice="build again when they stay"
        )
