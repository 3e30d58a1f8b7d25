"""Everyone's distances in one process: what the SSSP ranks there share (CUDA)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.kernels.bitmap import words_for
from ooc_graph.kernels.cuda_modules import cuda, within_memory
from ooc_graph.kernels.cuda_steps import LISTED, Steps, least, require_few, uploaded, wait
from ooc_graph.kernels.sssp_shared import bound_above, unreached
from ooc_graph.types import AnyArray

IDS = np.dtype(np.uint32)
C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "i64"}
"""Types of weights, as ``sssp_rank.cu`` calls them."""
STEP = "a step of SSSP on these rows"


def constants(weights: np.dtype[Any], distances: np.dtype[Any]) -> dict[str, int | str]:
    """What ``sssp_rank.cu`` is compiled with for weights and distances of these types."""
    return {"WEIGHT": C_TYPES[weights.name], "DIST": C_TYPES[distances.name]}


def steps_for(weights: np.dtype[Any], distances: np.dtype[Any]) -> Steps:
    """Kernels for weights and distances of these types."""
    return Steps("sssp_rank.cu", constants(weights, distances))


class CudaSsspShared:
    """Replica of all distances and of the set of vertices waiting on plateaus, on the device.

    Beside the distances it holds 4 bytes and two bits a vertex.

    Parameters
    ----------
    vertices
        Rows of the whole graph.
    dtype
        Of the distances: float32, float64 or int64.

    Raises
    ------
    DeviceError
        There is no usable device.
    UsageError
        Too many vertices for 32 bits.
    MemoryBudgetError
        The device's memory is too small; so in `merge`.
    """

    def __init__(self, vertices: int, dtype: np.dtype[Any]) -> None:
        require_few(vertices)
        self.top = unreached(dtype)
        words = 2 * words_for(vertices)
        with within_memory("the distances of all vertices"):
            cupy = cuda()
            self.distance = cupy.full(vertices, self.top[0], dtype)
            self.waiting, self._marks = (cupy.zeros(words, np.uint32) for _ in range(2))
            self._list = cupy.empty(vertices, IDS)
            self._steps = steps_for(dtype, dtype)
        self.improved = self._list[:0]
        self._smallest = self._low = self.top[0]

    @property
    def smallest(self) -> float:
        """Smallest candidate not yet taken, of all ranks in the last merge."""
        return self._smallest  # type: ignore[no-any-return]

    @property
    def low(self) -> float:
        """Smallest distance that the last merge improved."""
        return self._low  # type: ignore[no-any-return]

    @property
    def unreached(self) -> float:
        """Distance of what is not reached."""
        return self.top[0]  # type: ignore[no-any-return]

    def bound_above(self, step: float) -> float:
        """Bound that lies ``step`` above the smallest candidate."""
        return bound_above(self._smallest, step, self.top[0])

    @within_memory(STEP)
    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Relax (three arrays), or toggle the set of those waiting for a parent (one array)."""
        count = sum(len(payload[0]) for payload in payloads)
        vertices = uploaded([payload[0] for payload in payloads], IDS)
        if len(payloads[0]) == 1:
            self._steps.launch("toggle", count, np.uint64(count), vertices, self.waiting)
            wait()
            return
        self._smallest = min(smallest[0] for _, _, smallest in payloads)
        self._low, listed = self.top[0], 0
        if count:
            candidates = uploaded([payload[1] for payload in payloads], self.top.dtype)
            listed = self._relax(vertices, candidates)
        self.improved = self._list[:listed]

    def _relax(self, vertices: Any, candidates: Any) -> int:
        """Take the smaller distances and list what improved; how many."""
        steps, count = self._steps, len(vertices)
        steps.clear()
        relaxed = vertices, candidates, self.distance, self._marks
        steps.launch("relax", count, np.uint64(count), *relaxed, self._list, steps.counts)
        marked = self._list, self.distance, self._marks
        steps.launch("unmark", count, *marked, self.top[0], steps.counts)
        counts = steps.fetch()
        self._low = least(counts, self.top[0])
        return counts[LISTED]
