"""What the device does at most, measured in the run that is compared with it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from harness.device import event_seconds

SOURCE = Path(__file__).with_name("gpu_lookups.cu")
COPIED_BYTES = 1 << 31
TRIES = 7
THREADS, ROUNDS, AT_ONCE = 1024, 64, 8


def _median_s(launch: Callable[[], Any]) -> float:
    return statistics.median([event_seconds(launch) for _ in range(TRIES + 1)][1:])


def copy_rate() -> float:
    """Bytes read and written per second by a copy within device memory."""
    source, target = (cupy.zeros(COPIED_BYTES, np.uint8) for _ in range(2))
    return 2 * COPIED_BYTES / _median_s(lambda: cupy.copyto(target, source))


def lookup_rate(table_bytes: int) -> float:
    """Words of 4 bytes per second that come from random places of a table."""
    words = max(1, table_bytes // 4)
    table, out = cupy.zeros(words, np.uint32), cupy.zeros(1, np.uint32)
    blocks = 2 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    arguments = (table, np.uint32(words), np.uint32(ROUNDS), out)
    look_up = cupy.RawKernel(SOURCE.read_text(), "look_up", options=("-std=c++17",))
    found_s = _median_s(lambda: look_up((blocks,), (THREADS,), arguments))
    return blocks * THREADS * ROUNDS * AT_ONCE / found_s
