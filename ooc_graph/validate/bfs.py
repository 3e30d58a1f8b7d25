"""Graph500's rules for breadth-first search.

Specification 3.0, section on validation, and the v3 reference code: the tree has no cycles; each
tree edge joins levels that differ by one; every edge joins levels that differ by at most one, or
two unreached vertices; the tree spans the root's component; every tree edge is an input edge.
For arcs of a directed graph: none leaves the reached vertices, none goes down by more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.types import AnyArray, EdgeBlock, IntArray
from ooc_graph.validate import edge_loops, loops, wording
from ooc_graph.validate.answers import BfsAnswer
from ooc_graph.validate.batch import Batch, Tally, side_by_side
from ooc_graph.validate.validator import Placed, Validator


class BfsValidator(Validator[BfsAnswer]):
    """Checks breadth-first trees in one pass over the edges; see `Validator`."""

    _wording = wording.BFS

    def _value(self, answer: BfsAnswer) -> AnyArray:
        return answer.level

    def _tree_rules(
        self, answer: BfsAnswer, position: AnyArray, root: int, broken: IntArray
    ) -> None:
        loops.bfs_tree_rules(answer.parent, position, answer.level, root, broken)

    def _column(self, answer: BfsAnswer, ok: bool) -> AnyArray:
        if not ok:
            return np.full(self.vertices.count, -1, dtype=np.int8)
        narrow = answer.level.max(initial=0) < np.iinfo(np.int8).max - 1
        return answer.level.astype(np.int8 if narrow else np.int32)

    def _lay_out(self, columns: Sequence[AnyArray]) -> AnyArray:
        value = side_by_side(columns, multiple=8)
        value[value < 0] = np.iinfo(value.dtype).max - 1
        return value.view(np.uint8 if value.itemsize == 1 else np.uint32)

    def _weight(self, edges: EdgeBlock) -> None:
        del edges  # levels count arcs, whatever they weigh

    def _pass(self, batch: Batch, tally: Tally, edges: Placed) -> None:
        lane = batch.value.dtype
        sign = np.iinfo(lane).max // 2 + 1
        tuples = edges.source, edges.target, self.directed
        edge_loops.bfs_spans(
            *tuples,
            batch.value,
            batch.value.view(np.uint64),
            _in_every_lane(sign - 2, lane),
            _in_every_lane(sign, lane),
            batch.reached,
            tally.broken,
        )
        edge_loops.bfs_tree(*tuples, batch.offsets, batch.parents, tally.pending)


def _in_every_lane(value: int, lane: np.dtype[Any]) -> np.uint64:
    return np.uint64(np.full(8 // lane.itemsize, value, dtype=lane).view(np.uint64)[0])
