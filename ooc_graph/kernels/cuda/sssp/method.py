"""What the methods of an SSSP on a CUDA device share: what they are given, and what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.rows import NULL, DeviceRows
from ooc_graph.kernels.cuda.sssp.sums import Sums

_STATE_WORDS = 128


@dataclass(frozen=True)
class Weighted:
    """A graph, and how it is searched."""

    out: DeviceRows  # weights as bits
    into: DeviceRows  # the same object when undirected
    tuples: Any  # input tuples at each row, on the device; rows fall by them
    sums: Sums
    step: float  # the first of the bound
    heaviest: Any  # bits of the heaviest weight, of the weights' type

    def rows_above(self, tuples: int) -> int:
        """Rows with more tuples than this; they are the first."""
        return int((self.tuples > tuples).sum())


class Method(ABC):
    """A method to search a graph: buffers and one launch.

    After a search ``parent``, uint32 (rows,), has original ids if it was given some, else internal
    ids, and ``length``, uint32 or uint64 (rows,), the bits of the distances.
    """

    parent: Any
    length: Any
    _search: Callable[[tuple[Any, ...]], None]
    _COUNTS: ClassVar[slice]  # words of the state, 64 bits each: unresolved, then arcs by phase

    def __init__(self, graph: Weighted) -> None:
        self._out, self._into = graph.out, graph.into
        self._step = min(graph.step, graph.sums.longest_step)
        self._state = cuda().zeros(_STATE_WORDS, np.uint32)

    def launch(self, root: int, original_of: Any) -> Callable[[], None]:
        """What launches a search, with all arguments ready."""
        names = NULL if original_of is None else original_of
        return partial(self._search, self._arguments(np.uint32(root), names))

    @abstractmethod
    def _arguments(self, root: np.uint32, original_of: Any) -> tuple[Any, ...]:
        """Arguments of the kernel; ``original_of`` may be `NULL`."""

    def counts(self) -> Any:
        """Rows without a parent, then arcs examined by phase, of the last search: uint64 (5,)."""
        return self._state[self._COUNTS].get().view(np.uint64)
