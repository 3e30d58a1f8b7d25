"""SSSP on a CUDA device of a graph whose rows stand in pinned host memory.

Rows ascend by weight, and what a search reads of a row is its lightest arcs, of a long row more
than of a short one. So of each row a share of its first arcs is on the device too. Everything else
is read over the bus, where a search comes to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.runtime.rows import extents
from ooc_graph.kernels.cuda.runtime.shares import TIERED, Shares
from ooc_graph.kernels.cuda.sssp.method import Method, Weighted
from ooc_graph.kernels.cuda.sssp.pull import Heads, PushPull
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import AnyArray, Rows

LEAST_ARCS = 5
"""Arcs of each row that are on the device, if it has so many: those that stand in columns too."""


@dataclass(frozen=True)
class SsspShare:
    """What of each row is on the device too: ``least`` arcs, and one in ``2**shift`` of its.

    At least 1 arc (`UsageError`): the last one of the share bounds the others from below.
    """

    least: int
    shift: int

    def __post_init__(self) -> None:
        if self.least < 1:
            raise UsageError("one arc of each row is on the device at least")


class CudaTierSsspSearch(CudaSsspSearch):
    """As `CudaSsspSearch`, of rows that the device reads where they are; by push and pull alone.

    Offsets are on the device or in host memory (copied), neighbours and weights the device's views
    of pinned host memory. The ``share`` is copied to the device. Graphs with weights of other
    types than float32 go by near-far (here `UsageError`).
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        tuples: AnyArray,
        share: SsspShare,
        *,
        original_of: AnyArray | None = None,
    ) -> None:
        if share.least < LEAST_ARCS:
            raise UsageError(f"{LEAST_ARCS} arcs of each row are on the device at least")
        self._share = share
        if out.weights is not None and out.weights.dtype != np.float32:
            raise UsageError(
                f"SSSP with weights of type {out.weights.dtype} wants all rows on the device, "
                "which is too small for them; with float32 it does not"
            )
        super().__init__(out, into, tuples, original_of=original_of)

    def _method_for(self, graph: Weighted, pulls: bool) -> Method:
        """Push and pull, also if that does not pay: the caller has asked fewer rows."""
        del pulls
        return _TierPushPull(graph, self._share)


class _TierPushPull(PushPull):
    """Push and pull on rows in host memory."""

    def __init__(self, graph: Weighted, share: SsspShare) -> None:
        self._near_out = Shares(graph.out, share.least, share.shift)
        self._near_in = self._near_out
        if graph.into is not graph.out:
            self._near_in = Shares(graph.into, share.least, share.shift)
        super().__init__(graph)

    def _heads_of(self, graph: Weighted) -> Heads:
        out = self._near_out.rows
        # One and the same object when undirected: then no column of lightest weights is needed.
        into = out if self._near_in is self._near_out else self._near_in.rows
        return Heads(out, into, graph.sums, extents(graph.into, 0, 1))

    def _constants(self) -> dict[str, int | str]:
        return TIERED

    def _arguments(self, root: np.uint32, original_of: Any) -> tuple[Any, ...]:
        sides = self._near_out, self._near_in
        near = [a for side in sides for a in (side.starts, side.neighbors, side.weights)]
        return *super()._arguments(root, original_of), *near
