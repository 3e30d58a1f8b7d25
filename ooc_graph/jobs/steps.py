"""The steps of a run: what each follows from, what it writes, and whether it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ooc_graph import __version__
from ooc_graph.jobs.checks import BUILD
from ooc_graph.jobs.inputs import Files, answers_of, is_damaged, is_same, vertices_sha256
from ooc_graph.jobs.model import Build, Job, StoreSource
from ooc_graph.jobs.stage_tables import (
    ROOTS,
    VERTEX_FILES,
    AnyStage,
    DiffStage,
    ExportStage,
    ReportStage,
    Search,
    UploadStage,
    ValidateStage,
)

GRAPH = "graph.zarr"
DONE, NEW, UNFINISHED, CHANGED = "done", "new", "unfinished", "changed"
# How an answer is called and found; its bytes do not follow from these.
_NOT_ASKED = {"name", "of", "roots_file", "exchange", "method"}


@dataclass(frozen=True)
class Step:
    """A stage of a job, or the build of its graph.

    ``asked`` is all that the output of each unit follows from, beside the unit's name: parameters,
    hashes of what it reads, fingerprints of the steps before it, and the version of the package.
    ``listed`` is what the names of its units follow from: roots, its own or those of the step that
    it follows. ``of`` is that step, if there is one whose output it is about.
    """

    label: str
    kind: str
    asked: dict[str, Any]
    listed: dict[str, Any]
    stage: AnyStage | None = None  # none of the build
    of: Step | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that is asked."""
        return hash_of(self.asked)

    @cached_property
    def wanted(self) -> str:
        """Hash of all that is asked, and of which units."""
        return hash_of([self.asked, self.listed])

    def output(self, unit: str) -> str | None:
        """Where a unit of the step is written, in the folder of the run; None: nowhere."""
        if isinstance(self.stage, ValidateStage | UploadStage):
            return None
        if isinstance(self.stage, ExportStage | DiffStage):
            return f"{self.label}/{unit}.{self.stage.format}"
        if isinstance(self.stage, ReportStage):
            return f"{self.label}.html"
        if self.stage is None:
            return GRAPH
        return f"{self.label}/{unit}.zarr" if self.has_roots else f"{self.label}.zarr"

    def subject(self, unit: str) -> str | None:
        """What a unit writes, or uploads; it is done as long as that is as it was noted.

        In the folder of the run; None: nothing.
        """
        step = self.of if isinstance(self.stage, UploadStage) and self.of else self
        return step.output(unit)

    @property
    def counted_as(self) -> str:
        """What its units are."""
        return "files" if isinstance(self.stage, ExportStage | DiffStage) else "answers"

    @property
    def has_roots(self) -> bool:
        """Whether there is an answer for each root."""
        return self.kind in ("bfs", "sssp")

    def state(self, entry: Mapping[str, Any] | None, folder: Path) -> str:
        """How far the step is by its entry in the manifest of a run."""
        if entry is None:
            return NEW
        if entry["fingerprint"] != self.fingerprint:
            return CHANGED
        is_whole = entry["done"] and len(self.intact(entry, folder)) == entry["total"]
        return DONE if is_whole and entry["listed"] == self.listed else UNFINISHED

    def intact(self, entry: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
        """What is done of the step and whose subject is as it was noted, by unit."""
        return {
            unit: facts
            for unit, facts in entry["units"].items()
            if (path := self.subject(unit)) is None or is_same(folder / path, facts)
        }

    def damaged(self, entry: Mapping[str, Any], folder: Path, units: Collection[str]) -> list[str]:
        """Stores of units that the step wrote and that nobody would replace; their paths.

        Those who write stores replace none that is damaged, since it may be anybody's. So is what a
        link leads to. Those who write an answer for each root take any that is there for done.
        """
        paths = {unit: self.output(unit) for unit in units if unit in entry["units"]}
        return [
            path
            for unit, path in paths.items()
            if path is not None
            and path.endswith(".zarr")
            and (at := folder / path).is_dir()
            and at.resolve() == folder.resolve() / path
            and not is_same(at, entry["units"][unit])
            and (is_damaged(at) or (self.has_roots and unit not in entry["begun"]))
        ]

    def differing(self, entry: Mapping[str, Any]) -> list[str]:
        """Names of what was otherwise when the step was done before."""
        before, now = entry["asked"] | entry["listed"], self.asked | self.listed
        changed = [key for key in {**now, **before} if now.get(key) != before.get(key)]
        return [name for key in changed for name in _names_in(key, before.get(key), now.get(key))]


def hash_of(asked: Any) -> str:
    """SHA-256 of what can be written as JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _names_in(key: str, before: Any, now: Any) -> list[str]:
    """What has changed under a key: files and steps by their names."""
    if key == "files":
        old, new = before or [], now or []
        some = [one for one in [*old, *new] if one not in old or one not in new]
        return list(dict.fromkeys(one["name"] for one in some)) or ["files"]
    if key == "after":
        old, new = before or {}, now or {}
        return [name for name in {**new, **old} if old.get(name) != new.get(name)]
    return [key]


def steps_of(job: Job, source: Mapping[str, Any], files: Files) -> list[Step]:
    """The steps of a job, in their order.

    ``source`` and ``files`` are as of `ooc_graph.jobs.inputs.source_of`.
    """
    steps: dict[str, Step] = {}
    version = {"version": __version__}
    graph: dict[str, Any] = {"graph": source}
    if not isinstance(job.source, StoreSource):
        build = (job.build or Build()).model_dump(exclude_none=True)
        steps[BUILD] = Step(BUILD, BUILD, {**source, **build, **version}, {})
        graph = {BUILD: steps[BUILD].fingerprint}
    for stage in job.stage:
        asked = stage.model_dump(mode="json", exclude=_NOT_ASKED, exclude_none=True) | version
        for key in VERTEX_FILES:
            if isinstance(path := getattr(stage, key, None), str):
                asked[key] = vertices_sha256(path, files)
        if isinstance(stage, DiffStage):
            asked["against"] = answers_of(Path(stage.against), stage.of)
        of = getattr(stage, "of", None)
        asked["after"] = graph if of is None else {of: steps[of].fingerprint}
        listed = {} if of is None else steps[of].listed
        if isinstance(stage, Search):
            listed = {key: asked.pop(key) for key in ROOTS if key in asked}
        if isinstance(stage, ReportStage):
            # About all of them, and all of their units.
            asked["after"] = graph | {name: step.wanted for name, step in steps.items()}
        before = None if of is None else steps[of]
        steps[stage.label] = Step(stage.label, stage.kind, asked, listed, stage, before)
    return list(steps.values())
