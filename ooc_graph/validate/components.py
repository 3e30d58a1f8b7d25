"""Rules for weakly connected components, from the edges and the answer alone.

Every label is a vertex, labels itself and is the smallest with that label; both ends of every edge
have one label; and no label is shared by vertices that no edges join. The last is checked by a
union-find over the edges, which shares nothing with the search: together the rules leave one
answer that is right.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from ooc_graph.errors import UsageError, ValidationFailedError
from ooc_graph.types import EdgeBlock, IntArray
from ooc_graph.validate import component_loops
from ooc_graph.validate.answers import VertexIndex
from ooc_graph.validate.tally import NO_ID, NONE, first_unknown
from ooc_graph.validate.wording import RULE_KNOWN, Verdict

RULE_LABEL = "label is a vertex"
RULE_OWN_LABEL = "label of a label"
RULE_SMALLEST = "smallest label"
RULE_ENDS = "labels of an edge"
RULE_JOINED = "no components merged"


@dataclass(frozen=True)
class ComponentsAnswer:
    """Components by vertex: int64 (V,), the smallest original id of each vertex's component."""

    component: IntArray
    vertices: VertexIndex

    def __post_init__(self) -> None:
        if self.component.shape != (self.vertices.count,) or self.component.dtype != np.int64:
            raise UsageError(
                f"components are int64, one for each of {self.vertices.count} vertices; got "
                f"{self.component.dtype} of shape {self.component.shape}"
            )


@dataclass(frozen=True)
class ComponentsVerdict(Verdict):
    """What the rules say about components, which have no root: it is -1.

    ``reached`` counts all vertices, ``edges`` the tuples that are no self-loops, and ``components``
    what the edges make of the vertices; 0 if a rule that needs no edges is broken.
    """

    components: int = 0

    def raise_if_failed(self) -> None:
        """Raise `ValidationFailedError` naming rule and culprit unless the answer holds."""
        if not self.ok:
            raise ValidationFailedError(f"the components break rule '{self.rule}': {self.message}")


class ComponentsValidator:
    """Checks components in one pass over the edges.

    Memory: `components_bytes`; nothing that grows with the edges.
    """

    def __init__(self, answer: ComponentsAnswer) -> None:
        self.answer, self.vertices = answer, answer.vertices
        self._label = self.vertices.positions(answer.component)
        self._before = self._label_problem()
        self._clear()

    def _clear(self) -> None:
        """Forget all edges."""
        self._above = np.arange(self.vertices.count, dtype=self.vertices.position_dtype)
        self._broken = np.full(2, NONE, np.int64)
        self._unknown, self._tuples = NO_ID, 0

    def _label_problem(self) -> tuple[str, str] | None:
        """Rule and message of the first rule that needs no edges and is broken."""
        component, label = self.answer.component, self._label
        if (strange := _first(label < 0)) is not None:
            return RULE_LABEL, self._of(strange) + ", which is no vertex"
        if (other := _first(label[label] != label)) is not None:
            owner = int(label[other])
            return RULE_OWN_LABEL, (
                f"{self._of(other)}, and vertex {component[other]} itself has {component[owner]}"
            )
        if (larger := _first(label > np.arange(len(label), dtype=label.dtype))) is not None:
            return RULE_SMALLEST, self._of(larger) + ", which is larger"
        return None

    def _of(self, position: int) -> str:
        vertex = self.vertices.id_of(position)
        return f"vertex {vertex} has component {self.answer.component[position]}"

    def fork(self) -> ComponentsValidator:
        """Return a validator of the same answer that has seen no edges, for another thread."""
        twin = copy(self)
        twin._clear()
        return twin

    def block(self, edges: EdgeBlock) -> None:
        """Check one block of tuples; every tuple of the input must be given exactly once."""
        source = self.vertices.positions(edges.source)
        target = self.vertices.positions(edges.target)
        for ids, positions in ((edges.source, source), (edges.target, target)):
            self._unknown = min(self._unknown, first_unknown(ids, positions))
        component_loops.unite(self._above, source, target)
        self._tuples += component_loops.first_parted(self._label, source, target, self._broken)

    def merge(self, other: ComponentsValidator) -> None:
        """Take in what another validator of the same answer saw."""
        everyone = np.arange(self.vertices.count, dtype=self._above.dtype)
        component_loops.unite(self._above, everyone, other._above)
        self._unknown = min(self._unknown, other._unknown)
        self._tuples += other._tuples
        if tuple(other._broken) < tuple(self._broken):
            self._broken = other._broken

    def finish(self) -> list[ComponentsVerdict]:
        """Outcome, after all edges have been seen."""
        if self._before is not None:
            return [ComponentsVerdict(-1, False, *self._before)]
        rule, message = self._edge_problem() or ("", "")
        everyone = np.arange(self.vertices.count, dtype=self._above.dtype)
        roots = np.count_nonzero(self._above == everyone)
        return [
            ComponentsVerdict(
                -1, not rule, rule, message, self.vertices.count, self._tuples, int(roots)
            )
        ]

    def _edge_problem(self) -> tuple[str, str] | None:
        if self._unknown != NO_ID:
            return RULE_KNOWN, f"an edge names vertex {self._unknown}, the answer does not"
        if self._broken[0] != NONE:
            u, v = (int(end) for end in self._broken)
            names = self.vertices.id_of(u), self.vertices.id_of(v)
            return RULE_ENDS, f"edge {names}: {self._of(u)}, and {self._of(v)}"
        if (apart := component_loops.first_not_joined(self._above, self._label)) >= 0:
            return RULE_JOINED, self._of(apart) + ", and no edges join the two"
        return None


def components_bytes(vertices: VertexIndex, forks: int) -> int:
    """Memory of a validation without the answer: 4 bytes a position (8 from 2**31 vertices on).

    Its labels, the forests of the first validator and of each fork, and what these are compared
    with.
    """
    return vertices.count * ((forks + 3) * vertices.position_dtype.itemsize + 1)


def _first(broken: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int | None:
    """Place of the first True."""
    position = int(np.argmax(broken)) if len(broken) else 0
    return position if len(broken) and broken[position] else None
