"""Locks on outputs: files that name who writes, and keep others out meanwhile."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ooc_graph.errors import OutputBusyError, UsageError
from ooc_graph.forked import locked_in_time, not_inherited
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.whole_file import content_of, is_disk_full, naming, write_whole


class Lock:
    """A lock file that names its run; whoever wrote it last has the lock.

    The system frees the lock of a process that ends. A network file system may also free that of
    one it takes for dead, and people remove files: the file then names another run, or is gone.
    """

    def __init__(self, path: Path, run_id: str) -> None:
        self.path, self.run_id = path, run_id

    @property
    def is_own(self) -> bool:
        """Whether the file still names this run."""
        try:
            return bool(parsed(content_of(self.path))["run"] == self.run_id)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False


@contextmanager
def locked(final: Path, run_id: str, path: Path | None = None) -> Iterator[Lock]:
    """Hold the lock file for this output, by default ``NAME.lock`` beside it, or say who does."""
    lock = Lock(final.with_name(final.name + ".lock") if path is None else path, run_id)
    descriptor = _take(final, lock.path)
    try:
        holder = {"run": run_id, "pid": os.getpid(), "host": socket.gethostname()}
        holder["since"] = datetime.now(UTC).isoformat(timespec="seconds")
        os.ftruncate(descriptor, 0)
        with naming(lock.path):
            write_whole(descriptor, json.dumps(holder).encode())
        with not_inherited(descriptor):
            yield lock
    finally:
        # Another run's stays; one that could not be written is nobody's.
        if lock.is_own or not os.fstat(descriptor).st_size:
            lock.path.unlink(missing_ok=True)
        os.close(descriptor)


def is_lock(path: Path) -> bool:
    """Whether a file is a lock file: it names a run, or nothing was written to it yet."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        content = content_of(path)
        return not content or "run" in parsed(content)
    except (OSError, ValueError, TypeError):
        return False


def _take(final: Path, path: Path) -> int:
    while True:
        try:
            # Of a link, the file that it leads to would be emptied.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            if is_disk_full(error) or error.errno == errno.EIO:
                raise
            raise UsageError(f"{final}: cannot be written here ({error.strerror})") from error
        _lock(descriptor, final)
        if _same_file(descriptor, path):
            return descriptor
        # The former holder removed the file between our open and our lock.
        os.close(descriptor)


def refuse_busy(final: Path, path: Path) -> None:
    """Refuse an output whose lock file another run holds now; nothing is written."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return  # nobody holds it, or `locked` will say what is wrong with it
    _lock(descriptor, final)
    os.close(descriptor)


def _lock(descriptor: int, final: Path) -> None:
    """Lock an open lock file, or close it and say who holds it."""
    if not locked_in_time(descriptor, 0.0):
        holder = _holder(os.read(descriptor, 4096))
        os.close(descriptor)
        raise OutputBusyError(
            f"{final}: another run is writing it ({holder}); wait for it or stop it"
        )


def _holder(content: bytes) -> str:
    try:
        return "process {pid} on {host}, since {since}".format_map(parsed(content))
    except (ValueError, KeyError, TypeError):
        return "starting"


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
