"""What a worker keeps of a build on its device, for one task at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ooc_graph.forked import abandon, free_in_child, in_child
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.shards.cuda_process import DeviceProcess
from ooc_graph.shards.cuda_work import DeviceWork


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

    A worker has one at a time: what another attempt has left is given back.
    """
    global _kept  # noqa: PLW0603
    if own is not None:
        yield own
        return
    with _lock:
        if _kept is None or _kept.work.attempt != work.attempt:
            forget_process()
            cuda()
            _kept = DeviceProcess(work)
        yield _kept


def forget_process(attempt: str | None = None) -> None:
    """Give back what this worker has for a build, or for this attempt; at a task's end, if any."""
    global _kept  # noqa: PLW0603
    kept = _kept
    if kept is not None and attempt in (None, kept.work.attempt):
        _kept = None
        kept.close()
