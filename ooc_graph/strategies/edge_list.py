"""The method ``edges``: searches of one rank that holds the graph as grouped edges, not as rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges
from ooc_graph.layout.names import id_dtype
from ooc_graph.model.kernel import EDGES
from ooc_graph.model.request import Request
from ooc_graph.model.resources import CPU, Resources
from ooc_graph.model.strategy import MEMORY, too_little
from ooc_graph.model.way import Way
from ooc_graph.shards.edge_list import edge_list_bytes, grouping_bytes, load_edges
from ooc_graph.shards.load import Graph

# Bytes a vertex beside the edges: state of a search, id tables, the answer's pieces.
_STATE_BYTES = {"bfs": 40, "sssp": 48}

_warm: set[tuple[Any, ...]] = set()


class EdgeList:
    """Each edge once, grouped; one process searches."""

    name, device, tier = "cpu/edges", CPU, MEMORY

    def lacks(self, graph: Graph, request: Request, resources: Resources) -> str:  # noqa: ARG002
        """It is taken if it is asked for."""
        return "" if request.method == EDGES else "another method is asked for"

    def cached(self, graph: Graph, request: Request, resources: Resources) -> Way | None:  # noqa: ARG002
        """A plan says the same without."""
        return None

    def reserve(self, graph: Graph, request: Request, resources: Resources) -> Way:
        """Edges while they are grouped, and what vertices take."""
        needed, available = resident_bytes(graph, request.kernel), resources.process_limit_bytes
        if needed > available:
            what = f"{request.kernel} on {graph.path} by the method 'edges'"
            advice = (
                "raise --memory-limit, or use the method 'rows', which can spread the graph over "
                "several"
            )
            raise too_little(what, needed, available, advice)
        return Way(CPU, "one")

    def describe(
        self, graph: Graph, request: Request, resources: Resources, way: Way
    ) -> dict[str, Any]:
        """What it takes in all."""
        del way
        needed = resident_bytes(graph, request.kernel)
        return {
            "kernel": request.kernel,
            "tier": "memory, as a list of edges",
            "budget": resources.process_limit_bytes,
            "bytes: in all": needed,
        }


def resident_bytes(graph: Graph, kernel: str) -> int:
    """Memory of the process that searches grouped edges."""
    weighted = kernel == "sssp"
    edges = edge_list_bytes(graph, weighted=weighted) + grouping_bytes(graph, weighted=weighted)
    return edges + graph.rows * _STATE_BYTES[kernel]


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
