"""Outcomes for answers: the rules that they may break, and what is said of each kind of fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ooc_graph.errors import ValidationFailedError

RULE_ROOT = "root"
RULE_PARENT = "parent is a vertex"
RULE_REACHED = "reached or not"
RULE_TREE_LEVEL = "level of parent"
RULE_TREE_DISTANCE = "distance of parent"
RULE_CYCLE = "no cycle"
RULE_KNOWN = "known vertices"
RULE_LEAVES = "no unreached neighbour"
RULE_LEVEL = "levels of an edge"
RULE_DISTANCE = "distances of an edge"
RULE_TREE_EDGE = "tree edge in the input"


@dataclass(frozen=True)
class Verdict:
    """What the rules say about one answer.

    ``rule`` is the first broken rule in the order of this module, and ``message`` says which vertex
    or edge breaks it, the smallest that does; both are empty if it is ``ok``. ``reached`` counts
    vertices, the root included, and ``edges`` input tuples between them: duplicates counted,
    self-loops not. That is Graph500's ``nedge``, the numerator of TEPS. Both are 0 if a rule that
    needs no edges is broken.
    """

    root: int
    ok: bool
    rule: str = ""
    message: str = ""
    reached: int = 0
    edges: int = 0

    @property
    def found(self) -> str:
        """What an answer that holds is said to have."""
        return f"{self.reached:,} vertices reached, {self.edges:,} edges between them"

    def raise_if_failed(self) -> None:
        """Raise `ValidationFailedError` naming root, rule and culprit unless the answer holds."""
        if not self.ok:
            raise ValidationFailedError(
                f"answer of root {self.root} breaks rule '{self.rule}': {self.message}"
            )


Problem = tuple[str, str]
"""Name of a rule, and which vertex or edge breaks it."""


@dataclass(frozen=True)
class Wording:
    """Words of one kernel: what every vertex has (a level or a distance), rules of edges.

    ``step_rule`` and ``step_at`` are of tree edges, the latter stands between a parent and its
    measure; ``span_rule`` is of all edges. ``fitting`` says what an edge must have to be a tree
    edge, with ``{parent}`` and ``{child}``.
    """

    measure: str
    step_rule: str
    span_rule: str
    step_at: str
    fitting: str = ""

    def measured(self, value: Any) -> str:
        """A level or a distance."""
        return f"{self.measure} {value}"

    def no_root(self, root: int) -> Problem:
        """The root is no vertex."""
        return RULE_ROOT, f"the answer has no vertex {root}"

    def root_parent(self, parent: int) -> Problem:
        """The root has another parent."""
        return RULE_ROOT, f"the root's parent is {parent}, not the root itself"

    def root_value(self, value: Any) -> Problem:
        """The root has a level or distance."""
        return RULE_ROOT, f"the root has {self.measured(value)}, not 0"

    def no_parent(self, vertex: int, parent: int) -> Problem:
        """A parent is no vertex."""
        return RULE_PARENT, f"{_of(vertex, parent)}, which is no vertex"

    def half_reached(self, vertex: int, parent: int, value: Any) -> Problem:
        """Parent and measure do not agree on whether the vertex is reached."""
        return RULE_REACHED, f"{_of(vertex, parent)} and {self.measured(value)}"

    def bad_step(self, vertex: int, parent: int, above: Any, below: Any) -> Problem:
        """A vertex's measure does not fit its parent's."""
        ends = f"{self.measured(above)} and {self.measured(below)}"
        return self.step_rule, f"{_of(vertex, parent)} {self.step_at} {ends}"

    def cycle(self, vertex: int) -> Problem:
        """Parents do not lead to the root."""
        return RULE_CYCLE, f"from vertex {vertex} the parents lead into a cycle"

    def unknown_vertex(self, vertex: int) -> Problem:
        """An edge has an end that is no vertex."""
        return RULE_KNOWN, f"an edge names vertex {vertex}, the answer does not"

    def leaves(self, u: int, v: int) -> Problem:
        """An edge leaves what is reached."""
        return RULE_LEAVES, f"edge ({u}, {v}) joins reached {u} and unreached {v}"

    def spans(self, u: int, v: int, near: Any, far: Any) -> Problem:
        """The ends of an edge are too far apart."""
        ends = f"{u} with {self.measured(near)} and {v} with {self.measured(far)}"
        return self.span_rule, f"edge ({u}, {v}) joins {ends}"

    def no_tree_edge(self, parent: int, child: int) -> Problem:
        """A tree edge is not in the input."""
        fitting = self.fitting.format(parent=parent, child=child)
        return RULE_TREE_EDGE, f"{_of(child, parent)}, but no edge joins them{fitting}"


def _of(vertex: int, parent: int) -> str:
    return f"vertex {vertex} has parent {parent}"


BFS = Wording("level", RULE_TREE_LEVEL, RULE_LEVEL, "of")
SSSP = Wording(
    "distance",
    RULE_TREE_DISTANCE,
    RULE_DISTANCE,
    "at",
    " whose weight gives fl(distance of {parent} + weight) == distance of {child}",
)
