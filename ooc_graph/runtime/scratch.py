"""Folders that last as long as a process; those of killed ones are removed by the next."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ooc_graph.errors import DiskFullError
from ooc_graph.forked import closed_in_child
from ooc_graph.layout.whole_file import disk_full_reported

# With the host's name: locks of a file system that several share may hold on one of them alone.
_PREFIX = f"ooc-graph-run-{platform.node()}-"


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A new folder in the system's folder for temporary files, removed at the end.

    It is locked meanwhile. What a process left that could not come to the end (SIGKILL) has no
    lock any more, and is removed first.

    Yields
    ------
    Its path.

    Raises
    ------
    DiskFullError
        If it cannot be made for want of space.
    """
    try:
        system = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise DiskFullError(
            f"{error.strerror}: they are full or cannot be written; free some space, or set TMPDIR "
            "to a folder that has some, and run the command again"
        ) from error
    _remove_abandoned(system)
    with disk_full_reported(system / _PREFIX, "nothing was written"):
        folder, descriptor = _new_folder()
    try:
        with closed_in_child(descriptor):
            yield folder
    finally:
        # The lock is the last to go, so that nobody else removes it at the same time.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _new_folder() -> tuple[str, int]:
    """A locked folder, and the descriptor that holds the lock."""
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # as below
        # Some file systems know no locks, and then nobody can take this one for abandoned.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if Path(folder).is_dir():
            return folder, descriptor
        # Another process saw it before it was locked, and removed it.
        os.close(descriptor)


def _remove_abandoned(system: Path) -> None:
    for folder in system.glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody else's, or gone
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # in use
        finally:
            os.close(descriptor)
