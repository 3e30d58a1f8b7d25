"""Graph500's search keys."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import UsageError
from ooc_graph.shards.load import Graph
from ooc_graph.types import IntArray

_SURELY_ENOUGH_SCALE, _SURELY_ENOUGH_KEYS = 12, 64
_MOST_COUNTED_SCALE = 20


def refuse_few_keys(source: Kronecker, searches: int) -> None:
    """Refuse a graph too small to have so many vertices with an arc.

    Graph500's draw of search keys gives up on such graphs and takes isolated vertices, from
    which there is nothing to time. From scale 12 on there are always enough for 64.
    """
    if source.scale >= _SURELY_ENOUGH_SCALE and searches <= _SURELY_ENOUGH_KEYS:
        return
    if source.scale > _MOST_COUNTED_SCALE:
        return
    # Weights do not matter.
    usable = _usable_keys(replace(source, weighted=False))
    if usable < searches:
        raise UsageError(
            f"scale {source.scale} has {usable} vertices with an arc, which is fewer than "
            f"{searches} searches; give a smaller --searches or a larger --scale"
        )


@lru_cache(maxsize=1)
def _usable_keys(source: Kronecker) -> int:
    """Vertices with an arc; asked for twice, by the command before it starts a cluster."""
    u, v, _ = source.block(0, source.edges)
    return len(np.unique(np.concatenate([u[u != v], v[u != v]])))


def search_keys(graph: Graph, source: Kronecker, count: int) -> IntArray:
    """Graph500's search keys: drawn at random, vertices without an arc left out."""
    internal_of = graph.internal_of()
    return source.search_keys(count, degree=lambda ids: internal_of[ids] >= 0)
