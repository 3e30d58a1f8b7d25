"""Passes over all arcs that a compiled loop looks at."""

from __future__ import annotations

from collections.abc import Callable

from ooc_graph.types import EdgeBlock
from ooc_graph.validate.answers import VertexIndex
from ooc_graph.validate.tally import NO_ID, first_unknown
from ooc_graph.validate.wording import Verdict


class ArcPass:
    """A pass over all arcs, in which threads show a compiled loop each tuple once.

    The first one also counts the tuples and looks for an unknown vertex, as no later one needs to.
    """

    def __init__(
        self, vertices: VertexIndex, look: Callable[..., None], *, is_first: bool = False
    ) -> None:
        self._vertices, self._look, self._is_first = vertices, look, is_first
        self.tuples, self.unknown = 0, NO_ID

    def fork(self) -> ArcPass:
        """Return one for another thread."""
        return ArcPass(self._vertices, self._look, is_first=self._is_first)

    def block(self, edges: EdgeBlock) -> None:
        """Show one block of tuples."""
        source = self._vertices.positions(edges.source)
        target = self._vertices.positions(edges.target)
        if self._is_first:
            self.tuples += len(edges)
            for ids, positions in ((edges.source, source), (edges.target, target)):
                self.unknown = min(self.unknown, first_unknown(ids, positions))
        self._look(source, target, edges.weight)

    def merge(self, other: ArcPass) -> None:
        """Take in what a fork saw."""
        self.tuples += other.tuples
        self.unknown = min(self.unknown, other.unknown)

    def finish(self) -> list[Verdict]:
        """Say nothing: what was seen is in arrays that all share."""
        return []
