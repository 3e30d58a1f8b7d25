"""The outcome for one answer, and the names of the rules that it may break."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.errors import ValidationFailedError

RULE_ROOT = "root"
RULE_PARENT = "parent is a vertex"
RULE_REACHED = "reached or not"
RULE_TREE_LEVEL = "level of parent"
RULE_TREE_DISTANCE = "distance of parent"
RULE_CYCLE = "no cycle"
RULE_KNOWN = "known vertices"
RULE_CLOSED = "no unreached neighbour"
RULE_LEVEL = "levels of an edge"
RULE_DISTANCE = "distances of an edge"
RULE_TREE_EDGE = "tree edge in the input"


@dataclass(frozen=True)
class Verdict:
    """What the rules say about one answer.

    Parameters
    ----------
    root
        Original id of the answer's root.
    ok
        Whether every rule holds.
    rule
        Name of the first broken rule in the order of this module, empty if all hold.
    message
        Which vertex or edge breaks it, the smallest that does; empty if all hold.
    reached
        Vertices that the answer reaches, the root included; 0 if a rule that needs no edges
        is broken.
    edges
        Input tuples between reached vertices: duplicates counted, self-loops not. Graph500's
        ``nedge``, the numerator of TEPS. 0 if a rule that needs no edges is broken.
    """

    root: int
    ok: bool
    rule: str = ""
    message: str = ""
    reached: int = 0
    edges: int = 0

    def raise_if_failed(self) -> None:
        """Raise `ValidationFailedError` naming root, rule and culprit unless the answer holds."""
        if not self.ok:
            raise ValidationFailedError(
                f"answer of root {self.root} breaks rule '{self.rule}': {self.message}"
            )
