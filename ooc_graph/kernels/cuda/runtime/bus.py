"""What goes over the bus from host memory to a CUDA device: what kernels ask for, and the most."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.runtime.rows import seconds_of

SECTOR_BYTES = 32
"""What a device fetches at least; kernels count such."""
COPY_BYTES = 16 << 20
"""Bytes of each side of the copies that tell the most."""
COPIES = 16


def counted_at(word: int) -> dict[str, int | str]:
    """What a source is compiled with that counts the sectors it asks of host memory.

    Parameters
    ----------
    word
        Of 4 bytes, of the kernel's state: where the sum stands, 8 bytes, the last ones.
    """
    return {"BUS": 1, "ASKED_AT": word}


def forget_asked(state: Any, constants: Mapping[str, int | str]) -> None:
    """Begin to count anew.

    Parameters
    ----------
    state
        The kernel's, uint32, on the device.
    constants
        As of `counted_at`.
    """
    at = int(constants["ASKED_AT"])
    state[at : at + 2] = 0


def asked_bytes(state: Any, constants: Mapping[str, int | str]) -> int:
    """Bytes that were asked for since; waits for the current stream. Parameters as before."""
    at = int(constants["ASKED_AT"])
    return int(state[at : at + 2].get().view(np.uint64)[0]) * SECTOR_BYTES


def link_rate() -> float | None:
    """Bytes a second that the current device copies out of pinned host memory, at most.

    Measured when it is first asked for, by events, over `COPIES` copies in a row. None where the
    memory for it is refused.
    """
    return _link_rate(cuda().cuda.Device().id)


@cache
def _link_rate(device: int) -> float | None:
    del device  # the current one: it is for the cache
    cupy = cuda()
    memory, runtime = cupy.cuda, cupy.cuda.runtime
    try:
        source = PinnedArray(COPY_BYTES, np.uint8)
        # Straight from the driver: no pool is left with it, and none has a limit for it.
        target = memory.MemoryPointer(memory.Memory(COPY_BYTES), 0)
    except (MemoryError, MemoryBudgetError, runtime.CUDARuntimeError):
        return None
    stream = memory.get_current_stream().ptr

    def copy() -> None:
        for _ in range(COPIES):
            ends = target.ptr, source.host.ctypes.data
            runtime.memcpyAsync(*ends, COPY_BYTES, runtime.memcpyHostToDevice, stream)

    copy()  # the first one wakes the link
    return COPIES * COPY_BYTES / seconds_of(copy)
