"""What processes of their own grow by while they search.

A process calls `measure` of the test's module, which searches a small graph first, in the same way:
from then on CUDA and the compiled kernels have what they take.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.runtime.machine import give_back_freed_memory
from tests.gpu import stores

# What no plan counts, since it does not grow with the graph: what the driver notes of memory that
# is pinned, and what the C library keeps, for threads that read as well.
SLACK_BYTES = 8 << 20
SMALL, LARGE = 14, 20


def small_and_large(folders: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two stores, built on the device."""
    small, large = (stores.kronecker(folders, scale, device="cuda") for scale in (SMALL, LARGE))
    return small.path, large.path


def measured(module: str, *given: object) -> dict[str, Any]:
    """What ``measure`` of a module tells in a process that has these arguments."""
    call = f"from {module} import measure; measure()"
    command = [sys.executable, "-c", call, *map(str, given)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tell(**found: object) -> None:
    """Write what a process found, for `measured`."""
    sys.stdout.write(f"{json.dumps(found)}\n")


def grown_by(search: Callable[[], Any]) -> tuple[int, Any]:
    """Bytes that this process grows by at most while it searches, and what that gives."""
    gc.collect()
    give_back_freed_memory()
    with MemoryWatch(interval_s=0.002) as watch:
        found = search()
    return watch.peak_bytes - watch.baseline_bytes, found
