"""SSSP on a CUDA device of graphs that one block holds (`sssp_small.cu`)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import FIXED_ARCS, fixed_rows_pay
from ooc_graph.kernels.cuda.runtime.modules import cuda, kernel
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.sums import Sums

# Constants of sssp_small.cu; twice as many rows of wide weights do not fit a thread's registers.
_BLOCK = 512
_EACH, _EACH_WIDE = 8, 4

LONGEST_ROW = 64
"""Most in-arcs of a row, which one thread looks at one by one, in every round."""


def constants(sums: Sums) -> dict[str, int | str]:
    """What ``sssp_small.cu`` is compiled with."""
    each = _EACH_WIDE if sums.weight.itemsize == 8 else _EACH
    return {"BLOCK": _BLOCK, "EACH": each, **sums.constants}


def suits_one_block(into: DeviceRows, sums: Sums) -> bool:
    """Tell whether one block holds all rows, and most of them are short."""
    if not into.rows <= _BLOCK * int(constants(sums)["EACH"]):
        return False
    arcs = cuda().diff(into.offsets)
    longer = int((arcs > FIXED_ARCS).sum())
    return fixed_rows_pay(into.rows, into.arcs, longer) and int(arcs.max()) <= LONGEST_ROW


class OneBlock(Method):
    """Searches by rounds over all arcs, by one block, for sums of all kinds."""

    _COUNTS = slice(0, 10)

    def __init__(self, graph: Weighted) -> None:
        super().__init__(graph)
        rows, sums = self._into.rows, graph.sums
        self.parent, self.length = (cuda().empty(rows, t) for t in (np.uint32, sums.length))
        found = kernel("sssp_small.cu", "sssp_small", constants(sums))
        shared_bytes = 2 * -(-rows // _BLOCK) * _BLOCK * sums.length.itemsize
        # All that any caller takes: they share the kernel.
        most = 2 * _BLOCK * int(constants(sums)["EACH"]) * sums.length.itemsize
        found.max_dynamic_shared_size_bytes = most
        self._search = partial(found, (1,), (_BLOCK,), shared_mem=shared_bytes)

    def _arguments(self, root: np.uint32, original_of: Any) -> tuple[Any, ...]:
        into = self._into
        rows = np.uint32(into.rows), into.offsets, into.neighbors, into.weights
        return *rows, original_of, self.parent, self.length, self._state, root
