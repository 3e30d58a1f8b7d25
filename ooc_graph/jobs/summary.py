"""Figures of a run, from its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ooc_graph.jobs.steps import Step
from ooc_graph.report.graph500 import teps_statistics


def summary_of(manifest: Mapping[str, Any], steps: Sequence[Step]) -> str:
    """What ``summary.json`` says: figures of each step that is done.

    A search has its time unless its run was killed before that was noted. TEPS count the edges
    that a validation against the edges found, as Graph500 does; their mean is harmonic.
    """
    found = ((step, manifest["steps"].get(step.label)) for step in steps)
    done = {
        step.label: entry
        for step, entry in found
        if entry and entry["done"] and entry["wanted"] == step.wanted
    }
    return json.dumps({name: _figures(name, done) for name in done}, indent=1) + "\n"


def _figures(name: str, done: Mapping[str, Any]) -> dict[str, Any]:
    entry = done[name]
    units = entry["units"]
    figures: dict[str, Any] = {
        "kind": entry["kind"],
        "units": len(units),
        "seconds": sum(one["seconds"] or 0.0 for one in units.values()),
    }
    if entry["kind"] in ("bfs", "sssp"):
        figures |= _of_searches(name, done)
    if entry["kind"] == "components":
        figures["components"] = units[name]["components"]
    return figures


def _of_searches(name: str, done: Mapping[str, Any]) -> dict[str, Any]:
    units = done[name]["units"]
    elapsed = {unit: one["elapsed_s"] for unit, one in units.items() if one.get("elapsed_s")}
    figures: dict[str, Any] = {"timed": len(elapsed)}
    if elapsed:
        figures["median_elapsed_s"] = median(elapsed.values())
    for entry in done.values():
        if entry["asked"].get("against") == "edges" and name in entry["asked"]["after"]:
            edges = {unit: entry["units"][unit]["edges"] for unit in elapsed}
            counted = [unit for unit in elapsed if edges[unit]]
            if counted:
                given = [elapsed[unit] for unit in counted], [edges[unit] for unit in counted]
                figures["harmonic_mean_teps"] = teps_statistics(*given).harmonic_mean
    return figures
