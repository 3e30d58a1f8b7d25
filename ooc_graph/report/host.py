"""Facts about the machine and the software that a record needs to be comparable later."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil

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
        versions[name.replace("-", "_")] = _version(name)
    return versions


@cache
def git_state() -> tuple[str | None, bool | None]:
    """Commit of the checkout that the package runs from, and whether its files are changed.

    (None, None) for an installed package, even one whose environment lies inside somebody's
    checkout.
    """
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


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
