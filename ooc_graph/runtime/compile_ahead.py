"""Compile parts of the kernels side by side, in processes that fill the cache.

numba compiles under one lock a process, so only processes compile side by side. They are started
where a job finds parts that the machine does not have, run as long as that takes, and are only a
help: whatever they leave undone is compiled by the job itself.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numba

from ooc_graph.runtime.first_use import Part, can_be_kept, is_compiled, turn
from ooc_graph.threads import cores

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
