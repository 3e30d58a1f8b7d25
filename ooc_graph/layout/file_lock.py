"""Locks on files, which the system frees when their process ends."""

from __future__ import annotations

import fcntl
from time import monotonic, sleep

POLL_S = 0.05


def locked_in_time(descriptor: int, patience_s: float) -> bool:
    """Lock an open file for this process alone; False if another had it for too long.

    Raises
    ------
    OSError
        The file system has no locks.
    """
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
