"""What each kind of step does: calls of the API, some units at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeAlias

import ooc_graph as og
from ooc_graph.answers.changes import count_changes, write_changes
from ooc_graph.jobs.checks import BUILD
from ooc_graph.jobs.earlier import answers_compared
from ooc_graph.jobs.folder import WARM_UP, Facts, Run
from ooc_graph.jobs.inputs import noted, open_edges, open_graph, vertices_in
from ooc_graph.jobs.model import Build, Job, StoreSource
from ooc_graph.jobs.stage_tables import Rooted, Search
from ooc_graph.jobs.steps import GRAPH, Step
from ooc_graph.jobs.summary import COUNTED
from ooc_graph.jobs.workplace import Workplace
from ooc_graph.layout.outputs import make_folder
from ooc_graph.remote.uploads import AT_ONCE, upload

_COMMITS = 128
"""About how often a step notes what is done: each time all of the manifest is written."""
_OF_WORKER, _TOGETHER = 16, 64
"""Searches that a worker of a cluster is given at once, and answers that are validated together."""
Found: TypeAlias = dict[str, Facts]
"""By unit: what is known of it beside its output."""


class Work:
    """What is done for a step of a run: its units, and the calls for some of these."""

    def __init__(self, job: Job, run: Run, steps: Iterable[Step], workplace: Workplace) -> None:
        self.job, self.run, self.workplace = job, run, workplace
        self.steps = {step.label: step for step in steps}
        self.is_cold = True  # until a search was done

    @property
    def graph_path(self) -> str | Path:
        """Where the graph is, or will be."""
        source = self.job.source
        return source.path if isinstance(source, StoreSource) else self.run.folder / GRAPH

    @cached_property
    def graph(self) -> og.Graph:
        """The graph, opened once."""
        first = next(iter(self.steps.values()))
        graph: og.Graph = open_graph(self.graph_path, first.asked.get("after", {}).get("graph"))
        return graph

    def output(self, step: Step, unit: str) -> Path:
        """Where a unit is written."""
        path = step.output(unit)
        assert path is not None
        return self.run.folder / path

    def units(self, step: Step) -> list[str]:
        """All units of a step, in their order."""
        if step.of is not None:
            return list(self.run.manifest["steps"][step.of.label]["units"])
        if isinstance(step.stage, Search):
            roots = self.roots(step.stage)
            assert roots is not None
            return [str(root) for root in roots]
        return [step.label]

    def roots(self, stage: Rooted) -> list[int] | None:
        """Vertices that a stage begins at, each once; None: at all."""
        if stage.roots_file is not None:
            return vertices_in(stage.roots_file)
        if stage.keys is None:
            return stage.roots
        row_of = self.graph.internal_of()
        keys = open_edges(self.job.source).search_keys(  # type: ignore[arg-type]
            stage.keys, degree=lambda ids: row_of[ids] >= 0
        )
        # Of a tiny graph there are fewer than were asked for.
        return list(dict.fromkeys(keys.tolist()))

    def compared(self, step: Step, unit: str) -> tuple[og.Result | None, og.Result]:
        """An earlier answer, if there is one, and that of this run."""
        stage: Any = step.stage
        answer, note = str(self.steps[stage.of].output(unit)), self.workplace.progress.note
        return answers_compared(step.label, Path(stage.against), self.run.folder, answer, note)

    def at_once(self, step: Step, count: int) -> int:
        """Units to do between two notes in the manifest, if ``count`` are left."""
        least = 1
        if step.has_roots and self.workplace.client:
            least = _OF_WORKER * self.workplace.workers
        if step.asked.get("against") == "graph":
            least = _TOGETHER
        if step.kind == "upload":
            least = AT_ONCE
        return max(least, -(-count // _COMMITS))

    def do(self, step: Step, units: Sequence[str]) -> Found:
        """Do some units of a step."""
        return _DOING[step.kind](self, step, units)

    def known(self, step: Step, unit: str) -> Facts:
        """What is known of a unit whose output is there."""
        if (counted := COUNTED.get(step.kind)) is not None:
            opened: Any = og.Result.open(self.output(step, unit))
            return {counted: opened.columns.attributes[counted]}
        if step.kind == "diff":
            before, after = self.compared(step, unit)
            return count_changes(before, after).as_dict() if before else {}
        return {}


def _build(work: Work, step: Step, units: Sequence[str]) -> Found:
    job = work.job
    og.build(
        open_edges(job.source),  # type: ignore[arg-type]
        work.output(step, units[0]),
        overwrite=True,
        **(job.build or Build()).model_dump(),
        **work.workplace.options("device", "device_memory"),
    )
    return {units[0]: {}}


def _search(work: Work, step: Step, units: Sequence[str]) -> Found:
    stage: Any = step.stage
    if stage.method == "edges":
        # By CPUs alone, which take no limits of CUDA devices.
        options = work.workplace.cpu_options()
    else:
        options = work.workplace.options("device", "device_memory", "host_memory")
    options |= {"exchange": stage.exchange, "method": stage.method}
    search = getattr(og, step.kind)
    if stage.keys is not None and work.is_cold:
        # As Graph500 does: no time has compiling in it, or the first look at memory.
        scratch = work.run.folder / WARM_UP
        search(work.graph, int(units[0]), out=scratch, overwrite=True, **options)
        rmtree(scratch)
        work.is_cold = False
    answers = search(
        work.graph,
        [int(root) for root in units],
        out=work.run.folder / step.label,
        overwrite=True,
        **options,
    )
    return {
        unit: {"elapsed_s": answer.elapsed_s, "tier_bytes": dict(answer.tier_bytes)}
        for unit, answer in zip(units, answers, strict=True)
    }


def _many(work: Work, step: Step, units: Sequence[str]) -> Found:
    stage: Any = step.stage
    search: Any = og.johnson if stage.kernel == "apsp" else og.multi_source_bfs
    asked = {"parents": True} if stage.parents else {}
    search(
        work.graph,
        work.roots(stage),
        targets=stage.targets,
        cutoff=stage.cutoff,
        reduce=stage.reduce,
        bins=stage.all_bins.count,
        bin_width=stage.bin_width,
        out=work.output(step, units[0]),
        overwrite=True,
        **asked,
        **work.workplace.options("device", "device_memory", "host_memory"),
    )
    return {units[0]: {}}


def _of_graph(work: Work, step: Step, units: Sequence[str]) -> Found:
    stage: Any = step.stage
    asked = stage.model_dump(exclude={"kind", "name"}, exclude_none=True)
    if vertices := asked.get("personalization"):
        asked["personalization"] = dict.fromkeys(vertices_in(vertices), 1.0)
    asked |= {"out": work.output(step, units[0]), "overwrite": True}
    found = getattr(og, step.kind)(work.graph, **asked, **work.workplace.cpu_options())
    return {units[0]: {**work.known(step, units[0]), "tier_bytes": dict(found.tier_bytes)}}


def _validate(work: Work, step: Step, units: Sequence[str]) -> Found:
    stage: Any = step.stage
    answers = [work.output(work.steps[stage.of], unit) for unit in units]
    if stage.against == "edges":
        edges = open_edges(work.job.source)  # type: ignore[arg-type]
        verdicts = [og.validate(answer, edges) for answer in answers]
    else:
        verdicts = og.validate(work.graph, answers, **work.workplace.options())
    noted = "reached", "edges", "error_bound"
    return {
        unit: {name: value for name, value in asdict(verdict).items() if name in noted}
        for unit, verdict in zip(units, verdicts, strict=True)
    }


def _export(work: Work, step: Step, units: Sequence[str]) -> Found:
    stage: Any = step.stage
    make_folder(work.run.folder / step.label)
    for unit in units:
        answer = og.Result.open(work.output(work.steps[stage.of], unit))
        og.export(answer, work.output(step, unit), overwrite=True)
    return {unit: {} for unit in units}


def _diff(work: Work, step: Step, units: Sequence[str]) -> Found:
    make_folder(work.run.folder / step.label)
    found: Found = {}
    for unit in units:
        before, after = work.compared(step, unit)
        changes = write_changes(before, after, work.output(step, unit))
        found[unit] = changes.as_dict() if before else {}
    return found


def _report(work: Work, step: Step, units: Sequence[str]) -> Found:
    from ooc_graph.jobs.own_report import write_own_report  # noqa: PLC0415 - imports matplotlib

    write_own_report(work.run.folder, work.steps, step, work.output(step, units[0]))
    return {units[0]: {}}


def _upload(work: Work, step: Step, units: Sequence[str]) -> Found:
    paths = {unit: str(step.subject(unit)) for unit in units}
    # Before, so that whatever is changed meanwhile is uploaded again.
    found = {unit: noted(work.run.folder / path) for unit, path in paths.items()}
    outputs = {path: work.run.folder / path for path in paths.values()}
    upload(step.asked["to"], outputs, work.workplace.progress)
    return found


_DOING: dict[str, Callable[[Work, Step, Sequence[str]], Found]] = {
    BUILD: _build,
    "bfs": _search,
    "sssp": _search,
    "many": _many,
    "components": _of_graph,
    "pagerank": _of_graph,
    "validate": _validate,
    "export": _export,
    "diff": _diff,
    "report": _report,
    "upload": _upload,
}
"""By kind of step."""
