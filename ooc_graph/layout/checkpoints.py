"""Checkpoints in a partial store: work that a later run need not do again.

The files of a checkpoint are written in a folder of the attempt and renamed into place; then a
record of them is. Both happen once or not at all, whoever is killed when. A later run gives its
attempt another folder and removes the old one, so that a worker which still writes for a run that
is dead has no folder to write to.

Chunks of the store are on the disk before they are recorded, and are known again by their size and
last bytes. Files under ``spill/`` are gone before most systems would have brought them to the disk;
nobody waits for that, so they are read and compared with the record when they are taken up.
"""

from __future__ import annotations

import json
import shutil
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ooc_graph.errors import RetryableError
from ooc_graph.layout.chunks import FileEntry, ends_in_crc, make_folders
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.spilled import is_as_written
from ooc_graph.layout.whole_file import content_of, is_disk_full, sync_file

SPILL = "spill"
"""Folder in a partial store that has its checkpoints."""
_KEY, DONE = "spill/key", "spill/done"
ATTEMPT, _REMOVED = "spill/attempt-", "spill/removed-"
"""How the folders of attempts begin; the next attempt removes them."""

Keeps = Callable[[BaseException], bool]
"""Whether what is finished stays for the next run if this one ends by an error."""


def always(_: BaseException) -> bool:
    """Keep it, whatever the error."""
    return True


def may_end_well(error: BaseException) -> bool:
    """Whether the same work may end well that was ended by an error, or by a signal."""
    if isinstance(error, OSError):
        return is_disk_full(error)
    return isinstance(error, RetryableError | MemoryError) or not isinstance(error, Exception)


@dataclass(frozen=True)
class Checkpoint:
    """Finished work: its files, and what else is known of it, JSON-able."""

    entries: tuple[FileEntry, ...]
    facts: dict[str, Any]


class Checkpoints:
    """The checkpoints of one partial store, for one attempt; their bytes follow from ``key``.

    It travels with tasks. A checkpoint is called by a number, or by a name that begins with a
    letter.
    """

    def __init__(self, folder: Path, attempt: str, key: str) -> None:
        self.folder = folder
        self.attempt = folder / f"{ATTEMPT}{attempt}"
        self.end()
        self.attempt.mkdir()
        (folder / DONE).mkdir(exist_ok=True)
        _write(folder / _KEY, self.attempt / "key", key.encode())

    def end(self) -> None:
        """End this attempt and all others: whoever still writes for one fails."""
        for old in list(self.folder.glob(f"{ATTEMPT}*")):
            # Not removed as it is: somebody may be adding files.
            old.rename(self.folder / f"{_REMOVED}{uuid.uuid4().hex[:12]}")
        for removed in self.folder.glob(f"{_REMOVED}*"):
            shutil.rmtree(removed, ignore_errors=True)

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended: by an error, the commit, or another that has begun."""
        return not self.attempt.exists()

    def __iter__(self) -> Iterator[tuple[int, Checkpoint]]:
        """Those of numbers that are recorded and whose files are there; one at a time."""
        for path in sorted((self.folder / DONE).glob("[0-9]*.json")):
            checkpoint = self.found(path.stem)
            if checkpoint is not None:
                yield int(path.stem), checkpoint

    def __len__(self) -> int:
        """How many are recorded, whether their files are there or not."""
        return sum(1 for _ in (self.folder / DONE).glob("*.json"))

    def found(self, name: str) -> Checkpoint | None:
        """The one of this name, if it is recorded and its files are there."""
        checkpoint = _read(self.folder / DONE / f"{name}.json")
        if checkpoint is None or not all(_is_there(self.folder, e) for e in checkpoint.entries):
            return None
        return checkpoint

    def once(
        self, name: str, write: Callable[[Path], Sequence[FileEntry]], facts: dict[str, Any]
    ) -> Checkpoint:
        """The checkpoint of this name; made as `write_checkpoint` has it if it is not there."""
        return self.found(name) or self.write(name, write, facts)

    def write(
        self, name: str, write: Callable[[Path], Sequence[FileEntry]], facts: dict[str, Any]
    ) -> Checkpoint:
        """The checkpoint of this name, made as `write_checkpoint` has it, instead of any other."""
        return write_checkpoint(self.folder, self.attempt, name, write, facts)

    def names(self, beginning: str) -> list[str]:
        """Names with this beginning that are recorded, whether the files are there or not."""
        return [p.stem for p in (self.folder / DONE).glob("*.json") if p.name.startswith(beginning)]

    def remove(self, name: str) -> None:
        """Remove a checkpoint, the record first."""
        path = self.folder / DONE / f"{name}.json"
        checkpoint = _read(path)
        path.unlink(missing_ok=True)
        for entry in checkpoint.entries if checkpoint else ():
            (self.folder / entry.path).unlink(missing_ok=True)


@dataclass(frozen=True)
class NoCheckpoints:
    """Stands for `Checkpoints` in a partial store that nobody takes up."""

    folder: Path

    @property
    def is_over(self) -> bool:
        """Whether the store is committed, or was given up."""
        return not (self.folder / SPILL).exists()

    def once(
        self, name: str, write: Callable[[Path], Sequence[FileEntry]], facts: dict[str, Any]
    ) -> Checkpoint:
        """Write the files, bring them into place, and record nothing."""
        with _scratch(self.folder / SPILL, name) as scratch:
            entries = tuple(write(scratch))
            for entry in entries:
                _move(scratch, self.folder, entry)
        return Checkpoint(entries, facts)


def key_of(folder: Path) -> str | None:
    """Key of a partial store, None if it has no checkpoints."""
    try:
        return content_of(folder / _KEY).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def write_checkpoint(
    folder: Path,
    attempt: Path,
    name: int | str,
    write: Callable[[Path], Sequence[FileEntry]],
    facts: dict[str, Any],
) -> Checkpoint:
    """Write files, bring them into place and record them with ``facts``.

    In the partial store ``folder``, for the run that has the folder ``attempt``; FileNotFoundError
    if it is over and another has begun. ``write`` is given the folder to write to, and may add to
    ``facts``.
    """
    with _scratch(attempt, name) as scratch:
        entries = tuple(write(scratch))
        for entry in entries:
            if not _is_spilled(entry):
                sync_file(scratch / entry.path)
            _move(scratch, folder, entry)
        checkpoint = Checkpoint(entries, facts)
        _record(folder, scratch, name, checkpoint)
        return checkpoint


@contextmanager
def _scratch(within: Path, name: int | str) -> Iterator[Path]:
    """Context with a new folder for one that writes a checkpoint."""
    # Two workers may be at the same checkpoint, if the scheduler takes one for lost.
    scratch = within / f"{name}-{uuid.uuid4().hex[:12]}"
    scratch.mkdir()
    try:
        yield scratch
    finally:
        # On a disk that is full, half a checkpoint would take the space of others.
        shutil.rmtree(scratch, ignore_errors=True)


def _move(scratch: Path, folder: Path, entry: FileEntry) -> None:
    make_folders(folder, (folder / entry.path).parent)
    (scratch / entry.path).replace(folder / entry.path)


def _record(folder: Path, scratch: Path, name: int | str, checkpoint: Checkpoint) -> None:
    rows, is_read_again = [asdict(entry) for entry in checkpoint.entries], False
    if rows:
        is_read_again = all(_is_spilled(entry) for entry in checkpoint.entries)
    content = json.dumps({"entries": rows, "facts": checkpoint.facts}).encode()
    record = folder / DONE / f"{name}.json"
    _write(record, scratch / f"{name}.record", content, sync=not is_read_again)


def _write(path: Path, scratch: Path, content: bytes, *, sync: bool = True) -> None:
    scratch.write_bytes(content)
    if sync:
        sync_file(scratch)
    scratch.replace(path)


def _read(path: Path) -> Checkpoint | None:
    try:
        record = parsed(path.read_bytes())
        rows = (row | {"sidecar": tuple(row["sidecar"])} for row in record["entries"])
        return Checkpoint(tuple(FileEntry(**row) for row in rows), dict(**record["facts"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_spilled(entry: FileEntry) -> bool:
    return entry.path.startswith(f"{SPILL}/")


def _is_there(folder: Path, entry: FileEntry) -> bool:
    try:
        if _is_spilled(entry):
            return is_as_written(folder, entry)
        return ends_in_crc(folder / entry.path, entry)
    except (OSError, TypeError, AttributeError, ValueError, struct.error):
        return False
