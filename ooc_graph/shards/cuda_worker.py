"""What a worker keeps of a build on its device, for one task at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ooc_graph.forked import abandon, free_in_child, in_child
from ooc_graph.shards.cuda_process import DeviceProcess
from ooc_graph.shards.cuda_work import DeviceWork

_LOG = logging.getLogger("ooc_graph")


def _forget() -> None:
    global _kept  # noqa: PLW0603
    _kept = None


_kept: DeviceProcess | None = None
# One task at a time has the device of a worker's process.
_lock = free_in_child(threading.Lock(), half_done=_forget)


@in_child
def _leave_cuda() -> None:
    """What is on a CUDA device is of no use in a forked child, which cannot free it either."""
    if _kept is not None:
        abandon(_kept)
        _forget()


@contextmanager
def process_for(work: DeviceWork, own: DeviceProcess | None) -> Iterator[DeviceProcess]:
    """The caller's own, if it is given; or what this worker has for the build.

    A worker has one at a time: what another attempt has left is given back, and so is what a task
    has that fails. FileNotFoundError: the attempt is over.
    """
    if own is not None:
        yield own
        return
    try:
        with _lock:
            process = _process_of(work)
            try:
                yield process
            except BaseException:
                _give_back()
                raise
    finally:
        # Nobody could forget it while the lock was taken.
        if work.checkpoints.is_over:
            forget_idle()


def _process_of(work: DeviceWork) -> DeviceProcess:
    """What this worker has for an attempt, which it may have waited for to no avail."""
    global _kept  # noqa: PLW0603
    work.require_going_on()
    if _kept is None or _kept.work.attempt != work.attempt:
        _give_back()
        _kept = DeviceProcess(work)
    return _kept


def _give_back() -> None:
    """Give back what this worker has; whoever calls it has the lock."""
    global _kept
    kept, _kept = _kept, None
    if kept is not None:
        try:
            kept.close()
        except Exception:  # noqa: BLE001 -- whatever the driver says, what was built stands
            _LOG.warning("a device's memory was not given back", exc_info=True)


def forget_idle() -> None:
    """Give back what this worker has for a build, unless a task is at work with it.

    That task gives it back at its end, if the attempt is over then. It waits for no task, and
    raises nothing.
    """
    if _lock.acquire(blocking=False):
        try:
            _give_back()
        finally:
            _lock.release()
