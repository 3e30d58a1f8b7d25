"""Graph500's rules for BFS and SSSP on a CUDA device.

Verdicts equal those of `BfsValidator` and `SsspValidator`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.validate import cuda_trees as trees
from ooc_graph.validate import wording
from ooc_graph.validate.answers import DISTANCE_TYPES, unreached_distance
from ooc_graph.validate.cuda_batch import CudaValidator
from ooc_graph.validate.cuda_loader import cuda
from ooc_graph.validate.cuda_trees import item
from ooc_graph.validate.trees import require_lengths, require_weights

NO_LEVEL = 255
"""Level of unreached vertices if a level is one byte."""
_NULL = np.uint64(0)


class CudaBfsValidator(CudaValidator):
    """Checks breadth-first trees; levels are held in bytes until an answer has one above 254."""

    _wording = wording.BFS

    def _check_measure(self, dtype: np.dtype[Any]) -> None:
        if dtype not in (np.uint8, np.int32):
            raise UsageError(f"levels on a device are uint8 or int32, not {dtype}")

    def _nothing(self, measure: Any) -> tuple[Any, np.dtype[Any]]:
        del measure  # whatever its type: most answers fit bytes
        return NO_LEVEL, np.dtype(np.uint8)

    def _column(self, measure: Any) -> Any:
        if measure.dtype == np.int32 and int(measure.max()) >= NO_LEVEL:
            self._measures = _widened(self._measures)
        if self._measures.dtype == np.uint8:
            return measure.astype(np.uint8, copy=False)  # -1 becomes 255
        return _widened(measure)

    def _at(self, column: Any, vertex: int) -> int:
        level = int(item(column, vertex))
        return -1 if column.dtype == np.uint8 and level == NO_LEVEL else level

    def _weight(self, weight: Any) -> Any:
        del weight  # levels count arcs, whatever they weigh
        return _NULL


def _widened(level: Any) -> Any:
    """Levels of 32 bits."""
    if level.dtype == np.int32:
        return level
    wide = level.astype(np.int32)
    cuda().putmask(wide, wide == NO_LEVEL, -1)
    return wide


class CudaSsspValidator(CudaValidator):
    """Checks shortest-path trees; see `CudaValidator`."""

    _wording = wording.SSSP

    def _check_measure(self, dtype: np.dtype[Any]) -> None:
        if dtype not in DISTANCE_TYPES:
            raise UsageError(f"distances are float32, float64 or int64, not {dtype}")
        if self._measures is not None and dtype != self._measures.dtype:
            raise UsageError("the answers of one validation must have distances of one dtype")

    def _nothing(self, measure: Any) -> tuple[Any, np.dtype[Any]]:
        return unreached_distance(measure.dtype), measure.dtype

    def _column(self, measure: Any) -> Any:
        return measure

    def _at(self, column: Any, vertex: int) -> Any:
        return item(column, vertex)

    def _weight(self, weight: Any) -> Any:
        require_weights(weight, self._measures.dtype)
        exact = trees.converted(weight, self._measures.dtype)
        odd = _odd(exact)
        if odd.any():  # NumPy decides: CuPy takes subnormal numbers for zero
            require_lengths(cuda().asnumpy(exact[odd]))
        return exact


def _odd(weight: Any) -> Any:
    """Which weights may be negative or not finite."""
    if weight.dtype != np.float32:
        return ~((weight >= 0) & (weight < np.inf))
    return weight.view(np.uint32) >= np.array(np.inf, np.float32).view(np.uint32)[()]
