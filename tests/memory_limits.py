"""What a search says that it needs at least, and the memory that it then takes."""

from __future__ import annotations

import gc
import re
import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.machine import give_back_freed_memory


def least_limit(search: Callable[..., Any], memory_limit: int) -> int:
    """The least limit that a search names when it refuses a smaller one."""
    with pytest.raises(MemoryBudgetError) as caught:
        search(memory_limit=memory_limit)
    needed = re.search(r"need ([\d,]+) bytes", str(caught.value))
    assert needed is not None
    return int(needed[1].replace(",", ""))


def held_within_least(
    search: Callable[..., Any], memory_limit: int, held_bytes: int = 0
) -> tuple[int, int]:
    """The least limit that a search accepts, and what it holds at once within that.

    Parameters
    ----------
    memory_limit
        One that is refused.
    held_bytes
        What the graph holds already.
    """
    limit = least_limit(search, memory_limit)
    again = partial(search, memory_limit=limit)
    # Compiled before, so that only the search's own memory counts.
    again()
    peak = traced_peak(again, limit - held_bytes, before=engine_cache.release)
    engine_cache.release()
    return limit, held_bytes + peak


def anonymous_peak(call: Callable[[], Any]) -> int:
    """Bytes by which this process's own pages grew, at most, while a call ran.

    Those of files are left out. To be called by `tests.own_process.in_own_process`, once kernels
    are compiled. What libraries keep of freed memory counts, as it does for the system.
    """
    give_back_freed_memory()
    sizes, is_over = [_anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.002):
            sizes.append(_anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        call()
    finally:
        is_over.set()
        watcher.join()
    return max(sizes) - sizes[0]


def _anonymous_bytes() -> int:
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in x)
    return int(line.split()[1]) << 10


def traced_peak(
    search: Callable[[], Any], most: float, *, before: Callable[[], Any] = lambda: None
) -> int:
    """Bytes that were allocated at once, at most, while a search ran.

    By whichever thread of this process: to be called by `tests.own_process.in_own_process`, once
    kernels are compiled.

    Parameters
    ----------
    most
        If it was more, it is measured again, three times in all: the interpreter's own tables, as
        that of its strings, grow now and then, by megabytes.
    before
        Called each time before it is measured.
    """
    peaks: list[int] = []
    while not peaks or (peaks[-1] > most and len(peaks) < 3):
        before()
        gc.collect()
        tracemalloc.start()
        try:
            search()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)
