"""Figures of a run, from its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median
from typing import Any

from ooc_graph.report.graph500 import teps_statistics

COUNTED = {"components": "components", "pagerank": "iterations"}
"""By kind of stage: what its answer has a number of, and says so in its attributes."""


def summary_of(manifest: Mapping[str, Any]) -> str:
    """What ``summary.json`` says: figures of each step that is done."""
    return json.dumps(figures_of(manifest), indent=1) + "\n"


def figures_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Figures of each step that is done, by name.

    A search has its time unless its run was killed before that was noted. TEPS count the edges
    that a validation against the edges found, as Graph500 does; their mean is harmonic.
    """
    done = {name: entry for name, entry in entries_of(manifest).items() if entry["done"]}
    return {name: _figures(name, done) for name in done}


def entries_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Entries of the steps that were begun as they were asked for last, by name."""
    found = (
        (name, asked, manifest["steps"].get(name)) for name, asked in manifest["asked"].items()
    )
    return {name: entry for name, asked, entry in found if entry and entry["wanted"] == asked}


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
    if (counted := COUNTED.get(entry["kind"])) is not None:
        figures[counted] = sum(one.get(counted, 0) for one in units.values())
    if bounds := [one["error_bound"] for one in units.values() if "error_bound" in one]:
        figures["error_bound"] = max(bounds)
    if entry["kind"] == "diff":
        # Of a unit without an earlier answer nothing is known.
        compared = [one for one in units.values() if "changed" in one]
        figures["compared"] = len(compared)
        keys = ("changed", "new", "gone") if compared else ()
        figures |= {key: sum(one.get(key, 0) for one in compared) for key in keys}
    return figures


def _of_searches(name: str, done: Mapping[str, Any]) -> dict[str, Any]:
    units = done[name]["units"]
    elapsed = {unit: one["elapsed_s"] for unit, one in units.items() if one.get("elapsed_s")}
    figures: dict[str, Any] = {"timed": len(elapsed)}
    if elapsed:
        figures["median_elapsed_s"] = median(elapsed.values())
    for entry in done.values():
        if entry["asked"].get("against") == "edges" and name in entry["asked"]["after"]:
            edges = {unit: entry["units"].get(unit, {}).get("edges") for unit in elapsed}
            counted = [unit for unit in elapsed if edges[unit]]
            if counted:
                given = [elapsed[unit] for unit in counted], [edges[unit] for unit in counted]
                figures["harmonic_mean_teps"] = teps_statistics(*given).harmonic_mean
    return figures
