"""The method ``edges``: searches of one rank that holds the graph as grouped edges, not as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges
from ooc_graph.layout.names import id_dtype
from ooc_graph.model.kernel import METHODS
from ooc_graph.shards.edge_list import edge_list_bytes, grouping_bytes, load_edges
from ooc_graph.shards.load import Graph

# Bytes a vertex beside the edges: state of a search, id tables, the answer's pieces.
_STATE_BYTES = {"bfs": 40, "sssp": 48}

_warm: set[tuple[Any, ...]] = set()


def require_method(method: str) -> None:
    """Refuse a method that there is not."""
    if method not in METHODS:
        raise UsageError(f"method {method!r}: choose {' or '.join(METHODS)}")


def resident_bytes(graph: Graph, kernel: str) -> int:
    """Memory of the process that searches grouped edges."""
    weighted = kernel == "sssp"
    edges = edge_list_bytes(graph, weighted=weighted) + grouping_bytes(graph, weighted=weighted)
    return edges + graph.rows * _STATE_BYTES[kernel]


def refuse_exchange(exchange: str) -> None:
    """Refuse an exchange between ranks, as there is one only.

    Raises
    ------
    UsageError
    """
    if exchange in ("local", "scheduler"):
        raise UsageError(
            f"method 'edges' searches on one rank, and the exchange {exchange!r} spreads the "
            "graph over several; use the method 'rows', or leave the exchange out"
        )
    if exchange != "auto":
        raise UsageError(f"exchange {exchange!r}: the method 'edges' has none; leave it out")


def choose_one(graph: Graph, kernel: str, exchange: str, available: int) -> str:
    """``one``: grouped edges are searched by one rank or not at all.

    Parameters
    ----------
    available
        Bytes that the process which searches may use.

    Raises
    ------
    UsageError
        If an exchange between ranks was asked for.
    MemoryBudgetError
        If the graph does not fit one worker.
    """
    refuse_exchange(exchange)
    needed = resident_bytes(graph, kernel)
    if needed > available:
        raise MemoryBudgetError(
            f"{kernel} on {graph.path} by the method 'edges' needs {needed:,} bytes in one worker, "
            f"and a worker may use {available:,}; raise --memory-limit, or use the method 'rows', "
            "which can spread the graph over several"
        )
    return "one"


def load_search(graph: Graph, kernel: str, device: CpuDevice) -> Any:
    """Bring a graph into memory as grouped edges, with buffers for one kernel, compiled."""
    ids = id_dtype(graph.rows)
    _compile(kernel, graph, device, ids)
    return _bound(kernel, load_edges(graph, weighted=kernel == "sssp"), device, ids)


def _bound(kernel: str, edges: GroupedEdges, device: CpuDevice, ids: np.dtype[Any]) -> Any:
    if kernel == "bfs":
        return device.edges_bfs(edges, ids)
    return device.edges_sssp(edges, ids)


def _compile(kernel: str, graph: Graph, device: CpuDevice, ids: np.dtype[Any]) -> None:
    """Search a pair of vertices of the same types once in a process, so that no time has it in."""
    key = kernel, ids, graph.weight_dtype
    if key in _warm:
        return
    weighted = kernel == "sssp" and graph.weight_dtype is not None
    weights = np.ones(1 if weighted else 0, graph.weight_dtype if weighted else np.float32)
    segment = np.zeros(1, np.int32)
    pair = GroupedEdges(
        2,
        graph.directed,
        np.array([1 << 16], np.uint32),
        weights,
        np.array([0, 1]),
        segment,
        segment,
        weights,
    )
    _bound(kernel, pair, device, ids).run(0)
    _warm.add(key)
