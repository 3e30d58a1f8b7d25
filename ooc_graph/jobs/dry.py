"""What a run would do, without doing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ooc_graph.errors import OocGraphError
from ooc_graph.jobs.checks import BUILD
from ooc_graph.jobs.driver import ALL, Chosen, planned
from ooc_graph.jobs.folder import read_manifest
from ooc_graph.jobs.model import Job, KroneckerSource, StoreSource
from ooc_graph.jobs.stage_tables import ManyStage, Rooted
from ooc_graph.jobs.steps import CHANGED, DONE, GRAPH, Step
from ooc_graph.model.resources import CUDA
from ooc_graph.remote.urls import is_url

STAYS = "bytes that stay in the store"
"""As `ooc_graph.plan` calls them."""


def outlook(job: Job, folder: Path, chosen: Chosen = ALL) -> Iterator[dict[str, str]]:
    """Rows of a table: each step, how far it is, and the memory that one process needs for it.

    Nothing is written. Memory is as `ooc_graph.plan` has it, once there is a graph.
    """
    steps, some, _ = planned(job, folder, chosen)
    entries = (read_manifest(folder) or {}).get("steps", {})
    states = {step.label: step.state(entries.get(step.label), folder) for step in steps}
    graph = _graph(job, folder, states)
    for step in steps:
        entry = entries.get(step.label)
        state = states[step.label]
        if state == CHANGED:
            state = f"{', '.join(step.differing(entry))} changed"
        elif entry is not None and state != DONE:
            state = f"{len(step.intact(entry, folder))} of {entry['total']} done"
            if changed := step.differing(entry):
                state += f", {', '.join(changed)} changed"
        if step not in some:
            state += ", not chosen"
        is_left = states[step.label] != DONE and step in some
        yield {
            "step": step.label,
            "kind": step.kind,
            "state": state,
            "memory": _memory(job, step, graph) if is_left else "",
        }


def _graph(job: Job, folder: Path, states: dict[str, str]) -> Path | None:
    """Where the graph of the job is; None if it is not built yet, or not on this machine."""
    if isinstance(job.source, StoreSource):
        # One at a URL would have to be fetched.
        return None if is_url(job.source.path) else Path(job.source.path)
    return folder / GRAPH if states[BUILD] == DONE else None


def _memory(job: Job, step: Step, graph: Path | None) -> str:
    """Bytes that a step holds in memory, in words; empty if that is not known."""
    given: dict[str, Any] = {"memory_limit": job.resources.memory_limit}
    if job.resources.device == CUDA:
        given = job.resources.model_dump()
    import ooc_graph as og  # noqa: PLC0415 (much is imported)

    try:
        if step.kind == BUILD and isinstance(job.source, KroneckerSource):
            found = og.plan(og.Kronecker(job.source.scale), "graph500")
            return f"{found['least bytes: build']:,} bytes at least"
        if graph is None or not isinstance(step.stage, Rooted):
            return ""
        found = og.plan(graph, **_asked(step.stage, step.kind), **given)
    except OocGraphError as error:
        return str(error)
    sizes = [f"{size:,} {name}" for name, size in found.items() if "bytes: in all" in name]
    stays = f"; {left:,} bytes in the store" if (left := found[STAYS]) else ""
    return f"{found['tier']}, {' and '.join(sizes)}{stays}"


def _asked(stage: Rooted, kind: str) -> dict[str, Any]:
    if not isinstance(stage, ManyStage):
        return {"kernel": kind}
    asked: dict[str, Any] = {"kernel": stage.kernel, "parents": stage.parents}
    if stage.roots is not None:
        asked["sources"] = stage.roots
    if stage.targets is not None:
        asked["targets"] = stage.targets
    return asked | {"reduce": stage.reduce, "bins": stage.all_bins.count}
