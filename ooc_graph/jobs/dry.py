"""What a run would do, without doing it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ooc_graph.errors import OocGraphError
from ooc_graph.jobs.checks import BUILD
from ooc_graph.jobs.driver import ALL, Chosen, planned
from ooc_graph.jobs.folder import read_manifest
from ooc_graph.jobs.inputs import Files, input_bytes, vertices_in
from ooc_graph.jobs.model import Job, KroneckerSource, StoreSource
from ooc_graph.jobs.rates import Rate, Rates
from ooc_graph.jobs.stage_tables import ManyStage, PagerankStage, Rooted, Search
from ooc_graph.jobs.steps import CHANGED, DONE, GRAPH, Step
from ooc_graph.model.resources import CUDA
from ooc_graph.remote.urls import is_url
from ooc_graph.report.run_facts import duration

STAYS = "bytes that stay in the store"
"""As `ooc_graph.plan` calls them."""


COLUMNS = ("step", "kind", "state", "units", "bytes", "time", "memory")
UNKNOWN = "not known yet"


def outlook(job: Job, folder: Path, chosen: Chosen = ALL) -> Iterator[dict[str, str]]:
    """Rows of a table with `COLUMNS`: each step, how far it is, and what is left of it.

    Nothing is written. Time and bytes to write are those of earlier units of the same stage, by
    the folder of the run or one beside it. Memory is what one process needs, as `ooc_graph.plan`
    has it, once there is a graph.
    """
    steps, some, files = planned(job, folder, chosen)
    entries = (read_manifest(folder) or {}).get("steps", {})
    states = {step.label: step.state(entries.get(step.label), folder) for step in steps}
    graph, rates = _graph(job, folder, states), Rates(folder, str(job.name))
    units: dict[str, list[str] | int] = {}
    spent: list[float | None] = []
    for step in steps:
        entry = entries.get(step.label)
        state = states[step.label]
        units[step.label] = _units(step, units)
        intact: Collection[str] = ()
        if state == CHANGED:
            state = f"{', '.join(step.differing(entry))} changed"
        elif entry is not None and state != DONE:
            intact = step.intact(entry, folder)
            state = f"{len(intact)} of {entry['total']} done"
            if changed := step.differing(entry):
                state += f", {', '.join(changed)} changed"
        row = {"step": step.label, "kind": step.kind, "state": state}
        if step not in some:
            row["state"] += ", not chosen"
        elif states[step.label] != DONE:
            left, rate = _left(units[step.label], intact), rates.of(step)
            spent.append(None if rate is None else left * rate.seconds)
            row["units"] = f"{left:,}"
            row["bytes"] = _bytes(step, left, rate, files)
            row["time"] = UNKNOWN if rate is None else _time(left, rate, folder)
            row["memory"] = _memory(job, step, graph)
        yield dict.fromkeys(COLUMNS, "") | row
    if spent:
        known = [one for one in spent if one is not None]
        in_all = duration(sum(known)) if len(known) == len(spent) else UNKNOWN
        yield dict.fromkeys(COLUMNS, "") | {"step": "in all", "time": in_all}


def _units(step: Step, before: Mapping[str, list[str] | int]) -> list[str] | int:
    """Units of a step; their number if their names, Graph500's keys, follow from the graph.

    Of a tiny graph there are fewer. ``before`` has the units of the steps before it.
    """
    if step.of is not None:
        return before[step.of.label]
    if not isinstance(step.stage, Search):
        return [step.label]
    if step.stage.keys is not None:
        return step.stage.keys
    roots = step.stage.roots or []
    if step.stage.roots_file is not None:
        roots = vertices_in(step.stage.roots_file)
    return [str(root) for root in roots]


def _left(units: list[str] | int, done: Collection[str]) -> int:
    if isinstance(units, int):
        return max(0, units - len(done))
    return sum(unit not in done for unit in units)


def _bytes(step: Step, left: int, rate: Rate | None, files: Files) -> str:
    """Bytes that a step reads as input, and writes if its units are as large as earlier ones."""
    known: dict[str, int | None] = {"to read": None, "to write": None}
    if step.kind == BUILD and "files" in step.asked:
        known["to read"] = input_bytes(step.asked["files"], files)
    if rate is not None and rate.bytes is not None:
        known["to write"] = round(left * rate.bytes)
    return ", ".join(f"{size:,} {what}" for what, size in known.items() if size is not None)


def _time(left: int, rate: Rate, folder: Path) -> str:
    """Time that units take if they take as long as earlier ones, and which these were."""
    found = duration(left * rate.seconds)
    if rate.folder == folder:
        return found
    others = f", with other {', '.join(rate.differing)}" if rate.differing else ""
    return f"{found}, as in {rate.folder.name}{others}"


def _graph(job: Job, folder: Path, states: dict[str, str]) -> Path | None:
    """Where the graph of the job is; None if it is not built yet, or not on this machine."""
    if isinstance(job.source, StoreSource):
        # One at a URL would have to be fetched.
        return None if is_url(job.source.path) else Path(job.source.path)
    return folder / GRAPH if states[BUILD] == DONE else None


def _memory(job: Job, step: Step, graph: Path | None) -> str:
    """Bytes that a step holds in memory, in words; empty if that is not known."""
    given: dict[str, Any] = {"memory_limit": job.resources.memory_limit}
    if job.resources.device == CUDA and isinstance(step.stage, Rooted):
        given = job.resources.model_dump()
    import ooc_graph as og  # noqa: PLC0415 (much is imported)

    try:
        if step.kind == BUILD and isinstance(job.source, KroneckerSource):
            found = og.plan(og.Kronecker(job.source.scale), "graph500")
            return f"{found['least bytes: build']:,} bytes at least"
        if graph is None or not isinstance(step.stage, Rooted | PagerankStage):
            return ""
        opened = og.open(graph)
        found = og.plan(opened, **_asked(step.stage, opened), **given)
    except OocGraphError as error:
        return str(error)
    sizes = [f"{size:,} {name}" for name, size in found.items() if "bytes: in all" in name]
    stays = f"; {left:,} bytes in the store" if (left := found[STAYS]) else ""
    return f"{found['tier']}, {' and '.join(sizes)}{stays}"


def _asked(stage: Any, graph: Any) -> dict[str, Any]:
    if isinstance(stage, PagerankStage):
        from ooc_graph.api.pagerank import kernel_of  # noqa: PLC0415 - much is imported

        return {"kernel": kernel_of(graph, weight=stage.weight)}
    if not isinstance(stage, ManyStage):
        return {"kernel": stage.kind}
    asked: dict[str, Any] = {"kernel": stage.kernel, "parents": stage.parents}
    if stage.roots is not None:
        asked["sources"] = stage.roots
    if stage.targets is not None:
        asked["targets"] = stage.targets
    return asked | {"reduce": stage.reduce, "bins": stage.all_bins.count}
