"""What this machine has: cores and memory that this process may use."""

from __future__ import annotations

import ctypes
import os
import re

import psutil

from ooc_graph.errors import UsageError
from ooc_graph.runtime import cgroups

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MOST_BYTES = 1 << 62
_SHARE = 0.8

KEPT_BYTES = 16 << 20
"""Freed memory of at least this size goes back to the system at once (glibc)."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def default_limit_bytes() -> int:
    """Most of the memory that this process could take now, besides what it has.

    That is 80 % of the least of what the machine has free and what each control group of the
    process has left (`control_groups.free_bytes`). 0 where a group has nothing left.
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


def parse_bytes(
    text: str | int | None, *, option: str = "--memory-limit", or_none: bool = False
) -> int | None:
    """Bytes of "4GiB", "500 MB", "256MiB" or a plain number.

    Parameters
    ----------
    option
        What it is given by, as a message names it.
    or_none
        Whether 0 is a limit, too: nothing may be used.

    Raises
    ------
    UsageError
        For anything else, and for zero where that is no limit.
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(text).lower())
    if not found or (found[3] and not found[2]):
        raise UsageError(f"{option} {text!r}: give bytes or a size such as 4GiB or 500MB")
    unit = (_BINARY if found[3] else _UNITS)[found[2]]
    size = float(found[1]) * unit
    if size < 1 and not (or_none and size == 0):
        raise UsageError(f"{option} {text!r}: give more than nothing")
    # More digits than a float holds are infinitely many bytes: no machine tells the difference.
    return int(min(size, _MOST_BYTES))
