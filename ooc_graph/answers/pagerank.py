"""PageRank by original id."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.answers.result import Result
from ooc_graph.layout.names import PAGERANK, VERTEX
from ooc_graph.types import AnyArray


@dataclass(frozen=True, repr=False, eq=False)
class PagerankResult(Result):
    """PageRank; `elapsed_s` is the time until it is known by internal id."""

    kernel = PAGERANK
    measure = PAGERANK
    frame_names = {"vertex": VERTEX, "pagerank": PAGERANK}  # noqa: RUF012

    @property
    def pagerank(self) -> AnyArray:
        """Score of each vertex; all of them sum to 1: float64 (vertices,)."""
        return self.read(PAGERANK)
