"""What this machine and its installation bring to searches, and what is wrong with them."""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from time import perf_counter
from typing import NamedTuple

from ooc_graph.errors import OocGraphError
from ooc_graph.exchange.written import new_memory
from ooc_graph.report.records import host_facts
from ooc_graph.runtime.devices import cuda_checked
from ooc_graph.runtime.machine import default_limit_bytes, free_bytes
from ooc_graph.threads import cores

LEAST_BYTES = 430_000_000
"""Memory that a worker needs for Python and compiled kernels (docs/how-to/clusters.md)."""
_LEAST_DISK_BYTES = 1 << 30
_PIECE_BYTES, _MOST_PIECES, _MEASURED_S = 4 << 20, 64, 0.5
_REQUIRED = ("ooc-graph", "numpy", "numba", "zarr", "dask", "distributed")
_OPTIONAL = ("cupy-cuda12x", "cupy-cuda13x", "dask-cuda", "rmm-cu12", "rmm-cu13", "pyarrow")
_FEATURES = ("sse4.2", "avx", "avx2", "avx512f", "bmi2", "fma", "neon", "sve")
_DRIVER = Path("/proc/driver/nvidia/version")


class Check(NamedTuple):
    """One thing that was looked at; ``advice`` says what to do if there is a problem.

    If it ``stops`` all work, nothing can be built or searched before that is done.
    """

    name: str
    found: str
    problem: str = ""
    advice: str = ""
    stops: bool = False


def checks() -> Iterator[Check]:
    """Look at everything; takes about two seconds, most of them for the disk."""
    parts: list[Callable[[], Iterator[Check]]] = [_versions, _processor, _device, _memory]
    for part in parts:
        yield from part()
    yield from disk(Path(gettempdir()))
    yield from _cluster()


def _versions() -> Iterator[Check]:
    yield Check("Python", platform.python_version())
    for name in (*_REQUIRED, *_OPTIONAL):
        found = ""
        with suppress(metadata.PackageNotFoundError):
            found = metadata.version(name)
        if found:
            yield Check(name, found)
        elif name in _REQUIRED:
            yield Check(name, "missing", "is not installed", "pip install ooc-graph", stops=True)


def _processor() -> Iterator[Check]:
    facts, usable = host_facts(), cores()
    yield Check("system", str(facts["system"]))
    yield Check("processor", str(facts["cpu_model"]))
    yield Check("threads of a search", f"{usable} (of {facts['cpu_count']} logical cores)")
    try:
        from llvmlite.binding import get_host_cpu_features  # noqa: PLC0415
        from numba import config, get_num_threads  # noqa: PLC0415

        import ooc_graph.kernel_cache  # noqa: F401, PLC0415 - sets the folder
    except ImportError as error:
        advice = "install numba again: pip install --force-reinstall numba llvmlite"
        yield Check("numba threads", "none", f"cannot be imported: {error}", advice, stops=True)
        return
    features = get_host_cpu_features()
    yield Check("instructions", " ".join(name for name in _FEATURES if features.get(name)) or "-")
    yield Check("numba threads", str(get_num_threads()))
    folder = Path(str(config.CACHE_DIR))
    above = next(path for path in (folder, *folder.parents) if path.exists())
    problem, advice = "", ""
    if not os.access(above, os.W_OK):
        problem = "cannot be written, so every process compiles its kernels again"
        advice = "set NUMBA_CACHE_DIR to a folder that can"
    yield Check("compiled kernels", str(folder), problem, advice)


def _device() -> Iterator[Check]:
    driver = ""
    with suppress(OSError):
        driver = _DRIVER.read_text().partition("\n")[0].removeprefix("NVRM version:").strip()
    if driver:
        yield Check("NVIDIA driver", driver)
    try:
        for name, found in cuda_checked().items():
            yield Check(name, found)
    except OocGraphError as error:
        why, _, advice = str(error).partition(": ")
        # A machine without a GPU lacks nothing.
        problem = (why, advice or "see docs/how-to/gpu.md") if driver else ("", "")
        yield Check("GPU", "none, searches use the CPU", *problem)


def _memory() -> Iterator[Check]:
    total, left = int(str(host_facts()["ram_bytes"])), min(free_bytes(), default=None)
    yield Check("memory of the machine", _gib(total))
    # Version 1 says by a huge number that there is no limit.
    is_limited = left is not None and left < total
    yield Check("left by control groups", _gib(left or 0) if is_limited else "no limit")
    usable = default_limit_bytes()
    problem, advice = "", ""
    if usable < LEAST_BYTES:
        problem = f"less than {_gib(LEAST_BYTES)}, which Python and compiled kernels need"
        advice = "end other processes, or raise the limit of the container or job"
    yield Check(
        "memory of a call by default", f"{_gib(usable)} (80 % of what is free)", problem, advice
    )


def disk(folder: Path) -> Iterator[Check]:
    """A folder's free space, and how fast a file of up to 256 MiB is written and read there."""
    name = f"temporary files in {folder}"
    try:
        free = shutil.disk_usage(folder).free
        written, read = _rates(folder)
    except OSError as error:
        advice = "set TMPDIR to a folder that can be written"
        yield Check(name, "none", f"cannot be used: {error.strerror}", advice, stops=True)
        return
    problem, advice = "", ""
    if free < _LEAST_DISK_BYTES:
        problem = "nearly full: builds sort their edges beside the store, others here"
        advice = "free some space, or set TMPDIR to another disk"
    yield Check(name, f"{_gib(free)} free", problem, advice)
    yield Check("disk, written", f"{written / 1e6:,.0f} MB/s")
    yield Check("disk, read", f"{read / 1e6:,.0f} MB/s")


def _rates(folder: Path) -> tuple[float, float]:
    """Bytes a second of a file that is written and synced, and read past the page cache."""
    piece = os.urandom(_PIECE_BYTES)
    with TemporaryFile(dir=folder, buffering=0) as file:
        begun, pieces = perf_counter(), 0
        while pieces < _MOST_PIECES and perf_counter() - begun < _MEASURED_S:
            file.write(piece)
            pieces += 1
        os.fsync(file.fileno())
        written = pieces * _PIECE_BYTES / (perf_counter() - begun)
        # What is synced can be dropped; a disk in memory (tmpfs) keeps it.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(0)
        begun, count = perf_counter(), 0
        while (size := len(file.read(_PIECE_BYTES))) and perf_counter() - begun < _MEASURED_S:
            count += size
        return written, max(count, size) / (perf_counter() - begun)


def _cluster() -> Iterator[Check]:
    advice = "leave out --workers, so that this process searches"
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
        yield Check("ports for a local cluster", "can be opened on 127.0.0.1")
    except OSError as error:
        why = f"cannot be opened: {error.strerror or error}"
        yield Check("ports for a local cluster", "none", why, advice)
    try:
        _, descriptor = new_memory(1 << 20)
        os.close(descriptor)
        yield Check("memory that workers share", "can be made")
    except (OSError, AttributeError) as error:
        why = f"cannot be made, so workers send messages through sockets: {error}"
        yield Check("memory that workers share", "none", why, "allow memfd_create in the sandbox")


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"
