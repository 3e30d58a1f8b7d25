"""Checkpoints in a partial store: work that a later run need not do again.

The chunk files of a checkpoint are written in a folder of the attempt, flushed, and renamed into
place; then a record of them is. Both happen once or not at all, whoever is killed when. A later run
gives its attempt another folder and removes the old one, so that a worker which still writes for a
run that is dead has no folder to write to.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ooc_graph.layout.chunks import FileEntry, ends_in_crc, make_folders
from ooc_graph.layout.whole_file import sync_file

SPILL = "spill"
"""Folder in a partial store that has its checkpoints."""
_KEY, _DONE = "spill/key", "spill/done"
ATTEMPT, _REMOVED = "spill/attempt-", "spill/removed-"
"""How the folders of attempts begin; the next attempt removes them."""


@dataclass(frozen=True)
class Checkpoint:
    """Finished work: its chunk files, and what else is known of it, JSON-able."""

    entries: tuple[FileEntry, ...]
    facts: dict[str, Any]


class Checkpoints:
    """The checkpoints of one partial store, for one attempt; their bytes follow from ``key``."""

    def __init__(self, folder: Path, attempt: str, key: str) -> None:
        self.folder = folder
        self.attempt = folder / f"{ATTEMPT}{attempt}"
        for number, old in enumerate(list(folder.glob(f"{ATTEMPT}*"))):
            # Whoever still writes there by its old name fails.
            removed = old.rename(folder / f"{_REMOVED}{attempt}-{number}")
            shutil.rmtree(removed, ignore_errors=True)
        self.attempt.mkdir()
        (folder / _DONE).mkdir(exist_ok=True)
        _write(folder / _KEY, self.attempt / "key", key.encode())

    def __iter__(self) -> Iterator[tuple[int, Checkpoint]]:
        """Those that are recorded and whose files are there, and their numbers; one at a time."""
        for path in sorted((self.folder / _DONE).glob("*.json")):
            checkpoint = _read(path)
            if checkpoint is not None and all(
                _is_there(self.folder, entry) for entry in checkpoint.entries
            ):
                yield int(path.stem), checkpoint


def key_of(folder: Path) -> str | None:
    """Key of a partial store, None if it has no checkpoints."""
    try:
        return (folder / _KEY).read_text()
    except OSError:
        return None


def write_checkpoint(
    folder: Path,
    attempt: Path,
    number: int,
    write: Callable[[Path], Sequence[FileEntry]],
    facts: dict[str, Any],
) -> Checkpoint:
    """Write chunk files, bring them into place and record them with ``facts``.

    In the partial store ``folder``, for the run that has the folder ``attempt``; FileNotFoundError
    if it is over and another has begun. ``write`` is given the folder to write to.
    """
    # Two workers may be at the same checkpoint, if the scheduler takes one for lost.
    scratch = attempt / f"{number}-{uuid.uuid4().hex[:12]}"
    scratch.mkdir()
    try:
        entries = tuple(write(scratch))
        for entry in entries:
            sync_file(scratch / entry.path)
            make_folders(folder, (folder / entry.path).parent)
            (scratch / entry.path).replace(folder / entry.path)
        checkpoint = Checkpoint(entries, facts)
        content = json.dumps({"entries": [asdict(entry) for entry in entries], "facts": facts})
        _write(folder / _DONE / f"{number}.json", scratch / "record", content.encode())
        return checkpoint
    finally:
        # On a disk that is full, half a checkpoint would take the space of others.
        shutil.rmtree(scratch, ignore_errors=True)


def _write(path: Path, scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    sync_file(scratch)
    scratch.replace(path)


def _read(path: Path) -> Checkpoint | None:
    try:
        record = json.loads(path.read_bytes())
        entries = [
            FileEntry(**row | {"sidecar": tuple(row["sidecar"])}) for row in record["entries"]
        ]
        return Checkpoint(tuple(entries), record["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_there(folder: Path, entry: FileEntry) -> bool:
    try:
        return ends_in_crc(folder / entry.path, entry)
    except OSError:
        return False
