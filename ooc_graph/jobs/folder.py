"""The folder of a run: who writes to it, what is done, and what happened when.

``run.json``, the manifest, is written whole, ``events.jsonl`` line by line. ``run.lock`` names the
run that writes; each write looks whether it still does.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

from ooc_graph.errors import CorruptStoreError, OutputExistsError, RunTakenOverError
from ooc_graph.jobs import events
from ooc_graph.jobs.inputs import noted, sha256_of
from ooc_graph.jobs.leftovers import remove_leftovers, remove_partial_files
from ooc_graph.jobs.recorded import require_manifest
from ooc_graph.jobs.steps import Step, hash_of
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.locks import Lock, locked
from ooc_graph.layout.outputs import make_folder, refuse_inside, refuse_long_name
from ooc_graph.layout.whole_file import (
    PARTIAL,
    append_line,
    content_of,
    disk_full_reported,
    whole_file,
)

# Not the name of a store's manifest: a run is no store, and nothing may replace it as one.
MANIFEST, EVENTS, LOCK = "run.json", "events.jsonl", "run.lock"
JOB, SUMMARY = "job.toml", "summary.json"
WARM_UP = "run.warm-up.zarr"
"""An answer that is written untimed, and removed; no stage is called so, for names have no dot."""
KEYS = "run.tls-"
"""Begin of the name of a folder: certificates of a cluster that is started for a run."""
_RESTORE = "restore it, or remove the folder and run the job again"
_KEPT = "what is finished stays, and the same command goes on"
Facts = dict[str, Any]
"""What is known of a unit that is done, JSON-able."""


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a run; None if there is none. CorruptStoreError: it is damaged."""
    path = folder / MANIFEST
    try:
        found: dict[str, Any] = parsed(content_of(path))
        if found.pop("sha256") != hash_of(found):
            raise ValueError("it is not what was written")
        require_manifest(found)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptStoreError(f"{path}: is damaged ({error}); {_RESTORE}") from None
    return found


def encoded(manifest: Mapping[str, Any]) -> str:
    """Text of a manifest, with its hash."""
    return json.dumps({"sha256": hash_of(manifest), **manifest}, indent=1) + "\n"


def refuse_other(folder: Path, name: str) -> None:
    """Refuse a folder that a run of this job cannot write to; nothing is written."""
    refuse_long_name(folder)
    standing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not standing.is_dir():
        raise OutputExistsError(f"{standing}: is a file; give another folder with --out")
    refuse_inside(standing.absolute(), folder / JOB if standing == folder else folder)
    manifest = read_manifest(folder)
    if manifest is not None and manifest["job"] != name:
        raise OutputExistsError(
            f"{folder}: holds a run of the job {manifest['job']}, not of {name}; give another "
            "folder with --out"
        )
    if manifest is None and folder.exists():
        # A run that was killed before it wrote its manifest leaves no more than this.
        begun = (LOCK, f"{MANIFEST}{PARTIAL}")
        if others := [one.name for one in folder.iterdir() if not one.name.startswith(begun)]:
            if {JOB, EVENTS} <= set(others):
                raise CorruptStoreError(f"{folder / MANIFEST}: is missing; {_RESTORE}")
            raise OutputExistsError(
                f"{folder}: holds {min(others)} and no run of a job; give another folder with --out"
            )


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Run]:
    """Context in which this process alone writes to the folder of a run of a job.

    Raises
    ------
    OutputBusyError
        Another run writes there; the message has its host and process.
    OutputExistsError, UsageError
        Something else is there, or nothing can be written.
    """
    refuse_other(folder, name)
    token = uuid.uuid4().hex
    with disk_full_reported(folder / MANIFEST, _KEPT):
        make_folder(folder)
        with locked(folder, token, folder / LOCK) as lock:
            for left in (*folder.glob(f"{KEYS}*"), *folder.glob(f"{WARM_UP}*")):
                rmtree(left, ignore_errors=True)
            remove_leftovers(folder)
            empty = {"job": name, "files": {}, "asked": {}, "steps": {}}
            yield Run(folder, lock, read_manifest(folder) or empty)


class Run:
    """The folder of a run, while this process writes to it.

    RunTakenOverError: another run has taken the lock over; nothing is written then.
    """

    def __init__(self, folder: Path, lock: Lock, manifest: dict[str, Any]) -> None:
        self.folder, self.lock, self.manifest = folder, lock, manifest

    def write(self) -> None:
        """Write the manifest."""
        self.write_text(MANIFEST, encoded(self.manifest))

    def write_text(self, name: str, text: str) -> None:
        """Write a file of the run, whole, unless it has that text already."""
        path = self.folder / name
        if path.is_file() and content_of(path) == text.encode():
            return
        with whole_file(path) as partial:
            partial.write_text(text)
            # As late as can be: from here to the rename nobody can be kept out.
            self._require_own()

    def event(self, event: str, **facts: Any) -> None:
        """Append one line to what happened, and log it."""
        self._require_own()
        found = {"time": events.now(), "event": event, **facts}
        append_line(self.folder / EVENTS, events.line_of(found))
        events.log(self.manifest["job"], found)

    def run_begins(self) -> None:
        """Say who runs."""
        self.event("begun", run=self.lock.run_id, host=socket.gethostname(), pid=os.getpid())

    def entry(self, step: Step) -> dict[str, Any] | None:
        """What the manifest says of a step; None if it was never begun."""
        found: dict[str, Any] | None = self.manifest["steps"].get(step.label)
        return found

    def remove_damaged(self, step: Step, units: Sequence[str]) -> list[str]:
        """Remove what is damaged of some units, which nobody else would replace; its paths."""
        entry = self.entry(step)
        found = [] if entry is None else step.damaged(entry, self.folder, units)
        for path in found:
            self._require_own()
            rmtree(self.folder / path)
        return found

    def begin_step(
        self, step: Step, units: Sequence[str], known: Callable[[str], Facts]
    ) -> list[str]:
        """Begin a step, or go on with it; which units are left.

        Units that were begun by a run that was killed are done if their output is another one than
        before. What is ``known`` of such a unit is noted, too.
        """
        entry = self.entry(step)
        if entry is None or entry["fingerprint"] != step.fingerprint:
            entry = {"kind": step.kind, "fingerprint": step.fingerprint, "asked": step.asked}
            entry |= {"units": {}, "begun": {}}
            self.manifest["steps"][step.label] = entry
        entry |= {"listed": step.listed, "wanted": step.wanted}
        done, spent = step.intact(entry, self.folder), entry.get("spent", {})
        for unit, before in entry["begun"].items():
            path = step.output(unit)
            if path is not None and sha256_of(self.folder / path) not in (None, before):
                took = {"seconds": spent.get(unit)}
                done[unit] = {**noted(self.folder / path), **took, **known(unit)}
        done = {unit: done[unit] for unit in units if unit in done}
        left = [unit for unit in units if unit not in done]
        spent = {unit: seconds for unit, seconds in spent.items() if unit in left}
        entry |= {"units": done, "begun": {}, "spent": spent, "total": len(units), "done": False}
        self.write()
        self.event("begun", stage=step.label)
        return left

    def left(self, step: Step, units: Sequence[str]) -> list[str]:
        """Units of a step whose output is not as it was noted."""
        done = step.intact(self.manifest["steps"][step.label], self.folder)
        return [unit for unit in units if unit not in done]

    def begin(self, step: Step, units: Sequence[str]) -> None:
        """Note that some units of a step are being done, and what stands where they go."""
        entry = self.manifest["steps"][step.label]
        paths = {unit: step.output(unit) for unit in units}
        entry["begun"] = {
            unit: None if path is None else sha256_of(self.folder / path)
            for unit, path in paths.items()
        }
        for parent in {(self.folder / path).parent for path in paths.values() if path is not None}:
            remove_partial_files(parent)
        self.write()
        self.event("begun", stage=step.label, units=list(units))

    def interrupted(self, step: Step, units: Sequence[str], seconds: float) -> None:
        """Note the time of units that are not done: they may go on in the middle."""
        spent = self.manifest["steps"][step.label]["spent"]
        spent |= {unit: spent.get(unit, 0.0) + seconds / len(units) for unit in units}
        self.write()

    def done(self, step: Step, found: Mapping[str, Facts], seconds: float) -> None:
        """Note that some units are done, what is known of each, and the state of its subject."""
        entry = self.manifest["steps"][step.label]
        for unit, facts in found.items():
            path = step.subject(unit)
            known = {} if path is None or "sha256" in facts else noted(self.folder / path)
            took = seconds / len(found) + entry["spent"].pop(unit, 0.0)
            entry["units"][unit] = {**known, "seconds": took, **facts}
        entry["begun"] = {}
        self.write()
        self.event("done", stage=step.label, units=list(found), seconds=seconds)

    def end_step(self, step: Step, seconds: float) -> None:
        """Note that all of a step is done."""
        self.manifest["steps"][step.label]["done"] = True
        self.write()
        self.event("done", stage=step.label, seconds=seconds)

    def _require_own(self) -> None:
        if not self.lock.is_own:
            raise RunTakenOverError(
                f"{self.folder}: another run has taken this folder over; nothing more is written"
            )
