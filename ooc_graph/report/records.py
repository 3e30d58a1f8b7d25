"""Records of runs, one JSON object per line, appended, never rewritten; facts of the machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ooc_graph.errors import InputError
from ooc_graph.layout.json_text import parsed
from ooc_graph.layout.whole_file import append_line, disk_full_reported
from ooc_graph.threads import cores

_PACKAGES = ("ooc-graph", "numpy", "numba", "dask", "zarr")
_GIT_TIMEOUT_S = 10


@cache
def host_facts() -> dict[str, object]:
    """CPU model, CPU counts, memory in bytes and system of this machine; no host name."""
    return {
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_usable": cores(),
        "ram_bytes": int(psutil.virtual_memory().total),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


@cache
def package_versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that decide the figures; None if absent."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        key = name.replace("-", "_")
        versions[key] = None
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[key] = metadata.version(name)
    return versions


@cache
def git_state() -> tuple[str | None, bool | None]:
    """Commit of the checkout that the package runs from, and whether it changed; else None."""
    package = Path(__file__).resolve().parents[1]
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None
    commit = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    return commit, None if changes is None else bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _cpu_model() -> str:
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


SCHEMA_VERSION = 1


def append_record(path: str | Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Append ``record`` with its circumstances to a JSON-lines file, whole or not at all.

    The file, made if absent, is locked meanwhile; the line is on the disk when the call returns.
    OutputBusyError says that another process keeps the file locked. The record may have anything
    JSON has, paths, NumPy scalars and arrays; no NaN or infinity. The keys ``schema_version``,
    ``date``, ``host``, ``packages``, ``git_commit`` and ``git_changed`` are added here and may not
    be given.
    """
    path = Path(path)
    added = _circumstances()
    if taken := sorted(added.keys() & record.keys()):
        raise ValueError(f"keys that append_record itself writes: {', '.join(taken)}")
    line = json.dumps({**added, **record}, default=_plain, allow_nan=False, ensure_ascii=False)
    with disk_full_reported(path, f"the record was not added to {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        append_line(path, line)
    written: dict[str, Any] = json.loads(line)
    return written


def read_records(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON-lines file in the order written; InputError if one is wrong."""
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _parsed(line, Path(path), number)


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        record = parsed(line)
    except ValueError as error:
        raise InputError(f"not JSON: {error}", path=path, line=number) from error
    if not isinstance(record, dict):
        raise InputError("not a JSON object", path=path, line=number)
    return record


def _circumstances() -> dict[str, object]:
    commit, changed = git_state()
    return {
        "schema_version": SCHEMA_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": host_facts(),
        "packages": package_versions(),
        "git_commit": commit,
        "git_changed": changed,
    }


def _plain(value: object) -> object:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a record cannot carry {type(value).__name__}")
