"""Which kernels this machine has compiled already, and whose turn it is to compile the others.

numba compiles one function at a time in a process and knows nothing of other processes: workers
that start together would all compile the same. So kernels are compiled in parts, each under a
lock of its own, which the system takes back from a process that dies; whoever comes second waits
and then finds them in the cache. A file says that a part is there. Where no such file can be
written, each process compiles for itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

import numba
from numba.core.registry import cpu_target

from ooc_graph import kernel_cache
from ooc_graph.forked import not_inherited
from ooc_graph.layout.whole_file import locked_in_time

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
