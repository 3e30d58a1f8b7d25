"""What ``bfs.cu`` is compiled with, as far as it differs between devices and graphs."""

from __future__ import annotations

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.runtime.modules import SHARED_RESERVE
from ooc_graph.kernels.cuda.runtime.rows import QUAD_ROWS

BLOCK = 1024
"""Threads of a block."""
_THIN_BLOCK = 512
"""And if levels are narrow: more registers for each do more than more threads."""
BUFFER_BYTES = 8 * (QUAD_ROWS * 2 + 16)
"""Shared memory of each warp."""
ROUGH_WORDS = 4096
_MOST_HUB_WORDS = 32768

BYTE_LEVELS, INT_LEVELS = "u8", "int"
"""Types of a level: bytes do for 254 levels, and are tried first if rows are long."""


def constants(
    shared_bytes: int, level: str, *, count_arcs: bool, trace: bool = False, thin: bool = False
) -> dict[str, int | str]:
    """What ``bfs.cu`` is compiled with for a device.

    A block may have so much shared memory, and a level is `BYTE_LEVELS` or `INT_LEVELS`. Arcs that
    are looked at bottom-up are counted if wanted, and the time of each level is taken with
    ``trace``. Levels may be narrow, as on roads, with ``thin``.
    """
    free_bytes = shared_bytes - SHARED_RESERVE - BLOCK // 32 * BUFFER_BYTES - 4 * ROUGH_WORDS
    words = min(_MOST_HUB_WORDS, free_bytes // 4 // 1024 * 1024)
    if words <= 0:
        raise DeviceError(f"BFS needs more than the device's {shared_bytes} bytes of shared memory")
    counted: dict[str, int | str] = {"COUNT": 1} if count_arcs else {}
    traced: dict[str, int | str] = {"TRACE": 1} if trace else {}
    short: dict[str, int | str] = {"THIN": 1, "BLOCK": _THIN_BLOCK} if thin else {}
    sizes: dict[str, int | str] = {"HUB_WORDS": words, "BUFFER_BYTES": BUFFER_BYTES}
    return {**sizes, "ROUGH_WORDS": ROUGH_WORDS, "LEVEL": level, **counted, **traced, **short}
