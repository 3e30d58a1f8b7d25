"""What a search from one source, or from several at once, has found, as networkx gives it."""

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
    """Distances from the nearest of some sources, and the parents they come by: positions.

    Sources are their own parents. ``distances`` (nodes,) are below 0, infinite or the largest int64
    where ``reached`` is False.
    """

    graph: NodeGraph
    sources: IntArray
    distances: AnyArray
    reached: AnyArray
    parents: Callable[[], IntArray]

    @property
    def source(self) -> int:
        """The source, if there is one."""
        (only,) = self.sources.tolist()
        return only  # type: ignore[no-any-return]

    def length(self, target: int) -> Any:
        """Distance of one node; None if it is not reached."""
        return self.distances[target].item() if self.reached[target] else None

    def path(self, target: int) -> list[Any] | None:
        """Nodes from a source to one; None if it is not reached."""
        if not self.reached[target]:
            return None
        parents, path = self.parents(), [target]
        while (above := int(parents[path[-1]])) != path[-1]:
            path.append(above)
        nodes: list[Any] = self.graph.nodes[path[::-1]].tolist()
        return nodes

    def lengths(self, cutoff: float | None = None) -> dict[Any, Any]:
        """Distance of each node that is no farther than a cutoff, ascending, sources first."""
        order = self._order(cutoff)
        pairs = zip(self.graph.nodes[order].tolist(), self.distances[order].tolist(), strict=True)
        return dict(pairs)

    def paths(self, cutoff: float | None = None, *, backward: bool = False) -> dict[Any, list[Any]]:
        """Path to each node that is no farther than a cutoff; ``backward``, from there."""
        order = self._order(cutoff)
        above = self._indices_above(order)
        nodes = self.graph.nodes[order]
        roots = len(self.sources)
        if (above[roots:] < np.arange(roots, len(order))).all():
            return dict(zip(nodes.tolist(), _paths(nodes, above, roots, backward), strict=True))
        # A parent comes later if the edge from it weighs 0 or less.
        down = order[np.argsort(_depths(above), kind="stable")]
        paths = _paths(self.graph.nodes[down], self._indices_above(down), roots, backward)
        found = dict(zip(self.graph.nodes[down].tolist(), paths, strict=True))
        return {node: found[node] for node in nodes.tolist()}

    def predecessors(self) -> dict[Any, Any]:
        """Node before each other node that is reached."""
        order = self._order(None)[len(self.sources) :]
        nodes, before = self.graph.nodes[order], self.graph.nodes[self.parents()[order]]
        return dict(zip(nodes.tolist(), before.tolist(), strict=True))

    def origins(self) -> IntArray:
        """For each node the index of the source that its path begins at; -1 if none: (nodes,)."""
        order = self._order(None)
        above = self._indices_above(order)
        while (above >= len(self.sources)).any():
            above = above[above]
        found = np.full(len(self.graph), -1)
        found[order] = above
        return found

    def _indices_above(self, order: IntArray) -> IntArray:
        """Where parents stand in an order."""
        index = np.zeros(len(self.graph), np.int64)
        index[order] = np.arange(len(order))
        return index[self.parents()[order]]

    def _order(self, cutoff: float | None) -> IntArray:
        order = self._ascending
        if cutoff is None:
            return order
        roots = len(self.sources)
        near = np.searchsorted(self.distances[order[roots:]], cutoff, side="right")
        return order[: roots + near]

    @cached_property
    def _ascending(self) -> IntArray:
        """Positions of what is reached by distance, sources first."""
        others = self.reached.copy()
        others[self.sources] = False
        order = np.flatnonzero(others)
        keys = self.distances[order]
        if len(keys) and keys.dtype.kind == "i" and -1 < keys.min() <= keys.max() < 1 << 16:
            # Such are sorted digit by digit.
            keys = keys.astype(np.uint16)
        return np.concatenate([self.sources, order[np.argsort(keys, kind="stable")]])


def _paths(nodes: AnyArray, above: IntArray, roots: int, backward: bool) -> list[list[Any]]:
    """Paths to nodes, from what stands ``above`` each: earlier; so many roots are the first."""
    listed = nodes.tolist()
    paths = [[root] for root in listed[:roots]]
    pairs = zip(listed[roots:], above[roots:].tolist(), strict=True)
    # As fast as loops in C: what takes time is to read lists that lie apart in memory.
    if backward:
        for node, before in pairs:
            paths.append([node] + paths[before])
    else:
        for node, before in pairs:
            paths.append(paths[before] + [node])
    return paths


def _depths(above: IntArray) -> IntArray:
    """Number of steps to what stands above itself, by ever longer ones."""
    steps: IntArray = (above != np.arange(len(above))).astype(np.int64)
    while steps[above].any():
        steps, above = steps + steps[above], above[above]
    return steps
