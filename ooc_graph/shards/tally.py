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
        Range of the weights, or None if there are none.
    negative_loop
        Weight and vertex of the lightest self-loop of negative weight, of the smallest vertex
        among several; None if there is none. Rows hold no self-loops, and shortest paths need
        to know.
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
        places = np.flatnonzero((block.source == block.target) & (block.weight < 0))
        if len(places):
            place = places[np.lexsort((block.source[places], block.weight[places]))[0]]
            found = block.weight[place].item(), int(block.source[place])
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
