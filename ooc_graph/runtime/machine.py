"""Memory that this machine has, and that the control groups of this process still let it take.

``distributed.system.memory_limit`` reads the limits of the topmost group that is mounted, and none
of what is in use; psutil knows no groups.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath

_PROCESS = Path("/proc/self")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class _Version:
    """Names of the files of one version of control groups."""

    # Above the first the kernel kills; above the second it slows down, or takes pages back first.
    limits: tuple[str, ...]
    used: str
    # Of this group and those below it, as the other numbers are.
    cached: tuple[str, ...]


_VERSIONS = {
    "cgroup": _Version(
        ("memory.limit_in_bytes", "memory.soft_limit_in_bytes"),
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
    "cgroup2": _Version(
        ("memory.max", "memory.high"), "memory.current", ("inactive_file", "active_file")
    ),
}


def free_bytes(process: Path = _PROCESS) -> Iterator[int]:
    """Bytes that each limited control group of a process has left, from its own to the topmost.

    That is by how much a limit, hard or soft, exceeds what its processes use. Pages of files are
    not in use, since the kernel gives them up before it kills. What cannot be read is no limit.
    ``process`` is the folder that has the files ``cgroup`` and ``mountinfo``.
    """
    for kind, folder in _group_folders(
        _content(process / "cgroup"), _content(process / "mountinfo")
    ):
        yield from _left(folder, _VERSIONS[kind])


@lru_cache(1)
def _group_folders(cgroup: bytes, mountinfo: bytes) -> tuple[tuple[str, str], ...]:
    """Kind and folder of each group of a process and its parents, by what its files hold.

    Every search asks, and the files are as they were.
    """
    groups, mounts = _groups(_lines(cgroup)), map(_mount, _lines(mountinfo))
    return tuple(
        (kind, str(folder))
        for kind, root, mounted in mounts
        if kind in groups
        for folder in _folders(groups[kind], root, mounted)
    )


def _content(path: str | Path) -> bytes:
    """Content of a small file, none if it cannot be read."""
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY)
        try:
            return b"".join(iter(partial(os.read, file, 1 << 16), b""))
        finally:
            os.close(file)
    return b""


def _lines(content: bytes) -> list[str]:
    """Lines of a file; names of groups may be any bytes."""
    return os.fsdecode(content).split("\n")


def _groups(lines: list[str]) -> dict[str, str]:
    """Path of the group whose memory is accounted, by the kind of file system that shows it."""
    groups = {}
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            groups["cgroup2"] = path
        elif "memory" in controllers.split(","):
            groups["cgroup"] = path
    return groups


def _mount(line: str) -> tuple[str, PurePosixPath, Path]:
    """Kind, group and folder of a mounted file system; no kind unless groups have memory there."""
    mount, _, system = line.partition(" - ")
    where, what = mount.split(" "), system.split(" ")
    if len(where) < 5 or len(what) < 3 or what[0] not in _VERSIONS:
        return "", PurePosixPath(), Path()
    # Each hierarchy of version 1 has controllers of its own.
    kind = what[0] if what[0] == "cgroup2" or "memory" in what[2].split(",") else ""
    root, mounted = (_ESCAPED.sub(lambda code: chr(int(code[1], 8)), text) for text in where[3:5])
    return kind, PurePosixPath(root), Path(mounted)


def _folders(group: str, root: PurePosixPath, mounted: Path) -> Iterator[Path]:
    """Folders of a group and its parents, up to the topmost that is mounted.

    A container may see the file system of its own group alone, under another path than the one
    in its mount table; then the topmost is all there is.
    """
    path, folder = PurePosixPath(group), mounted
    if path.is_relative_to(root) and ".." not in path.parts:
        folder = mounted / path.relative_to(root)
    yield folder
    while folder != mounted:
        folder = folder.parent
        yield folder


def _left(folder: str, version: _Version) -> Iterator[int]:
    """What each limit of one group leaves."""
    limits = [_number(f"{folder}/{name}") for name in version.limits]
    if limits == [None] * len(limits):
        return
    used = (_number(f"{folder}/{version.used}") or 0) - _cached(folder, version)
    for limit in limits:
        if limit is not None:
            yield max(0, limit - max(0, used))


def _number(path: str) -> int | None:
    """Number in a file; None if there is no such file, or it says ``max``."""
    with suppress(ValueError):
        return int(_content(path))
    return None


def _cached(folder: str, version: _Version) -> int:
    """Bytes of pages of files, 0 if the kernel does not say."""
    fields = [line.partition(" ") for line in _lines(_content(f"{folder}/memory.stat"))]
    return sum(int(n) for name, _, n in fields if name in version.cached and n.isdecimal())


_SHARE = 0.8

KEPT_BYTES = 16 << 20
"""Freed memory of at least this size goes back to the system at once (glibc)."""
_LIBRARY = ctypes.CDLL(None)
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def default_limit_bytes() -> int:
    """Memory that this process could take now: 80 % of what machine and control groups leave it."""
    return int(min([_available_bytes(), *free_bytes()]) * _SHARE)


def _available_bytes() -> int:
    for line in _lines(_content("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    import psutil  # noqa: PLC0415 (takes a while, and only other systems need it)

    return int(psutil.virtual_memory().available)


def return_freed_memory() -> None:
    """Have this process's C library give freed memory back, if it is glibc.

    By itself it keeps what was freed once larger and larger arrays have come and gone, and a
    build in this process would hold more than its limit.
    """
    if hasattr(_LIBRARY, "mallopt"):
        _LIBRARY.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        _LIBRARY.mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)


def give_back_freed_memory() -> None:
    """Give back once what this process's C library keeps of freed memory, if it is glibc."""
    if hasattr(_LIBRARY, "malloc_trim"):
        _LIBRARY.malloc_trim(0)
