"""Compile the kernels that this machine lacks: each part once, and several parts side by side.

numba compiles one function at a time in a process and knows nothing of other processes: workers
that start together would all compile the same. So kernels are compiled in parts, each under a
lock of its own, which the system takes back from a process that dies; whoever comes second waits
and then finds them in the cache. A file says that a part is there. Where no such file can be
written, each process compiles for itself.

Processes that compile side by side are started where a job finds parts that the machine does not
have, run as long as that takes, and are only a help: whatever they leave undone is compiled by the
job itself.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numba
from numba.core.registry import cpu_target

from ooc_graph import kernel_cache
from ooc_graph.forked import locked_in_time, not_inherited
from ooc_graph.threads import cores

PATIENCE_S = 120.0
"""A process that holds a part for longer than this is waited for no more: it may be stopped."""


@dataclass(frozen=True)
class Part:
    """Kernels that are compiled together.

    The ``job`` is ``generate``, ``build``, ``check-bfs``, ``check-sssp`` or the name of a search,
    its ``variant`` one of those in `ooc_graph.runtime.warmup`; ids and weights are names of dtypes.
    """

    job: str
    directed: bool = False
    ids: str = "uint32"
    weights: str | None = None
    variant: str = ""


@cache
def _machine() -> bytes:
    """What numba tells compiled code apart by: sources, interpreter, processor, options."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    options = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
    options.pop("NUMBA_CACHE_DIR", None)
    changed = kernel_cache.last_change()
    said = (kernel_cache.source_hash(), changed, sys.version, numba.__version__)
    return repr((said, processor, sorted(options.items()))).encode()


def _file(part: Part, ending: str) -> Path:
    name = hashlib.sha256(_machine() + repr(astuple(part)).encode()).hexdigest()[:24]
    return Path(numba.config.CACHE_DIR) / "parts" / f"{name}.{ending}"


def is_compiled(part: Part) -> bool:
    """Whether a process of this machine has compiled a part before, to the end."""
    try:
        return _file(part, "done").exists()
    except OSError:
        return False


def can_be_kept() -> bool:
    """Whether what another process compiles can be found here."""
    if numba.config.DISABLE_JIT or not numba.config.CACHE_DIR:
        return False
    folder = Path(numba.config.CACHE_DIR) / "parts"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


@contextmanager
def turn(part: Part, *, wait: bool = True) -> Iterator[bool]:
    """Compile a part in the body of the ``with``: alone, or after another process has.

    Yields False if another process has its turn and ``wait`` is false.
    """
    if numba.config.DISABLE_JIT or is_compiled(part):
        yield True
        return
    descriptor = _open_lock(part)
    if descriptor is None:
        yield True
        _mark(part)
        return
    try:
        with not_inherited(descriptor):
            mine = _take(descriptor, PATIENCE_S if wait else 0.0)
            yield mine or wait
            if mine:
                _mark(part)
    finally:
        os.close(descriptor)


def _open_lock(part: Part) -> int | None:
    """Descriptor of a part's lock; None if there can be none."""
    path = _file(part, "lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _take(descriptor: int, patience_s: float) -> bool:
    """Whether the lock was free in time, or cannot be had on this file system."""
    try:
        return locked_in_time(descriptor, patience_s)
    except OSError:
        return True


def _mark(part: Part) -> None:
    if kernel_cache.is_usable():
        with suppress(OSError):
            _file(part, "done").touch()


# The path is the starter's, so that the same package is found wherever it was imported from.
_PROGRAM = """
import json, sys
given = json.loads(sys.stdin.readline())
sys.path[:] = given["path"]
from ooc_graph.runtime.compile_ahead import work
work(given["parts"])
"""
_LONGEST_S = 120.0
COMPILER_BYTES = 256 << 20
"""Memory of one of the processes, about."""


def compile_ahead(parts: Sequence[Part], *, processes: int | None = None, least: int = 2) -> None:
    """Have other processes compile what the machine does not have yet, and wait for them.

    ``parts`` begin with the longest. There is a process for each core at most, and none if fewer
    than ``least`` had work: one alone only helps to spare this process the compiler's memory.
    """
    missing = [part for part in parts if not is_compiled(part)]
    count = min(cores() if processes is None else processes, len(missing))
    if count < least or not sys.executable or not can_be_kept():
        return
    started: list[subprocess.Popen[bytes]] = []
    with suppress(OSError, subprocess.TimeoutExpired), TemporaryDirectory() as folder:
        try:
            while len(started) < count:
                started.append(_start(missing, folder))
            for process in started:
                process.wait(_LONGEST_S)
        finally:
            for process in started:
                _end(process)


def _start(parts: Sequence[Part], folder: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM],
        env={**os.environ, "NUMBA_CACHE_DIR": numba.config.CACHE_DIR, "TMPDIR": folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    given = {
        "path": [str(Path(p).absolute()) for p in sys.path],
        "parts": [asdict(p) for p in parts],
    }
    assert process.stdin is not None
    # A process that ended already is as good as one that has nothing to do.
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(given).encode() + b"\n")
        process.stdin.flush()
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no process behind, whatever happened."""
    process.kill()
    process.wait()
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


def work(parts: Sequence[dict[str, object]]) -> None:
    """What each process does: compile all parts that no other one has begun."""
    threading.Thread(target=_end_with_starter, daemon=True).start()
    # What the compiler allocates lives as long as this process.
    gc.disable()
    from ooc_graph.runtime.compile_parts import compile_part  # noqa: PLC0415

    compile_all([Part(**fields) for fields in parts], compile_part)  # type: ignore[arg-type]


def compile_all(parts: Sequence[Part], compile_part: Callable[[Part], None]) -> None:
    """Compile those parts that are neither there nor under way."""
    for part in parts:
        if not is_compiled(part):
            with turn(part, wait=False) as mine:
                if mine and not is_compiled(part):
                    compile_part(part)


def _end_with_starter() -> None:
    """End this process when the starter's end of the pipe is closed, as it is when that dies."""
    sys.stdin.buffer.read()
    os._exit(0)
