"""What a graph says of itself, in a store and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.layout.names import FORMAT_VERSION
from ooc_graph.shards.tally import Tally


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

    ``rows`` are the vertices with at least one arc; ``first_id`` is None if ids have gaps,
    ``weight_dtype`` if no weights are kept. ``arcs`` are those of each side, in one row order.
    Whether columns are packed is recorded only if they are.
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
