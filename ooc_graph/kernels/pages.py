"""Pages of new memory, asked for before somebody writes to them.

The first write to a page has the system find and clear it. Who copies much to new memory waits for
that most of the time; threads that wait for something else can have it done before.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray

LEAST_BYTES = 64 << 20
"""Smaller arrays are not worth threads."""
_PIECE_BYTES, _HUGE_PAGE_BYTES = 32 << 20, 2 << 20
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, since Linux 5.14


@contextmanager
def populated_ahead(array: AnyArray, threads: int) -> Iterator[None]:
    """Have the system give an array its pages, from the first on, for as long as this lasts.

    What is in them stays, whoever writes meanwhile. Where the system knows no such call, or refuses
    it, or threads, pages come as they are written.

    Parameters
    ----------
    array
        C-contiguous, in ordinary memory.
    threads
        That ask for pages, at most.
    """
    populate = _populate()
    if populate is None or array.nbytes < LEAST_BYTES:
        yield
        return
    begin = -(-array.ctypes.data // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    end = (array.ctypes.data + array.nbytes) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    # Threads take the next piece each, which is one step of the interpreter.
    pieces, stopped = iter(range(begin, end, _PIECE_BYTES)), threading.Event()

    def ask() -> None:
        for at in pieces:
            if stopped.is_set() or not populate(at, min(_PIECE_BYTES, end - at)):
                return

    with Threads(threads) as pool:
        try:
            _start(pool, ask, threads)
            yield
        finally:
            stopped.set()


def _start(pool: Threads, ask: Callable[[], None], threads: int) -> None:
    try:
        for _ in range(threads):
            pool.submit(ask)
    except MemoryError:
        pass  # fewer threads, or none, do as well


@cache
def _populate() -> Callable[[int, int], bool] | None:
    """Asks for the pages of an address and a number of bytes; None: there is no such call."""
    if not sys.platform.startswith("linux"):
        return None
    # The interpreter's lock is not held meanwhile.
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return lambda at, count: advise(at, count, _POPULATE_WRITE) == 0
