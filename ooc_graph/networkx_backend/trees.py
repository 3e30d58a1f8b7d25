"""What a search from one source, or from several at once, has found, as networkx gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.networkx_backend.node_graph import NodeGraph
from ooc_graph.types import AnyArray, IntArray

SHORT = 16
"""Nodes of paths that are made many at a time, as rows of an array; lists of more copy faster."""


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
        if target in self.sources:
            return 0
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
        order, roots = self._order(cutoff), len(self.sources)
        # networkx has sources at the integer 0, whatever weights are.
        distances = [0] * roots + self.distances[order[roots:]].tolist()
        return dict(zip(self.graph.nodes[order].tolist(), distances, strict=True))

    def paths(self, cutoff: float | None = None, *, backward: bool = False) -> dict[Any, list[Any]]:
        """Path to each node that is no farther than a cutoff; ``backward``, from there."""
        order = self._order(cutoff)
        depths = _depths(self._indices_above(order))
        # Not always that of the distances: edges may weigh 0 or less.
        down = np.argsort(depths, kind="stable")
        nodes = self.graph.nodes[order].astype(object, copy=False)
        above = self._indices_above(order[down])
        paths = _paths(nodes[down], above, np.bincount(depths).tolist(), backward)
        if (np.diff(down) < 0).any():
            found = np.empty(len(paths), object)
            found[down] = np.fromiter(paths, object, len(paths))
            paths = found.tolist()
        return dict(zip(nodes.tolist(), paths, strict=True))

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


def _paths(nodes: AnyArray, above: IntArray, sizes: list[int], backward: bool) -> list[list[Any]]:
    """Paths to nodes, which stand by depth.

    ``sizes`` has the number of nodes at each depth, ``above`` the position of each one's parent.
    """
    rows = nodes[: sizes[0], None]
    paths: list[list[Any]] = rows.tolist()
    begin, end = 0, sizes[0]
    for size in sizes[1:SHORT]:
        part = slice(end, end + size)
        columns = rows[above[part] - begin], nodes[part, None]
        rows = np.concatenate(columns[::-1] if backward else columns, axis=1)
        paths += rows.tolist()
        begin, end = end, end + size
    pairs = zip(nodes[end:].tolist(), above[end:].tolist(), strict=True)
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
