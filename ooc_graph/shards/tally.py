"""What a pass over the edges counts beside degrees: tuples, self-loops, the range of weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.types import EdgeBlock


@dataclass
class Tally:
    """What a task, a thread, or all of them together counted.

    Parameters
    ----------
    edges, loops
        Tuples, and self-loops among them.
    lightest, heaviest
        Range of the weights, or None where there are none.
    """

    edges: int = 0
    loops: int = 0
    lightest: Any = None
    heaviest: Any = None

    def add(self, block: EdgeBlock, loops: int) -> None:
        """Take in a block that has so many self-loops."""
        self.edges += len(block)
        self.loops += loops
        if block.weight is not None and len(block.weight):
            # Zero is added because of two equal zeros, -0.0 and 0.0, a minimum gives either.
            low, high = block.weight.min().item() + 0, block.weight.max().item() + 0
            self.lightest = low if self.lightest is None else min(self.lightest, low)
            self.heaviest = high if self.heaviest is None else max(self.heaviest, high)

    @staticmethod
    def sum(parts: Iterable[Tally]) -> Tally:
        """All together."""
        parts = list(parts)
        return Tally(
            sum(part.edges for part in parts),
            sum(part.loops for part in parts),
            min((part.lightest for part in parts if part.lightest is not None), default=None),
            max((part.heaviest for part in parts if part.heaviest is not None), default=None),
        )


def stored_weight_dtype(source: EdgeSource, total: Tally) -> np.dtype[Any] | None:
    """Type of a graph's weights: integers take 32 bits where all of them fit."""
    if not source.weighted or source.weight_dtype is None:
        return None
    if source.weight_dtype.kind == "f":
        return source.weight_dtype
    narrow = np.iinfo(np.int32)
    fit = narrow.min <= (total.lightest or 0) and (total.heaviest or 0) <= narrow.max
    return np.dtype(np.int32 if fit else np.int64)
