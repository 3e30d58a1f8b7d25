"""Files that are written whole or not at all, and disks that are full."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ooc_graph.errors import DISK_FULL_ERRNOS, DiskFullError, OutputBusyError
from ooc_graph.forked import locked_in_time

PARTIAL = ".partial-"
"""Part of the name of a file that is being written."""


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """As `renamed_file`, for a file that is to last: it is on disk when it gets its name."""
    # With the same ending: some libraries go by it.
    with disk_full_reported(path), renamed_file(path, path.suffix) as partial:
        yield partial
        sync_file(partial)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Context in which an error of the system names this path if it names none.

    Those of open files do not. What connections say is no matter of files.
    """
    try:
        yield
    except (ConnectionError, TimeoutError):
        raise
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


def content_of(path: Path) -> bytes:
    """Content of a small file. OSError: it names the file."""
    with naming(path):
        return path.read_bytes()


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk."""
    with naming(path), path.open("rb") as file:
        # Not every system has the cheaper call.
        getattr(os, "fdatasync", os.fsync)(file.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(folder):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folders(root: Path) -> None:
    """Bring the names in a folder and in all below it to the disk."""
    for folder, _, _ in os.walk(root):
        sync_folder(Path(folder))


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and bring it to the disk."""
    with naming(path):
        path.write_bytes(content)
    sync_file(path)


@contextmanager
def renamed_file(path: str | Path, ending: str = "") -> Iterator[Path]:
    """Context in which a file is written under a partial name, which the context yields.

    It gets its own name at the end; if the context fails, what was there before is kept. Several
    writers may share a path: a worker that was taken for lost may wake up and write the same bytes
    again, while another stage reads what replaced it. The partial name has the ``ending``.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}{PARTIAL}{uuid.uuid4().hex[:12]}{ending}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def disk_full_reported(path: Path, kept: str | None = None) -> Iterator[None]:
    """Context in which an error for want of space becomes a `DiskFullError`.

    ``kept`` says as a clause what is left of what is written at ``path``; None: nothing. Other
    errors of the system that name no file name ``path``.
    """
    try:
        with naming(path):
            yield
    except OSError as error:
        raise_if_full(error, path, kept)
        raise


def raise_if_full(error: BaseException | None, path: Path, kept: str | None = None) -> None:
    """Raise a `DiskFullError` if that is what a system's error says; see `disk_full_reported`."""
    if not isinstance(error, OSError) or not is_disk_full(error):
        return
    why, advice = "the disk is full", "free some space"
    if error.errno == errno.EFBIG:
        why, advice = "files may not become so large", "raise the limit (ulimit -f)"
    kept = kept or f"nothing of {path.name} was kept, stores written before are intact"
    raise DiskFullError(
        f"{_full_folder(error, path.absolute())}: {why}; {kept}; {advice} and run the command again"
    ) from error


def is_disk_full(error: OSError) -> bool:
    """Whether a system's error is for want of space."""
    # NumPy's tofile and save drop the number: "1024 requested and 96 written" is all they say.
    short = error.errno is None and " requested and " in str(error)
    return short or error.errno in DISK_FULL_ERRNOS


def _full_folder(error: OSError, path: Path) -> Path:
    """Folder of what was written, unless the error names a file elsewhere."""
    # Of a file that is copied or renamed, the second is where it was to go.
    name = error.filename2 or error.filename
    if not isinstance(name, str | bytes):
        return path.parent
    found = Path(os.fsdecode(name)).absolute()
    return path.parent if path.parent in found.parents else found.parent


LONGEST_LOCK_S = 60.0
"""Longest wait for another process that appends to the same file; a line takes milliseconds."""


def append_line(path: Path, line: str) -> None:
    """Append a line to a file, made if absent, whole or not at all; on disk when this returns.

    The file is locked meanwhile. OutputBusyError: another process keeps it locked.
    """
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not locked_in_time(handle, LONGEST_LOCK_S):
            raise OutputBusyError(
                f"{path}: another process has had it locked for {LONGEST_LOCK_S:.0f} s; run the "
                "same again once that has ended"
            )
        # A line that a killed run could not finish must not swallow this one.
        with naming(path):
            size = os.fstat(handle).st_size
            start = "\n" if size > 0 and os.pread(handle, 1, size - 1) != b"\n" else ""
            write_whole(handle, f"{start}{line}\n".encode())
    finally:
        os.close(handle)


def write_whole(handle: int, data: bytes) -> None:
    """Append all of ``data`` to an open file that is locked, or leave it as it was."""
    before_bytes = os.fstat(handle).st_size
    try:
        if os.write(handle, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(handle)
    except BaseException:
        # If even this fails, the next line begins on one of its own.
        with suppress(OSError):
            os.ftruncate(handle, before_bytes)
        raise
