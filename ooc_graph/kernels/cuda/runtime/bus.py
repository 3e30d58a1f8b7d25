"""What kernels ask of host memory over the bus; benchmarks alone count that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

SECTOR_BYTES = 32
"""What a device fetches at least; kernels count such."""


def counted_at(word: int) -> dict[str, int | str]:
    """What a source is compiled with that counts the sectors it asks of host memory.

    Their sum is 8 bytes, at this word of 4 bytes of the kernel's state, the last ones.
    """
    return {"BUS": 1, "ASKED_AT": word}


def forget_asked(state: Any, constants: Mapping[str, int | str]) -> None:
    """Begin to count anew in a kernel's state, uint32, on the device."""
    at = int(constants["ASKED_AT"])
    state[at : at + 2] = 0


def asked_bytes(state: Any, constants: Mapping[str, int | str]) -> int:
    """Bytes that were asked for since; waits for the current stream. Parameters as before."""
    at = int(constants["ASKED_AT"])
    return int(state[at : at + 2].get().view(np.uint64)[0]) * SECTOR_BYTES
