"""Which rows of a shard a search goes along, on any device."""

from __future__ import annotations

from ooc_graph.errors import UsageError
from ooc_graph.types import Dealing, Rows, Shard


def require_whole(dealing: Dealing) -> None:
    """Refuse a part of a graph where a search wants all of it.

    Raises
    ------
    UsageError
        It is one shard of many.
    """
    if dealing.shards != 1:
        raise UsageError(
            f"a search on one rank needs the whole graph, got shard {dealing.shard} "
            f"of {dealing.shards}"
        )


def hub_rows(shard: Shard) -> tuple[Rows, Rows]:
    """Hub-first rows of out- and in-arcs; one and the same object when undirected.

    Raises
    ------
    UsageError
        They are not loaded.
    """
    into = shard.into_hub if shard.directed else shard.out_hub
    if shard.out_hub is None or into is None:
        raise UsageError("BFS needs hub-first rows, and none are loaded")
    return shard.out_hub, into


def light_rows(shard: Shard) -> tuple[Rows, Rows]:
    """Light-first rows of out- and in-arcs; one and the same object when undirected.

    Raises
    ------
    UsageError
        They are not loaded.
    """
    into = shard.into_light if shard.directed else shard.out_light
    if shard.out_light is None or into is None:
        raise UsageError("SSSP needs light-first rows with weights, and none are loaded")
    return shard.out_light, into
