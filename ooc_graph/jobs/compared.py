"""Runs of a job side by side: what each did, and what is otherwise than in the run before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ooc_graph.errors import CorruptStoreError, NotAStoreError, UsageError
from ooc_graph.jobs.events import FAILED, STOPPED
from ooc_graph.jobs.folder import JOB
from ooc_graph.jobs.run_facts import facts_of
from ooc_graph.jobs.status import DAMAGED
from ooc_graph.jobs.steps import Step
from ooc_graph.jobs.summary import entries_of
from ooc_graph.jobs.toml_text import tables_of
from ooc_graph.report.run_facts import Change, RunFacts, StageFacts, duration, rate

WORSE_BY, WORSE_BY_S = 0.10, 1.0
"""A stage counts as slower than before if it lost more than this share, and these seconds."""
_OF_TIME = ("stamp", "seconds", "elapsed_s", "tier_bytes")
"""What is noted of a unit and is no result."""
_ABOUT_RUNS = ("diff", "report", "upload")
"""Kinds of stages whose results are about times, changes and others' results: they are no news."""
Manifest = Mapping[str, Any]


def compared(folders: Sequence[Path]) -> list[RunFacts]:
    """Runs in the order of their folders, each compared with the last one before it that is whole.

    The state of one that cannot be read is ``damaged``.

    Raises
    ------
    CorruptStoreError, NotAStoreError
        No folder holds a run that can be read, or one is not there.
    UsageError
        The runs are of several jobs.
    """
    found = _facts_in(folders)
    jobs = sorted({run.job for run, _ in found if run.state != DAMAGED})
    if len(jobs) > 1:
        raise UsageError(f"runs of {len(jobs)} jobs ({', '.join(jobs)}); give runs of one job")
    runs, before = [], None
    for folder, (run, manifest) in zip(folders, found, strict=True):
        changes = list(_ended_badly(run))
        if run.state != DAMAGED:
            if before is not None:
                changes += _between(*before, folder, run, manifest)
            before = folder, run, manifest
        runs.append(replace(run, job=jobs[0], changes=tuple(changes)))
    return runs


def _facts_in(folders: Sequence[Path]) -> list[tuple[RunFacts, Manifest]]:
    """What is known of runs, one of which can be read at least."""
    found: list[tuple[RunFacts, Manifest]] = []
    for folder in folders:
        try:
            found.append(facts_of(folder))
        except (CorruptStoreError, NotAStoreError) as error:
            is_last = len(found) == len(folders) - 1
            if not folder.is_dir() or (is_last and all(run.state == DAMAGED for run, _ in found)):
                raise
            name = folder.absolute().name
            found.append((RunFacts(name, "", DAMAGED, stages=(), error=str(error)), {}))
    return found


def _between(
    old: Path, before: RunFacts, earlier: Manifest, new: Path, now: RunFacts, later: Manifest
) -> Iterator[Change]:
    yield from _between_jobs(old / JOB, new / JOB)
    yield from _between_stages(before, now, entries_of(earlier), entries_of(later))


def _ended_badly(run: RunFacts) -> tuple[Change, ...]:
    """What failed, was stopped or killed, or cannot be read."""
    found = [
        Change(stage.name, f"failed: {stage.error}", is_worse=True)
        for stage in run.stages
        if stage.state == FAILED
    ]
    if run.state == FAILED and not found:
        found.append(Change("", f"failed: {run.error}", is_worse=True))
    if run.state == DAMAGED:
        found.append(Change("", run.error, is_worse=True))
    if run.state == STOPPED:
        why = run.error or "killed: its process ended without a word"
        found.append(Change("", why, is_worse=not run.error))
    return tuple(found)


def _between_jobs(before: Path, now: Path) -> Iterator[Change]:
    """Values that two job files have otherwise."""
    old, new = _values(before), _values(now)
    # A stage that only one of them has is a change by itself.
    kinds = {key.removesuffix(".kind") for key in old.keys() ^ new.keys() if key.endswith(".kind")}
    for key in {**new, **old}:
        if old.get(key) != new.get(key) and key.partition(".")[0] not in kinds:
            said = " → ".join(str(values.get(key, "not given")) for values in (old, new))
            yield Change("", f"{key}: {said}")


def _values(job: Path) -> dict[str, Any]:
    """Values of a job file by dotted key; stages go by name."""
    try:
        tables = tables_of(job.read_text())
    except (OSError, ValueError):
        return {}
    stages = tables.pop("stage", [])
    known = [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []
    inner = {str(one.get("name", one.get("kind"))): one for one in known} | tables
    return {
        f"{name}.{key}": value
        for name, table in inner.items()
        if isinstance(table, dict)
        for key, value in table.items()
    }


def _between_stages(
    before: RunFacts, now: RunFacts, old: Manifest, new: Manifest
) -> Iterator[Change]:
    for stage in now.stages:
        earlier = before.by_name.get(stage.name)
        if earlier is None:
            yield Change(stage.name, "was not in the job before")
            continue
        if slower := _slower(earlier, stage):
            yield Change(stage.name, slower, is_worse=True)
        if stage.name in old and stage.name in new and stage.kind not in _ABOUT_RUNS:
            yield from _of_results(stage.name, old, new)
    for stage in before.stages:
        if stage.name not in now.by_name:
            yield Change(stage.name, "is no longer in the job")


def _slower(before: StageFacts, now: StageFacts) -> str:
    """By how much a stage is slower, in words; empty if it is not, or not by much."""
    if before.teps and now.teps:
        ratio = before.teps / now.teps
        share = 1 - 1 / ratio
        said = f"{share:.0%} fewer TEPS (harmonic mean): {rate(before.teps)} → {rate(now.teps)}"
    elif before.median_s and now.median_s:
        ratio = now.median_s / before.median_s
        share = ratio - 1
        times = f"{duration(before.median_s)} → {duration(now.median_s)}"
        said = f"{share:.0%} slower (median): {times}"
    else:
        return ""
    lost_s = (now.seconds or 0.0) * (1 - 1 / ratio)
    return said if share > WORSE_BY and lost_s >= WORSE_BY_S else ""


def _of_results(name: str, old: Manifest, new: Manifest) -> Iterator[Change]:
    """Whether units of a stage have other results, and why."""
    units, earlier = new[name]["units"], old[name]["units"]
    both = [unit for unit in units if unit in earlier]
    other = [unit for unit in both if _result(units[unit]) != _result(earlier[unit])]
    if not other:
        return
    count = "" if len(both) == 1 else f" ({len(other)} of {len(both)})"
    why = sorted(_causes(name, old, new) - {"version"})
    if why:
        yield Change(name, f"other result{count}, since {', '.join(why)} changed")
        return
    text = f"other result{count}, though neither input nor parameters changed"
    yield Change(name, text, is_worse=True)


def _result(unit: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in unit.items() if key not in _OF_TIME}


def _causes(name: str, old: Manifest, new: Manifest) -> set[str]:
    """Names of parameters and files for which a stage has another fingerprint."""
    step = Step(name, *(new[name][key] for key in ("kind", "asked", "listed")))
    found = set(step.differing(old[name]))
    before = new[name]["asked"].get("after", {})
    steps = {one for one in found if one in before and one in old and one in new}
    return found - steps | {cause for one in steps for cause in _causes(one, old, new)}
