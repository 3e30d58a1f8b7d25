"""What a device offers to `traverse.components`; no implementation here, and no numba."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ooc_graph.kernels.common.decisions import Answer
from ooc_graph.types import AnyArray

OUT, IN = 0, 1
"""Sides of a rank's rows: out-arcs, in-arcs."""

SAMPLED = 2
"""First neighbours of each row that are linked before the most common component is looked for."""

EVERY_ROW = -1
"""In place of the vertex whose component is left out: no row is left out."""


@dataclass(frozen=True)
class ComponentLabels(Answer):
    """Weakly connected components on the rows of one rank, in host memory.

    ``label``, uint32 or uint64 (rows,): smallest internal id of the row's component. ``elapsed_s``
    is as of `BfsTree`. ``phase_arcs``: arcs examined in ``sample`` (the first neighbours of all
    rows) and ``rest`` (those of rows outside the most common component).
    """

    label: AnyArray
    elapsed_s: float
    phase_arcs: dict[str, int]


class ComponentsShared(Protocol):
    """Everyone's labels, one of it in a process; `merge` alone changes it.

    A payload of two arrays unites components: labels, and smaller labels they are joined to.
    """

    def merge(self, payloads: Sequence[tuple[AnyArray, ...]]) -> None:
        """Take every rank's pairs."""

    def most_common(self) -> int:
        """Vertex of the component that most of an even sample of the vertices is in."""


class ComponentsRank(Protocol):
    """Steps on the rows of one shard."""

    vertices: int
    arcs: int
    directed: bool

    def begin(self, side: int, first: int, last: int | None, common: int) -> None:
        """Begin a pass over the neighbours ``first:last`` of each row of a side.

        Rows in the component of vertex ``common`` are left out (`EVERY_ROW`: none).
        """

    def step(self, shared: ComponentsShared) -> tuple[tuple[AnyArray, AnyArray], int, bool]:
        """Go on with the pass: pairs of labels that arcs join; arcs examined; whether it ended.

        Never more pairs than a quarter of the rows (or a few thousand): little is in flight.
        """

    def answer(self, shared: ComponentsShared, phase_arcs: dict[str, int]) -> ComponentLabels:
        """Answer for the own rows."""
