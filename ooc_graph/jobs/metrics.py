"""How far runs are, as a file for the textfile collector of Prometheus' node_exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ooc_graph.errors import UsageError
from ooc_graph.jobs.status import STATES
from ooc_graph.layout.outputs import refuse_file
from ooc_graph.layout.whole_file import disk_full_reported, renamed_file

_HELP = {
    "run_state": "1 for the state that a run is in, 0 for the others.",
    "run_last_event_timestamp_seconds": "Time of the last event of a run.",
    "run_seconds": "Seconds that the latest attempt at a run took, if it has ended.",
    "stage_units": "Units of a stage: answers or files.",
    "stage_units_done": "Units of a stage that are done.",
    "stage_seconds": "Seconds that the units of a stage took that are done.",
    "stage_tier_bytes": "Most bytes that a search reserved; as read, bytes that all read.",
    "stage_failures": "Failures of a stage in the latest attempt at its run.",
}
"""By name, less the prefix: what is measured."""
Sample = tuple[dict[str, str], float]


def write_metrics(path: Path, statuses: Sequence[Mapping[str, Any]]) -> None:
    """Write a file of metrics, whole or not at all.

    Parameters
    ----------
    path
        Its name ends in ``.prom``, for node_exporter reads no other files.
    statuses
        As `ooc_graph.jobs.status.statuses_in` has them.
    """
    if path.suffix != ".prom":
        raise UsageError(
            f"{path}: node_exporter reads no such file; give a name that ends in .prom"
        )
    refuse_file(path)
    # Under a name that does not end in .prom, and to be read soon or never: not synced.
    with disk_full_reported(path), renamed_file(path) as partial:
        partial.write_text(metrics_text(statuses), encoding="utf-8")


def metrics_text(statuses: Sequence[Mapping[str, Any]]) -> str:
    """Metrics of runs in Prometheus' text format: all of them gauges."""
    samples: dict[str, list[Sample]] = {name: [] for name in _HELP}
    for status in statuses:
        for name, labels, value in _samples(status):
            samples[name].append((labels, value))
    return "".join(_family(f"ooc_graph_{name}", _HELP[name], samples[name]) for name in _HELP)


def _samples(status: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of what is known of a run."""
    # A label ``job`` is the scraper's own.
    of = {"run": Path(status["folder"]).name, "job_name": status["job"]}
    for state in STATES:
        yield "run_state", {**of, "state": state}, state == status["state"]
    if "last" in status:
        last_s = datetime.fromisoformat(status["last"]).timestamp()
        yield "run_last_event_timestamp_seconds", of, last_s
    if "seconds" in status:
        yield "run_seconds", of, status["seconds"]
    for step in status["steps"]:
        labels = {**of, "stage": step["step"]}
        for name, key in (
            ("stage_units", "total"),
            ("stage_units_done", "done"),
            ("stage_seconds", "seconds"),
            ("stage_failures", "failures"),
        ):
            if key in step:
                yield name, labels, step[key]
        for tier, size in step.get("tier_bytes", {}).items():
            yield "stage_tier_bytes", {**labels, "tier": tier}, size


def _family(name: str, said: str, samples: Sequence[Sample]) -> str:
    lines = [f"# HELP {name} {said}", f"# TYPE {name} gauge"]
    for labels, value in samples:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inner}}} {float(value)!r}")
    return "\n".join(lines) + "\n" if samples else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
