"""Buffers that a thread uses again from task to task.

Fresh memory costs a page fault for every 4 KiB, which on a virtual machine takes longer than the
sorting that is done in it; and buffers that stay make the memory of a build easy to foresee.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ooc_graph.forked import free_in_child
from ooc_graph.types import AnyArray

_lock = free_in_child(threading.Lock())
_of_thread: dict[int, dict[str, AnyArray]] = {}


def borrow(name: str, length: int, dtype: np.dtype[Any] | type[Any]) -> AnyArray:
    """Uninitialised array that is the calling thread's until it borrows ``name`` again."""
    with _lock:
        mine = _of_thread.setdefault(threading.get_ident(), {})
    needed = length * np.dtype(dtype).itemsize
    if name not in mine or mine[name].nbytes < needed:
        mine.pop(name, None)
        mine[name] = np.empty(needed, np.uint8)
    return mine[name][:needed].view(dtype)


def give_back() -> None:
    """Free the buffers of all threads; none of them may be at work."""
    with _lock:
        _of_thread.clear()
