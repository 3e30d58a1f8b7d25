"""How far a run is, read from its folder by anybody: the run is not asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ooc_graph.errors import CorruptStoreError, NotAStoreError, OocGraphError
from ooc_graph.jobs.events import FAILED, STOPPED
from ooc_graph.jobs.folder import EVENTS, MANIFEST, read_manifest
from ooc_graph.jobs.recorded import is_event
from ooc_graph.jobs.tiers import tier_bytes
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.whole_file import content_of

RUNNING, DONE, NEW = "running", "done", "new"
DAMAGED = "damaged"
STATES = (RUNNING, STOPPED, FAILED, DONE, NEW, DAMAGED)


def statuses_in(folder: Path) -> list[dict[str, Any]]:
    """How far each run in a folder is, by name; the state of one that is damaged is that."""
    return [
        status_or_damage(path) for path in sorted(folder.iterdir()) if (path / MANIFEST).is_file()
    ]


def status_or_damage(folder: Path) -> dict[str, Any]:
    """How far a run is; the state of one that cannot be read is that it is damaged."""
    try:
        return status_of(folder)
    except (CorruptStoreError, NotAStoreError, OSError) as error:
        return damaged(folder, error)


def damaged(folder: Path, error: OocGraphError | OSError) -> dict[str, Any]:
    """What `status_of` would say of a run that cannot be read."""
    found = {"job": "", "folder": str(folder), "state": DAMAGED, "error": str(error)}
    return {**found, "steps": []}


def status_of(folder: Path) -> dict[str, Any]:
    """How far a run is, JSON-able.

    ``state`` is ``running``; ``done``; ``failed``, with the ``error``; or ``stopped``: by a signal
    that ``error`` names, or without one if the process is not there any more. Of another host's
    process that cannot be known: see ``last``, the time of the last event. ``steps`` have, of each,
    units done and in all, those that are ``running`` and since when, and the units a second of this
    run. ``seconds`` are of all that is done, by whichever run, and so are ``tier_bytes``;
    ``failures`` are of this one.

    Raises
    ------
    NotAStoreError
        There is no run.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise NotAStoreError(f"{folder}: holds no run of a job (it has no {MANIFEST})")
    run = latest_events(folder)
    found: dict[str, Any] = {"job": manifest["job"], "folder": str(folder), **_run_state(run)}
    is_running = found["state"] == RUNNING
    steps = []
    for name, wanted in manifest["asked"].items():
        entry = manifest["steps"].get(name, {})
        # Done for what was asked for before, it is to be done.
        is_asked = entry.get("wanted") == wanted
        steps.append(_step(name, entry if is_asked else None, run, is_running))
    return {**found, "steps": steps}


def latest_events(folder: Path) -> list[dict[str, Any]]:
    """What happened since a run last began in a folder; nothing if none did."""
    events = list(_events(folder / EVENTS))
    begins = [at for at, one in enumerate(events) if one["event"] == "begun" and "run" in one]
    return events[begins[-1] :] if begins else []


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Events in their order; a line that was not written to its end, or was damaged, is none."""
    if path.is_file():
        for line in content_of(path).splitlines():
            try:
                found = parsed(line)
            except ValueError:
                continue
            if is_event(found):
                yield found


def _run_state(run: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not run:
        return {"state": NEW}
    begun, last = run[0], run[-1]
    found = {
        "host": begun["host"],
        "pid": begun["pid"],
        "since": begun["time"],
        "last": last["time"],
    }
    if "run" in last and last["event"] in (DONE, FAILED, STOPPED):
        error = {} if last["event"] == DONE else {"error": last["error"]}
        return {"state": last["event"], **found, "seconds": last["seconds"], **error}
    is_gone = begun["host"] == socket.gethostname() and not _is_there(begun["pid"])
    return {"state": STOPPED if is_gone else RUNNING, **found}


def _is_there(pid: int) -> bool:
    import psutil  # noqa: PLC0415 - takes a while, and most runs have ended

    try:
        # A dead process keeps its number until its parent asks for it, which in containers often
        # nobody does.
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _step(
    name: str, entry: Mapping[str, Any] | None, run: Sequence[Mapping[str, Any]], is_running: bool
) -> dict[str, Any]:
    """How far a step is, by its entry in the manifest and the events of the latest run."""
    if entry is None:
        return {"step": name, "state": NEW, "done": 0}
    own = [one for one in run if one.get("stage") == name]
    found: dict[str, Any] = {"step": name, "kind": entry["kind"]}
    found |= {"state": DONE if entry["done"] else STOPPED}
    found |= {"done": len(entry["units"]), "total": entry["total"]}
    found["seconds"] = sum(one["seconds"] or 0.0 for one in entry["units"].values())
    if tiers := tier_bytes(entry["units"].values()):
        found["tier_bytes"] = tiers
    found["failures"] = sum(one["event"] == FAILED for one in own)
    ended = [one for one in own if one["event"] == DONE and "units" in one]
    seconds = sum(one["seconds"] for one in ended)
    if seconds > 0:
        found["units_per_s"] = sum(len(one["units"]) for one in ended) / seconds
    if is_running and own and own[-1]["event"] == "begun":
        found |= {"state": RUNNING, "running": own[-1].get("units", [])}
        found["since"] = own[-1]["time"]
    elif is_running and own and own[-1]["event"] == DONE and "units" in own[-1]:
        found["state"] = RUNNING
    elif own and own[-1]["event"] in (FAILED, STOPPED):
        found |= {"state": RUNNING if is_running else own[-1]["event"], "error": own[-1]["error"]}
    if found["state"] == RUNNING and "units_per_s" in found:
        found["left_s"] = (found["total"] - found["done"]) / found["units_per_s"]
    return found


def age_of(time: str, now: datetime) -> str:
    """How long ago an event was, as people say it."""
    seconds = (now - datetime.fromisoformat(time)).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
