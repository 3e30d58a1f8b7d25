"""What units of a stage took before, by the folders of runs: seconds, and bytes of their output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from ooc_graph.errors import CorruptStoreError, NotAStoreError
from ooc_graph.jobs.folder import MANIFEST, read_manifest
from ooc_graph.jobs.steps import Step
from ooc_graph.layout.manifest import Manifest


@dataclass(frozen=True)
class Rate:
    """Means of the units that a run did of a stage.

    ``bytes`` is None if nothing is written, or nothing is left of it. ``differing`` are what was
    otherwise then: parameters, files, stages.
    """

    folder: Path
    seconds: float
    bytes: float | None
    differing: tuple[str, ...]


class Rates:
    """What the folder of a run has of earlier attempts, and after it those beside it.

    Of these, runs of the same job count, the latest one first.
    """

    def __init__(self, folder: Path, job: str) -> None:
        others = [
            path
            for path in folder.absolute().parent.glob(f"*/{MANIFEST}")
            if path.parent != folder.absolute()
        ]
        others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        self._folders, self._job = [folder, *(path.parent for path in others)], job
        self._entries = cache(self._entries_in)

    def of(self, step: Step) -> Rate | None:
        """Of the first run that has done a unit of the step; None if there is none."""
        for folder in self._folders:
            entry = self._entries(folder).get(step.label, {})
            units: dict[str, Any] = entry.get("units", {})
            timed = [one["seconds"] for one in units.values() if one["seconds"] is not None]
            if timed and entry["kind"] == step.kind:
                sizes = [size_of(folder / path) for path in map(step.output, units) if path]
                known = [size for size in sizes if size is not None]
                differing = tuple(name for name in step.differing(entry) if name != "version")
                return Rate(folder, mean(timed), mean(known) if known else None, differing)
        return None

    def _entries_in(self, folder: Path) -> Mapping[str, Any]:
        try:
            manifest = read_manifest(folder)
        except (CorruptStoreError, OSError):
            return {}
        return manifest["steps"] if manifest and manifest["job"] == self._job else {}


def size_of(path: Path) -> int | None:
    """Bytes of a file, or of the files of a store; None if there is none."""
    try:
        if path.is_dir():
            return sum(entry.size for entry in Manifest.load(path).files.values())
        return path.stat().st_size
    except (CorruptStoreError, NotAStoreError, FileNotFoundError):
        return None
