"""What the device does at most, measured in the run that is compared with it."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from harness.device import event_seconds

SOURCE = Path(__file__).with_name("gpu_kernels.cu")
COPIED_BYTES = 1 << 31
TRIES = 7
THREADS, ROUNDS, AT_ONCE = 1024, 64, 8


@cache
def kernel(name: str, value: str = "float") -> Any:
    """A kernel of ``gpu_kernels.cu``, for values of a C type."""
    options = ("-std=c++17", f"-DVALUE={value}")
    return cupy.RawModule(code=SOURCE.read_text(), options=options).get_function(name)


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
    look_up = kernel("look_up")
    found_s = _median_s(lambda: look_up((blocks,), (THREADS,), arguments))
    return blocks * THREADS * ROUNDS * AT_ONCE / found_s


class OriginalOrder:
    """Brings answers by internal id into the order of original ids.

    Parameters
    ----------
    internal_of
        int32 (vertices,): internal id of each vertex, -1 where it has no arc.
    value
        Levels or distances of one answer, for their type.
    """

    def __init__(self, internal_of: Any, value: Any) -> None:
        assert internal_of.dtype == np.int32
        self._internal_of = internal_of
        types = {"f4": "float", "u1": "unsigned char", "i4": "int"}
        self._kernel = kernel("to_original", types[value.dtype.str[1:]])
        unreached = {"f": np.inf, "u": 255, "i": -1}[value.dtype.kind]
        self._unreached = value.dtype.type(unreached)
        self.parent = cupy.empty(len(internal_of), np.uint32)
        self.value = cupy.empty(len(internal_of), value.dtype)

    def seconds(self, parent: Any, value: Any) -> float:
        """Write both in original order; seconds by events."""
        vertices = len(self._internal_of)
        arguments = (
            *(np.uint64(vertices), self._internal_of, parent, value, self._unreached),
            *(self.parent, self.value),
        )
        grid = (max(1, min(65_535, -(-vertices // THREADS))),)
        return event_seconds(lambda: self._kernel(grid, (THREADS,), arguments))
