"""Which rows of a shard a search goes along, on any device."""

from __future__ import annotations

from ooc_graph.errors import UsageError
from ooc_graph.types import Dealing, Rows, Shard


def require_whole(dealing: Dealing) -> None:
    """Refuse one shard of many, by UsageError, where a search wants all of the graph."""
    if dealing.shards != 1:
        raise UsageError(
            f"a search on one rank needs the whole graph, got shard {dealing.shard} "
            f"of {dealing.shards}"
        )


def hub_rows(shard: Shard) -> tuple[Rows, Rows]:
    """Hub-first rows of out- and in-arcs; one and the same object when undirected."""
    return _both(shard, shard.out_hub, shard.into_hub, "BFS needs hub-first rows")


def light_rows(shard: Shard) -> tuple[Rows, Rows]:
    """Light-first rows of out- and in-arcs; one and the same object when undirected."""
    needs = "SSSP needs light-first rows with weights"
    return _both(shard, shard.out_light, shard.into_light, needs)


def _both(shard: Shard, out: Rows | None, into: Rows | None, needs: str) -> tuple[Rows, Rows]:
    """Both sides of a shard, or UsageError if they are not loaded."""
    into = into if shard.directed else out
    if out is None or into is None:
        raise UsageError(f"{needs}, and none are loaded")
    return out, into
