"""What SSSP ranks have in common on any device: the payloads without arcs, and what they know."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.distances import distance_dtype, overflow_error, unreached
from ooc_graph.kernels.common.sssp.survey import Known
from ooc_graph.types import AnyArray, Dealing, owner_of

Payload = tuple[AnyArray, AnyArray, AnyArray]


class BaseSsspRank:
    """A rank with the rows of one shard, so many ``arcs``; ids and weights are of these dtypes."""

    def __init__(
        self,
        dealing: Dealing,
        arcs: int,
        ids: np.dtype[Any],
        weights: np.dtype[Any],
        known: Known,
    ) -> None:
        self.vertices, self.arcs = dealing.vertices, arcs
        self._dealing, self._ids, self._known = dealing, ids, known
        self._top = unreached(distance_dtype(np.empty(0, weights)))[0]
        self._pending = self._left = 0

    def survey(self) -> tuple[tuple[int, int, int, int], float]:
        """Tuples at the first rows and at all, first rows with spread weights and all; a step."""
        s = self._known.survey
        return (s.head_tuples, s.tuples, s.spread_rows, s.sampled_rows), s.step

    def nothing(self, smallest: float) -> Payload:
        """Payload that relaxes nothing."""
        dtype = self._top.dtype
        # The first step is a float64; beyond the largest float32 it is as good as infinite.
        with np.errstate(over="ignore"):
            least = np.array([min(self._top, smallest)], dtype)
        return np.empty(0, self._ids), np.empty(0, dtype), least

    def seed(self, root: int) -> Payload:
        """Payload that puts the root at distance 0, if this rank owns it."""
        if owner_of(np.array(root, np.int64), self._dealing.shards) != self._dealing.shard:
            return self.nothing(self._top)
        dtype = self._top.dtype
        return np.array([root], self._ids), np.zeros(1, dtype), np.array([self._top], dtype)

    def refuse_overflow(self) -> None:
        """Raise the error that says that a distance exceeds its dtype."""
        raise overflow_error(self._top.dtype)
