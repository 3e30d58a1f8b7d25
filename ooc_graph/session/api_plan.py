"""The Python API: what a search would hold in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ooc_graph.session.machine import default_limit_bytes, parse_bytes
from ooc_graph.shards.load import Graph


def plan(
    graph: Graph | str | Path, kernel: str = "bfs", *, memory_limit: str | int | None = None
) -> dict[str, Any]:
    """What a search on one CPU worker holds in memory, and what stays in the store.

    Nothing is searched; of the store the lengths of the rows are read, if they matter. An answer
    that is not written (``out=None``) takes 20 or 24 bytes a vertex besides.

    Parameters
    ----------
    graph
        A built graph, or its path.
    kernel
        ``bfs`` or ``sssp``.
    memory_limit
        Bytes (or "4GiB") of the worker; None: 80 % of what is free.

    Returns
    -------
    dict
        As ``ooc-graph plan --json`` prints it: ``tier``, bytes in memory by purpose (``bytes: …``),
        ``share of arcs in memory``, ``bytes that stay in the store``.

    Raises
    ------
    MemoryBudgetError
        Says the least that would do.
    UsageError, NegativeWeightError
        There is no such kernel, or the graph has no rows for it.
    """
    from ooc_graph.session.inspect import describe_plan  # noqa: PLC0415 (imports rich)

    opened = graph if isinstance(graph, Graph) else Graph.open(graph)
    limit_bytes = parse_bytes(memory_limit) or default_limit_bytes()
    return describe_plan(opened, kernel, limit_bytes)
