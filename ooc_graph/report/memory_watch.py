"""Resident memory of several processes over time, sampled by a thread.

What is counted: on Linux, anonymous and shared-memory pages of every process, plus the
file-backed pages of the one process that has the most. Workers of one command map the same
libraries, so adding the file-backed pages of all would count them once per worker; they are clean
page cache besides, which the kernel drops under pressure. Shared-memory segments mapped by two
processes are counted twice (too much rather than too little). Proportional set size would be
exact, but reading it walks page tables: milliseconds per GiB, too dear at 20 samples a second.
Elsewhere than on Linux it is the plain sum of resident sizes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import psutil

from ooc_graph.report.data import MemorySample

Pids = Sequence[int] | Callable[[], Sequence[int]]

_STATUS_FIELDS = (b"RssAnon:", b"RssFile:", b"RssShmem:")
_STATUS_BYTES = 8192
_HAS_PROC = Path("/proc/self/status").exists()


def process_tree() -> list[int]:
    """Ids of this process and of everything it has started, directly or not."""
    me = psutil.Process()
    return [me.pid, *(child.pid for child in me.children(recursive=True))]


class MemoryWatch:
    """Sample the memory of processes while a ``with`` block runs.

    Parameters
    ----------
    pids
        Process ids, or a callable that gives them; by default this process and its descendants.
        Ids that are gone count nothing.
    interval_s
        Seconds between samples.
    refresh_s
        Seconds between calls of ``pids``: listing processes costs far more than a sample. A
        process is counted from the first call that names it.
    origin_s
        ``time.perf_counter()`` that sample times count from; by default the start of the watch.

    Notes
    -----
    Spikes shorter than ``interval_s`` may be missed.
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
        self._status = _StatusFiles()
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
        self._status.keep_only(())

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
                self._status.keep_only(self._watched)
            size_bytes = self._status.resident_bytes(self._watched)
            self._samples.append(MemorySample(now_s - (self._origin_s or 0.0), size_bytes))


def resident_bytes(pids: Sequence[int]) -> int:
    """Memory that processes hold together now, counted as this module's text says."""
    with _StatusFiles() as status:
        return status.resident_bytes(pids)


class _StatusFiles:
    """Open files of /proc: reading one again costs a third of opening it as well.

    An open file stays that of its process, even if the process ends and its id is given away.
    """

    def __init__(self) -> None:
        self._handles: dict[int, int] = {}

    def __enter__(self) -> _StatusFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.keep_only(())

    def keep_only(self, pids: Sequence[int]) -> None:
        """Close the files of all other processes."""
        for pid in self._handles.keys() - set(pids):
            os.close(self._handles.pop(pid))

    def resident_bytes(self, pids: Sequence[int]) -> int:
        own = file_backed = 0
        for pid in pids:
            anonymous, mapped = self._parts(pid)
            own += anonymous
            file_backed = max(file_backed, mapped)
        return own + file_backed

    def _parts(self, pid: int) -> tuple[int, int]:
        """Bytes of anonymous and shared memory, and of file-backed pages, of one process."""
        if not _HAS_PROC:
            return _resident_elsewhere(pid), 0
        try:
            if pid not in self._handles:
                self._handles[pid] = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
            return _parts_from_status(os.pread(self._handles[pid], _STATUS_BYTES, 0))
        except FileNotFoundError:
            return 0, 0
        except ProcessLookupError:
            # It has ended; the id may soon be another's.
            os.close(self._handles.pop(pid))
            return 0, 0


def thinned(samples: Sequence[MemorySample], most: int = 1000) -> tuple[MemorySample, ...]:
    """Return at most ``most`` samples: of each equal run of samples the largest, so peaks stay."""
    if len(samples) <= most:
        return tuple(samples)
    bounds = [len(samples) * part // most for part in range(most + 1)]
    spans = pairwise(bounds)
    return tuple(max(samples[a:b], key=lambda sample: sample.bytes) for a, b in spans)


def _parts_from_status(status: bytes) -> tuple[int, int]:
    # A process that has ended but was not waited for has no such fields: it holds nothing.
    kibibytes = dict.fromkeys(_STATUS_FIELDS, 0)
    start = status.find(_STATUS_FIELDS[0])
    for line in status[start:].split(b"\n")[:3] if start >= 0 else ():
        name, value = line.split()[:2]
        kibibytes[name] = int(value)
    anonymous, file_backed, shared = (kibibytes[name] << 10 for name in _STATUS_FIELDS)
    return anonymous + shared, file_backed


def _resident_elsewhere(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
