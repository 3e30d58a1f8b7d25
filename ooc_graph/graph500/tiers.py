"""What is said of Graph500's searches whose rows are not all in the memory that they run in.

For what the disk under a store gives at most, its own chunk files are read one after the other.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.graph500.run import BatchTask, Run, Searched, io_of
from ooc_graph.memory.cpu.plan import describe
from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.cuda.pinned_plan import describe_device
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.resources import CUDA
from ooc_graph.model.strategy import MEMORY, PINNED
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.shards.load import Graph

PROBE_BYTES = 256 << 20
"""Bytes that a probe reads at most."""
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True)
class Probe:
    """A sequential read of a store's files.

    The page cache had ``cached_bytes`` of it, though it was asked to drop them; None: not known.
    """

    bytes: int
    seconds: float
    cached_bytes: int | None

    @property
    def bytes_s(self) -> float | None:
        """Bytes in a second; None if nothing was there to be read."""
        return self.bytes / self.seconds if self.bytes and self.seconds > 0 else None

    @property
    def is_cached(self) -> bool | None:
        """Whether the page cache gave most of it, so that it tells nothing of the disk."""
        return None if self.cached_bytes is None else 2 * self.cached_bytes > self.bytes


def probe_disk(
    store: Path, most_bytes: int = PROBE_BYTES, clock: Callable[[], float] = perf_counter
) -> Probe:
    """Read at most so many bytes of a stored graph's neighbours, past the page cache if it lets go.

    The page cache loses what it had of these files: not for between timed searches. Memory: 4 MiB.
    """
    parts = list(_parts(sorted(store.glob("shards/*/*/*/neighbors/c/*")), most_bytes))
    cached = [_drop(path, size) for path, size in parts]
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    begun = clock()
    got = sum(_read(path, size, buffer) for path, size in parts)
    seconds = clock() - begun
    known = [size for size in cached if size is not None]
    return Probe(got, seconds, sum(known) if len(known) == len(cached) else None)


def _parts(paths: Iterable[Path], most_bytes: int) -> Iterable[tuple[Path, int]]:
    """Files, and bytes to read of each from its beginning on."""
    for path in paths:
        size = min(path.stat().st_size, most_bytes)
        most_bytes -= size
        if size:
            yield path, size


def _drop(path: Path, size: int) -> int | None:
    """Have the page cache forget a file; bytes of its first ``size`` that it keeps, if known."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return _resident_bytes(descriptor, size)
    except OSError:  # of a file system without mappings
        return None
    finally:
        os.close(descriptor)


def _resident_bytes(descriptor: int, size: int) -> int | None:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "mincore"):
        return None
    pages = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    with mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        begin = ctypes.c_void_p(view.ctypes.data)
        failed = library.mincore(begin, ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data))
        del view  # else the mapping could not be closed
    if failed:
        return None
    return min(size, int(np.count_nonzero(pages & 1)) * mmap.PAGESIZE)


def _read(path: Path, size: int, buffer: memoryview) -> int:
    got = 0
    with path.open("rb", buffering=0) as file:
        while got < size and (count := file.readinto(buffer[: size - got])):
            got += count
    return got


DISK = "disk"


def where_rows_are(task: BatchTask) -> str:
    """A line where a CUDA device searches rows that are not there; else nothing."""
    if task.device != CUDA or task.tier == MEMORY:
        return ""
    where = "in pinned host memory" if task.tier == PINNED else "in the store"
    checked = ", and are validated on the CPU" if task.validate else ""
    return f"{task.kernel} has its rows {where}; its answers go to host memory{checked}"


def describe_engine(task: BatchTask) -> dict[str, Any]:
    """What searches hold of a graph, by the plan that they really have; runs on the worker.

    Names and values, JSON-able; nothing if all rows are in the memory that they run in.
    """
    with task.engine() as engine:
        if engine.pinned is not None:
            return describe_device(engine.pinned)
        if engine.io_stats is None:
            return {}
        if not isinstance(engine.search, DeviceTierSearch):
            return describe(engine.search.plan)
        unpinned = engine.search.unpinned
        said = {"why nothing is pinned": unpinned} if unpinned else {}
        return {**describe_disk(engine.search.plan), **said}


def tier_facts(facts: dict[str, Any], found: Sequence[Searched]) -> dict[str, Any]:
    """What `describe_engine` gave, with what searches read of the store."""
    if facts and facts["tier"] == DISK:
        return facts | describe_io(io_of(found))
    return facts


def with_disk(
    run: Run, graph: Graph, searched: dict[str, list[Searched]]
) -> dict[str, dict[str, Any]]:
    """What is said of kernels by tier; where arcs stay in the store, what its disk gives at most.

    That is measured now, when no more searches come, for it takes what the page cache has.
    """
    if all(facts["tier"] != DISK for facts in run.tiers.values()):
        return dict(run.tiers)
    try:
        probe = run.workplace.call(probe_disk, Path(graph.path))
    except OSError:
        # Searches have been made by what is there: their report is not to be lost for this.
        return dict(run.tiers)
    return {
        kernel: {**facts, **describe_probe(probe, io_of(searched[kernel]).bytes_s)}
        if facts["tier"] == DISK
        else facts
        for kernel, facts in run.tiers.items()
    }


def describe_io(io_stats: IoStats) -> dict[str, Any]:
    """What was read of the store, and how, as names and numbers, JSON-able."""
    return {
        "bytes read of the store": io_stats.bytes,
        "blocks read": io_stats.blocks,
        "blocks given again from memory": io_stats.kept_blocks,
        "bytes given again from memory": io_stats.kept_bytes,
        "rows fetched": io_stats.rows,
        "seconds of reading": rounded(io_stats.reading_s),
        "seconds that searches waited for it": rounded(io_stats.waited_s),
        "share of reading time in which searches went on": rounded(io_stats.overlap),
        "blocks in flight, on average": rounded(io_stats.blocks_in_flight),
        "bytes read a second of reading": rounded(io_stats.bytes_s),
    }


def describe_probe(probe: Probe, read_bytes_s: float | None) -> dict[str, Any]:
    """What the disk gives at most, and the share of it that reading at such a rate is."""
    rate = probe.bytes_s
    share = None if rate is None or read_bytes_s is None else read_bytes_s / rate
    return {
        "disk: bytes read in sequence": probe.bytes,
        "disk: bytes a second in sequence": rounded(rate),
        "disk: had the page cache most of that": probe.is_cached,
        "share of the disk's rate in sequence": rounded(share),
    }


def rounded(value: float | None) -> float | None:
    """To four digits: more of a measured time say nothing."""
    return None if value is None else float(f"{value:.4g}")
