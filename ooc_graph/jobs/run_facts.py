"""What is known of a run from its folder, for reports; the run is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from ooc_graph.jobs.folder import EVENTS, JOB, MANIFEST, SUMMARY, read_manifest
from ooc_graph.jobs.status import DONE, latest_events, status_of
from ooc_graph.jobs.summary import COUNTED, entries_of, figures_of
from ooc_graph.report.run_facts import RunFacts, StageFacts

SKIPPED = "skipped"


def facts_of(folder: Path) -> tuple[RunFacts, dict[str, Any]]:
    """What is known of a run, and its manifest.

    Raises
    ------
    NotAStoreError
        There is no run.
    """
    found = status_of(folder)
    manifest = read_manifest(folder) or {}
    skipped = {one["stage"] for one in latest_events(folder) if one["event"] == SKIPPED}
    entries, figures = entries_of(manifest), figures_of(manifest)
    stages = []
    for step in found["steps"]:
        name = step["step"]
        is_skipped = step["state"] == DONE and name in skipped
        facts = StageFacts(
            name=name,
            kind=step.get("kind", ""),
            state=SKIPPED if is_skipped else step["state"],
            done=step["done"],
            total=step.get("total"),
            error=step.get("error", ""),
            **_measures(folder, name, entries.get(name), figures.get(name, {})),
        )
        stages.append(facts)
    # Its name, wherever it is looked at from.
    known = {"folder": folder.absolute().name, "job": found["job"], "state": found["state"]}
    known |= {key: found[key] for key in ("since", "last", "host", "error") if key in found}
    if "since" in found:
        begun, last = (datetime.fromisoformat(found[key]) for key in ("since", "last"))
        known["seconds"] = (last - begun).total_seconds()
    files = (JOB, MANIFEST, EVENTS, SUMMARY)
    there = tuple(name for name in files if (folder / name).is_file())
    return RunFacts(**known, stages=tuple(stages), files=there), manifest


def _measures(
    folder: Path, name: str, entry: Mapping[str, Any] | None, figures: Mapping[str, Any]
) -> dict[str, Any]:
    """Times, result and outputs of a stage that was begun."""
    if entry is None:
        return {}
    units = entry["units"].values()
    seconds = [one["seconds"] for one in units if one["seconds"] is not None]
    found: dict[str, Any] = {"seconds": sum(seconds) if seconds else None}
    found["median_s"] = figures.get("median_elapsed_s", median(seconds) if seconds else None)
    found["teps"] = figures.get("harmonic_mean_teps")
    if (counted := COUNTED.get(entry["kind"], "")) in figures:
        count = figures[counted]
        found["result"] = f"{count:,} {counted if count != 1 else counted.removesuffix('s')}"
    if "error_bound" in figures:
        found["result"] = f"at most {figures['error_bound']:g} from the true ranks"
    if "compared" in figures:
        counts = [f"{figures[key]:,} {key}" for key in ("changed", "new", "gone") if key in figures]
        found["result"] = ", ".join(counts) or "nothing to compare with"
    if entry["kind"] == "upload":
        found["result"] = f"to {entry['asked']['to']}"
    outputs = ("graph.zarr",) if entry["kind"] == "build" else (name, f"{name}.zarr")
    return found | {"outputs": tuple(one for one in outputs if (folder / one).exists())}
