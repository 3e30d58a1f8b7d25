"""Device memory that the validator takes, and how many answers it can check at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.validate.batch import BATCH_ANSWERS
from ooc_graph.validate.cuda_loader import free_bytes

FOUR = 4
"""Answers that one thread looks at; a batch has room for a multiple of these."""

_ID_BYTES = 4
_USUAL: dict[str, np.dtype[Any]] = {"bfs": np.dtype(np.uint8), "sssp": np.dtype(np.float32)}


def bytes_per_answer(vertices: int, kernel: str, measure: np.dtype[Any] | None = None) -> int:
    """Device memory of an answer; ``measure`` None: levels below 255, or distances of float32."""
    return vertices * (_ID_BYTES + (measure or _USUAL[kernel]).itemsize)


def largest_batch(
    vertices: int,
    kernel: str,
    measure: np.dtype[Any] | None = None,
    *,
    free: int | None = None,
    beside: int = 0,
) -> int:
    """Answers that the device's memory has room for: a multiple of 4, at most 64.

    ``free`` is the bytes that are free (None: as many as the current device has), and ``beside``
    those wanted for something else, such as a block of edges. If not even 4 answers fit, that is a
    `MemoryBudgetError`.
    """
    left = (free_bytes() if free is None else free) - beside - vertices * _ID_BYTES  # links
    least = FOUR * bytes_per_answer(vertices, kernel, measure)
    if left < least:
        raise MemoryBudgetError(
            f"validation of {vertices:,} vertices wants {least:,} bytes on the device at least; "
            f"{max(0, left):,} are free for it"
        )
    return int(min(BATCH_ANSWERS, FOUR * (left // least)))
