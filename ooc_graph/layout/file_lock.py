"""Locks on files, which the system frees when their process ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from ooc_graph.errors import OutputBusyError, UsageError
from ooc_graph.forked import closed_in_child
from ooc_graph.layout.whole_file import is_disk_full

POLL_S = 0.05


def locked_in_time(descriptor: int, patience_s: float) -> bool:
    """Lock an open file for this process alone; False if another had it for too long."""
    begun_s = monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() - begun_s >= patience_s:
                return False
            sleep(POLL_S)
        else:
            return True


@contextmanager
def locked(final: Path, run_id: str) -> Iterator[None]:
    """Hold ``NAME.lock`` for this output, or say who does."""
    path = final.with_name(final.name + ".lock")
    descriptor = _take(path)
    try:
        holder = {"run": run_id, "pid": os.getpid(), "host": socket.gethostname()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        with closed_in_child(descriptor):
            yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            if is_disk_full(error):
                raise
            raise UsageError(
                f"{path.with_suffix('')}: cannot be written here ({error.strerror})"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 4096).decode(errors="replace")
            os.close(descriptor)
            raise OutputBusyError(
                f"{path.with_suffix('')}: another run is writing it ({holder or 'starting'}); "
                "wait for it or stop it"
            ) from None
        if _same_file(descriptor, path):
            return descriptor
        # The former holder removed the file between our open and our lock.
        os.close(descriptor)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
