"""The processes of the cluster: recognised again without mistaking a reused pid, and stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Member:
    """A process that was started, the first of its own process group.

    ``created_s`` is when the system says that it began: with the pid it names a process for good.
    """

    name: str
    pid: int
    created_s: float

    @classmethod
    def of(cls, name: str, pid: int) -> Member:
        """Describe a process that runs now."""
        return cls(name, pid, psutil.Process(pid).create_time())


def alive(members: Sequence[Member]) -> list[Member]:
    """Those that still run."""
    return [member for member in members if _process(member) is not None]


def _process(member: Member) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(member.pid)
        same = abs(process.create_time() - member.created_s) < 1
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def stop_members(members: Sequence[Member], timeout_s: float) -> None:
    """SIGTERM to the workers, then to the scheduler; SIGKILL to the groups of what is left."""
    for member in reversed(members):
        process = _process(member)
        if process is None:
            continue
        # Worker processes are children of the member: they are known only while it lives.
        children = process.children(recursive=True)
        process.terminate()
        _, left = psutil.wait_procs([process, *children], timeout_s)
        if left:
            with suppress(ProcessLookupError):
                os.killpg(member.pid, signal.SIGKILL)
            psutil.wait_procs(left, timeout_s)
