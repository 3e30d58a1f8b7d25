"""Searches as users ask for them, and what they find."""

from __future__ import annotations

from typing import Any

import numpy as np

import ooc_graph as og


def search(kernel: str) -> Any:
    return {"bfs": og.bfs, "sssp": og.sssp}[kernel]


def hub(graph: og.Graph) -> int:
    """Original id of the first row, one of those with most arcs."""
    return int(graph.original_of()[0])


def columns(result: Any) -> dict[str, tuple[str, bytes]]:
    """Type and bytes of each column."""
    found = {name: np.asarray(result.read(name)) for name in result.names}
    return {name: (column.dtype.name, column.tobytes()) for name, column in found.items()}


def column_bytes(result: Any) -> dict[str, bytes]:
    return {name: np.asarray(result.read(name)).tobytes() for name in result.names}
