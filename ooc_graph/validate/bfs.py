"""Graph500's rules for breadth-first search.

Specification 3.0, section on validation, and the v3 reference code: the tree has no cycles; each
tree edge joins levels that differ by one; every edge joins levels that differ by at most one, or
two unreached vertices; the tree spans the root's component; every tree edge is an input edge.
For arcs of a directed graph: none leaves the reached vertices, none goes down by more than one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.types import AnyArray, EdgeBlock
from ooc_graph.validate import wording
from ooc_graph.validate.answers import BfsAnswer
from ooc_graph.validate.batch import BYTE_UNREACHED
from ooc_graph.validate.validator import Validator

_UNREACHED = np.uint32(np.iinfo(np.uint32).max)  # -1 in a column of int32


class BfsValidator(Validator[BfsAnswer]):
    """Checks breadth-first trees in one pass over the edges; see `Validator`."""

    _wording = wording.BFS
    _is_level = True

    def _measured(self, answer: BfsAnswer) -> tuple[AnyArray, Any]:
        return answer.level, np.int32(-1)

    def _column(self, answer: BfsAnswer) -> tuple[AnyArray, Any]:
        return answer.level.view(np.uint32), _UNREACHED

    def _least(self, answer: BfsAnswer) -> Any:
        in_bytes = answer.level.max(initial=0) < BYTE_UNREACHED - 1
        return BYTE_UNREACHED if in_bytes else _UNREACHED

    def _weight(self, edges: EdgeBlock) -> None:
        del edges  # levels count arcs, whatever they weigh
