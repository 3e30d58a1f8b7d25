"""Everyone's distances in one process: what the SSSP ranks there share (CUDA)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.common.bitmap import words_for
from ooc_graph.kernels.common.sssp.distances import SharedBounds
from ooc_graph.kernels.common.sssp.rows import Known, survey
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.steps import LISTED, Steps, ids_of, least, uploaded, wait, width
from ooc_graph.types import AnyArray, Rows

C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "i64"}
"""Types of weights, as ``sssp_rank.cu`` calls them."""
STEP = "a step of SSSP on these rows"


def constants(
    weights: np.dtype[Any], distances: np.dtype[Any], ids: np.dtype[Any]
) -> dict[str, int | str]:
    """What ``sssp_rank.cu`` is compiled with for weights, distances and ids of these types."""
    return {"WEIGHT": C_TYPES[weights.name], "DIST": C_TYPES[distances.name], **width(ids)}


class CudaSsspShared(SharedBounds):
    """Replica of all distances and of the set of vertices waiting on plateaus, on the device.

    Distances are float32, float64 or int64; beside them it holds an id and two bits a vertex. Ranks
    take what a push needs for all vertices in turn, one at a time. If the device's memory is too
    small, that is a `MemoryBudgetError`, also in `merge`.
    """

    def __init__(self, vertices: int, dtype: np.dtype[Any]) -> None:
        super().__init__(dtype)
        self._ids, self.turn = ids_of(vertices), Lock()
        words = 2 * words_for(vertices)
        with within_memory("the distances of all vertices"):
            cupy = cuda()
            self.distance = cupy.full(vertices, self.top[0], dtype)
            self.waiting, self._marks = (cupy.zeros(words, np.uint32) for _ in range(2))
            self._list = cupy.empty(vertices, self._ids)
            self._steps = Steps("sssp_rank.cu", constants(dtype, dtype, self._ids))
        self.improved = self._list[:0]

    @within_memory(STEP)
    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Relax (three arrays), or change the set of those waiting for a parent (two arrays)."""
        if len(payloads[0]) == 2:
            for step, column in (("join_waiting", 0), ("leave_waiting", 1)):
                vertices = uploaded([payload[column] for payload in payloads], self._ids)
                count = len(vertices)
                self._steps.launch(step, count, np.uint64(count), vertices, self.waiting)
            wait()
            return
        self._smallest = min(smallest[0] for _, _, smallest in payloads)
        self._low, listed = self.top[0], 0
        if any(len(payload[0]) for payload in payloads):
            listed = self._relax(payloads)
        self.improved = self._list[:listed]

    def _relax(self, payloads: Sequence[tuple[AnyArray, ...]]) -> int:
        """Take the smaller distances and list what improved; how many."""
        steps, count = self._steps, 0
        steps.clear()
        for group in grouped(payloads, len(self._list)):
            count += self._relax_group(group)
        marked = self._list, self.distance, self._marks
        steps.launch("unmark", count, *marked, self.top[0], steps.counts)
        counts = steps.fetch()
        self._low = least(counts, self.top[0])
        return counts[LISTED]

    def _relax_group(self, group: Sequence[tuple[AnyArray, ...]]) -> int:
        """Relax some payloads; their entries. What was uploaded is free again behind it."""
        vertices = uploaded([payload[0] for payload in group], self._ids)
        candidates = uploaded([payload[1] for payload in group], self.top.dtype)
        relaxed = vertices, candidates, self.distance, self._marks
        number = np.uint64(len(vertices))
        self._steps.launch("relax", len(vertices), number, *relaxed, self._list, self._steps.counts)
        return len(vertices)


def grouped(
    payloads: Sequence[tuple[AnyArray, ...]], most: int
) -> Iterator[list[tuple[AnyArray, ...]]]:
    """Payloads in their order, in groups of at most so many entries, or of one that has more."""
    group: list[tuple[AnyArray, ...]] = []
    left = most
    for payload in payloads:
        if group and len(payload[0]) > left:
            yield group
            group, left = [], most
        group.append(payload)
        left -= len(payload[0])
    yield group


def known_of(rows: Rows, tuples: AnyArray) -> Known:
    """What a search knows of light-first rows, with the input tuples at each, in host memory.

    Weights are float32, float64, int32 or int64, not negative; others are refused (`UsageError`).
    """
    if rows.weights is None or rows.weights.dtype.name not in C_TYPES:
        found = "none" if rows.weights is None else str(rows.weights.dtype)
        raise UsageError(
            f"SSSP on a CUDA device takes weights of type {', '.join(C_TYPES)}, not {found}"
        )
    return Known(survey(rows, tuples), rows.weights.max(initial=0))
