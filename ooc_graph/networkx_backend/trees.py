"""What a search from one source has found, as networkx gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.types import AnyArray, IntArray


@dataclass(frozen=True)
class Tree:
    """Distances from a source, and the parents they come by: positions.

    ``distances`` (nodes,) are below 0, infinite or the largest int64 where ``reached`` is False.
    """

    graph: NodeGraph
    source: int
    distances: AnyArray
    reached: AnyArray
    parents: Callable[[], IntArray]

    def length(self, target: int) -> Any:
        """Distance of one node; None if it is not reached."""
        return self.distances[target].item() if self.reached[target] else None

    def path(self, target: int) -> list[Any] | None:
        """Nodes from the source to one; None if it is not reached."""
        if not self.reached[target]:
            return None
        parents, path = self.parents(), [target]
        while path[-1] != self.source:
            path.append(int(parents[path[-1]]))
        nodes: list[Any] = self.graph.nodes[path[::-1]].tolist()
        return nodes

    def lengths(self, cutoff: float | None = None) -> dict[Any, Any]:
        """Distance of each node that is no farther than a cutoff, ascending, the source first."""
        order = self._order(cutoff)
        pairs = zip(self.graph.nodes[order].tolist(), self.distances[order].tolist(), strict=True)
        return dict(pairs)

    def paths(self, cutoff: float | None = None, *, backward: bool = False) -> dict[Any, list[Any]]:
        """Path to each node that is no farther than a cutoff; ``backward``, from there."""
        order = self._order(cutoff)
        above = self._indices_above(order)
        nodes = self.graph.nodes[order]
        if (above[1:] < np.arange(1, len(order))).all():
            return dict(zip(nodes.tolist(), _paths(nodes, above, backward), strict=True))
        # A parent comes later if the edge from it weighs 0 or less.
        down = order[np.argsort(_depths(above), kind="stable")]
        paths = _paths(self.graph.nodes[down], self._indices_above(down), backward)
        found = dict(zip(self.graph.nodes[down].tolist(), paths, strict=True))
        return {node: found[node] for node in nodes.tolist()}

    def predecessors(self) -> dict[Any, Any]:
        """Node before each other node that is reached."""
        order = self._order(None)[1:]
        nodes, before = self.graph.nodes[order], self.graph.nodes[self.parents()[order]]
        return dict(zip(nodes.tolist(), before.tolist(), strict=True))

    def _indices_above(self, order: IntArray) -> IntArray:
        """Where parents stand in an order; 0 for the source, which is the first."""
        index = np.zeros(len(self.graph), np.int64)
        index[order] = np.arange(len(order))
        above = index[self.parents()[order]]
        above[0] = 0
        return above

    def _order(self, cutoff: float | None) -> IntArray:
        order = self._ascending
        if cutoff is None:
            return order
        return order[: 1 + np.searchsorted(self.distances[order[1:]], cutoff, side="right")]

    @cached_property
    def _ascending(self) -> IntArray:
        """Positions of what is reached by distance, the source first."""
        order = np.flatnonzero(self.reached)
        order = order[order != self.source]
        keys = self.distances[order]
        if len(keys) and keys.dtype.kind == "i" and -1 < keys.min() <= keys.max() < 1 << 16:
            # Such are sorted digit by digit.
            keys = keys.astype(np.uint16)
        return np.concatenate([[self.source], order[np.argsort(keys, kind="stable")]])


def _paths(nodes: AnyArray, above: IntArray, backward: bool) -> list[list[Any]]:
    """Paths to nodes, from what stands ``above`` each: earlier, the first node above all."""
    listed = nodes.tolist()
    paths = [listed[:1]]
    # As fast as loops in C: what takes time is to read lists that lie apart in memory.
    if backward:
        for node, before in zip(listed[1:], above[1:].tolist(), strict=True):
            paths.append([node] + paths[before])
    else:
        for node, before in zip(listed[1:], above[1:].tolist(), strict=True):
            paths.append(paths[before] + [node])
    return paths


def _depths(above: IntArray) -> IntArray:
    """Number of steps to the first place, by ever longer ones."""
    steps = np.ones(len(above), np.int64)
    steps[0] = 0
    while above.any():
        steps, above = steps + steps[above], above[above]
    return steps
