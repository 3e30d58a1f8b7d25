"""What the store of a build on a CUDA device will hold, once the first pass has counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.kernels.cuda.build.store_rows import IN_END, OUT_END
from ooc_graph.layout.names import IN, OUT
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.tally import Packings, Tally, store_attributes
from ooc_graph.types import IntArray


@dataclass(frozen=True)
class StoreLayout:
    """Vertices, shards and columns of a store.

    Parameters
    ----------
    source, space, total
        Edges, their vertices, and what was counted.
    orders, weight_dtype
        Row orders, and the type of stored weights, or None.
    starts
        int64 (shards + 1,): first row of each shard in store order, and the number of all rows.
    packings
        How columns are packed.
    """

    source: EdgeSource
    space: VertexSpace
    total: Tally
    orders: tuple[str, ...]
    weight_dtype: np.dtype[Any] | None
    starts: IntArray
    packings: Packings

    @property
    def shards(self) -> int:
        """Number of virtual shards."""
        return len(self.starts) - 1

    @property
    def rows(self) -> int:
        """Rows of a side."""
        return int(self.starts[-1])

    @property
    def weight_bytes(self) -> int:
        """Bytes of a stored weight, 0 without."""
        return self.weight_dtype.itemsize if self.weight_dtype else 0

    @property
    def sides(self) -> dict[str, int]:
        """Which ends of an edge are arcs of a side."""
        if self.source.directed:
            return {OUT: OUT_END, IN: IN_END}
        return {OUT: OUT_END | IN_END}

    def attributes(self, arcs: dict[str, int], description: dict[str, Any]) -> dict[str, Any]:
        """Attributes of the store, given the arcs of each side and what the source says."""
        return store_attributes(
            self.total,
            description,
            directed=self.source.directed,
            weight_dtype=self.weight_dtype,
            vertices=self.space.count,
            rows=self.rows,
            first_id=None if self.space.originals else self.space.first,
            arcs=arcs,
            shards=self.shards,
            orders=self.orders,
            compressed=bool(self.packings),
        )
