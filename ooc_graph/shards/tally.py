"""What a pass over the edges counts besides degrees, and what a graph says of itself for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.names import FORMAT_VERSION, id_dtype
from ooc_graph.layout.packing import Packing
from ooc_graph.types import EdgeBlock


@dataclass
class Tally:
    """What a task, a thread, or all of them together counted.

    ``edges`` are tuples, with ``loops`` among them. ``negative_loop`` is weight and vertex of the
    lightest negative self-loop, of the smallest vertex among several, as rows hold no self-loops.
    """

    edges: int = 0
    loops: int = 0
    lightest: Any = None
    heaviest: Any = None
    negative_loop: tuple[Any, int] | None = None

    def add(self, block: EdgeBlock, loops: int) -> None:
        """Take in a block that has so many self-loops."""
        self.edges += len(block)
        self.loops += loops
        if block.weight is not None and len(block.weight):
            # Zero is added because of two equal zeros, -0.0 and 0.0, a minimum gives either.
            low, high = block.weight.min().item() + 0, block.weight.max().item() + 0
            self.lightest = low if self.lightest is None else min(self.lightest, low)
            self.heaviest = high if self.heaviest is None else max(self.heaviest, high)
            if low < 0:
                self._add_negative_loops(block)

    def _add_negative_loops(self, block: EdgeBlock) -> None:
        assert block.weight is not None
        indices = np.flatnonzero((block.source == block.target) & (block.weight < 0))
        if len(indices):
            index = indices[np.lexsort((block.source[indices], block.weight[indices]))[0]]
            found = block.weight[index].item(), int(block.source[index])
            self.negative_loop = min(self.negative_loop or found, found)

    @staticmethod
    def sum(parts: Iterable[Tally]) -> Tally:
        """All together."""
        parts = list(parts)
        return Tally(
            sum(part.edges for part in parts),
            sum(part.loops for part in parts),
            min((part.lightest for part in parts if part.lightest is not None), default=None),
            max((part.heaviest for part in parts if part.heaviest is not None), default=None),
            min((part.negative_loop for part in parts if part.negative_loop), default=None),
        )


def stored_weight_dtype(source: EdgeSource, total: Tally) -> np.dtype[Any] | None:
    """Type of a graph's weights: integers take 32 bits if all of them fit."""
    if not source.weighted or source.weight_dtype is None:
        return None
    if source.weight_dtype.kind == "f":
        return source.weight_dtype
    narrow = np.iinfo(np.int32)
    fit = narrow.min <= (total.lightest or 0) and (total.heaviest or 0) <= narrow.max
    return np.dtype(np.int32 if fit else np.int64)


Packings = Mapping[str, Packing]
"""By the name of a column, ``offsets``, ``neighbors`` or ``weights``; others stay as they are."""


def packings_of(rows: int, arcs: int, weight_dtype: np.dtype[Any] | None, total: Tally) -> Packings:
    """Fewest bits for what is known before rows are made: ``rows`` and the range of the weights.

    ``arcs`` are at least those of a side: the input's tuples in both directions, on any device.
    Weights are packed if they are integers and stored.
    """
    found = {
        "offsets": Packing.of_range(0, arcs, np.dtype(np.uint64)),
        "neighbors": Packing.of_range(0, max(0, rows - 1), id_dtype(rows)),
    }
    if weight_dtype is not None and weight_dtype.kind == "i" and total.lightest is not None:
        found["weights"] = Packing.of_range(total.lightest, total.heaviest, weight_dtype)
    return {name: packing for name, packing in found.items() if packing is not None}


def graph_attributes(
    total: Tally,
    *,
    directed: bool,
    weight_dtype: np.dtype[Any] | None,
    vertices: int,
    rows: int,
    first_id: int | None,
    arcs: dict[str, int],
    shards: int,
    orders: Sequence[str],
    compressed: bool = False,
) -> dict[str, Any]:
    """Attributes that `ooc_graph.shards.load.Graph` reads.

    ``rows`` have at least one arc; ``first_id`` is None if ids have gaps, ``weight_dtype`` if no
    weights are kept. ``arcs`` are those of each side, in one row order.
    """
    return {
        **({"compressed": True} if compressed else {}),
        **({} if weight_dtype is None else _negative_loop(total)),
        "directed": directed,
        "weighted": weight_dtype is not None,
        "weight_dtype": None if weight_dtype is None else weight_dtype.name,
        "lightest": None if weight_dtype is None else total.lightest,
        "vertices": vertices,
        "rows": rows,
        "first_id": first_id,
        "edges": total.edges,
        "self_loops": total.loops,
        "arcs": arcs,
        "shards": shards,
        "row_orders": list(orders),
    }


def _negative_loop(total: Tally) -> dict[str, Any]:
    """Said only if self-loops might be negative; None: none of them is."""
    if not total.loops or total.lightest is None or total.lightest >= 0:
        return {}
    loop = total.negative_loop
    return {"negative_loop": None if loop is None else {"weight": loop[0], "vertex": loop[1]}}


def store_attributes(total: Tally, description: dict[str, Any], **graph: Any) -> dict[str, Any]:
    """Attributes of a store: `graph_attributes`, and where the edges came from."""
    return {
        "format_version": FORMAT_VERSION,
        **graph_attributes(total, **graph),
        "renumbered": "internal ids are ranks by falling number of tuples, ties by original id",
        "source": description,
    }
