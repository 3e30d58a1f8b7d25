"""What this machine has: cores and memory that this process may use."""

from __future__ import annotations

import ctypes

import psutil

from ooc_graph.runtime import cgroups

_SHARE = 0.8

KEPT_BYTES = 16 << 20
"""Freed memory of at least this size goes back to the system at once (glibc)."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def default_limit_bytes() -> int:
    """Most of the memory that this process could take now, besides what it has.

    That is 80 % of the least of what the machine has free and what each control group of the
    process has left (`cgroups.free_bytes`). 0 where a group has nothing left.
    """
    return int(min([psutil.virtual_memory().available, *cgroups.free_bytes()]) * _SHARE)


def return_freed_memory() -> None:
    """Have this process's C library give freed memory back, where it is glibc.

    By itself it keeps what was freed once larger and larger arrays have come and gone, and a
    build in this process would hold more than its limit.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)


def give_back_freed_memory() -> None:
    """Give back once what this process's C library keeps of freed memory, where it is glibc.

    Nothing changes for what is freed later.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
