"""From the smallest internal id of a component to its smallest original id."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.compiled import kernel


@kernel
def first_positions(internal_of: Any, label: Any, first: Any) -> None:
    """Write where each component's smallest original id stands, at the component's label.

    ``internal_of`` has the row of each vertex by ascending original id, -1 for none; ``label`` the
    component of each row, named by one of its rows. ``first`` (rows,), -1 at entry, receives the
    first position that has the component, at the rows that name one.
    """
    for position in range(len(internal_of)):
        row = np.int64(internal_of[position])
        if row >= 0 and first[np.int64(label[row])] < 0:
            first[np.int64(label[row])] = position
