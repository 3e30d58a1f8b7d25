"""In how many bits the columns of rows are stored if that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ooc_graph.layout.names import id_dtype
from ooc_graph.layout.packing import Packing
from ooc_graph.shards.tally import Tally

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
