"""Resident memory of several processes over time, sampled by a thread.

What is counted: on Linux, the pages that every process has alone, plus the shared ones (those of
files, and shared memory) of the one process that has the most. Workers of one command map the same
libraries, so adding the shared pages of all would count them once per worker; they are clean
page cache besides, which the kernel drops under pressure. Proportional set size would be exact, but
reading it walks page tables: milliseconds per GiB, too dear at 20 samples a second. Elsewhere than
on Linux it is the plain sum of resident sizes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

import psutil

from ooc_graph.report.data import MemorySample

Pids = Sequence[int] | Callable[[], Sequence[int]]


def process_tree() -> list[int]:
    """Ids of this process and of everything it has started, directly or not."""
    me = psutil.Process()
    return [me.pid, *(child.pid for child in me.children(recursive=True))]


class MemoryWatch:
    """Sample the memory of processes while a ``with`` block runs.

    ``pids`` are ids, or a callable that gives them, called every ``refresh_s`` seconds, as listing
    processes costs far more than a sample. Times count from ``origin_s`` of
    ``time.perf_counter()``, by default the start. Spikes shorter than ``interval_s`` may be missed.
    """

    def __init__(
        self,
        pids: Pids = process_tree,
        interval_s: float = 0.05,
        *,
        refresh_s: float = 1.0,
        origin_s: float | None = None,
    ) -> None:
        self._pids, self._interval_s, self._refresh_s = pids, interval_s, refresh_s
        self._origin_s = origin_s
        self._samples: list[MemorySample] = []
        self._watched: list[int] = []
        self._listed_s = -float("inf")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._sampling = threading.Lock()

    def __enter__(self) -> MemoryWatch:
        if self._thread is not None:
            raise RuntimeError("a MemoryWatch watches once")
        if self._origin_s is None:
            self._origin_s = time.perf_counter()
        self._take_sample()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._take_sample()

    @property
    def samples(self) -> tuple[MemorySample, ...]:
        """All samples so far, in order of time."""
        return tuple(self._samples)

    @property
    def baseline_bytes(self) -> int:
        """Memory when the watch began."""
        return self._samples[0].bytes

    @property
    def peak_bytes(self) -> int:
        """Largest sample so far."""
        return max(sample.bytes for sample in self._samples)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._take_sample()

    def _take_sample(self) -> None:
        with self._sampling:
            now_s = time.perf_counter()
            if now_s - self._listed_s >= self._refresh_s:
                self._watched = list(self._pids() if callable(self._pids) else self._pids)
                self._listed_s = now_s
            taken_bytes = resident_bytes(self._watched)
            self._samples.append(MemorySample(now_s - (self._origin_s or 0.0), taken_bytes))


def resident_bytes(pids: Sequence[int]) -> int:
    """Memory that processes hold together now, counted as this module's text says."""
    own = shared = 0
    for pid in pids:
        # It may have ended.
        with suppress(psutil.Error):
            memory = psutil.Process(pid).memory_info()
            mapped = getattr(memory, "shared", 0)
            own += memory.rss - mapped
            shared = max(shared, mapped)
    return own + shared


def thinned(samples: Sequence[MemorySample], most: int = 1000) -> tuple[MemorySample, ...]:
    """Return at most ``most`` samples: of each equal run of samples the largest, so peaks stay."""
    if len(samples) <= most:
        return tuple(samples)
    bounds = [len(samples) * part // most for part in range(most + 1)]
    spans = pairwise(bounds)
    return tuple(max(samples[a:b], key=lambda sample: sample.bytes) for a, b in spans)
