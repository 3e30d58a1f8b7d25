"""The method ``edges``: searches of one rank that holds the graph as grouped edges, not as rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.layout.names import id_dtype
from ooc_graph.memory.heads import require_in_worker
from ooc_graph.model.engine import Engine, load_ids
from ooc_graph.model.request import EDGES, Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.resources import CPU
from ooc_graph.model.strategy import MEMORY, OTHER_METHOD, StrategyDefaults
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.in_memory import cached_on_cpu

# Bytes a vertex beside the edges: state of a search, id tables, the answer's pieces.
_STATE_BYTES = {"bfs": 40, "sssp": 48}

_warm: set[tuple[Any, ...]] = set()


@dataclass(frozen=True)
class EdgeList(StrategyDefaults):
    """Each edge once, grouped; one process searches."""

    name = "cpu/edges"
    device = CPU
    tier = MEMORY

    def lacks(self, job: Job) -> str:
        """It is taken if it is asked for."""
        return "" if job.request.method == EDGES else OTHER_METHOD

    def cached(self, job: Job) -> Reservation | None:
        """What a search before left here."""
        return cached_on_cpu(self, job)

    def reserve(self, job: Job) -> Reservation:
        """Edges while they are grouped, and what vertices take."""
        needed, available = resident_bytes(job.graph, job.kernel), job.resources.process_limit_bytes
        what, other = f"{job.what} by the method 'edges'", "use the method 'rows'"
        advice = f"raise --memory-limit, or {other}, which can spread the graph over several"
        require_in_worker(what, needed, available, advice)
        return Reservation(self.name, needed)

    def load(self, graph: Graph, kernel: str, reserved: Reservation) -> Engine:  # noqa: ARG002
        """Group all edges."""
        from ooc_graph.shards.edge_list import load_edges  # noqa: PLC0415

        ids, device = id_dtype(graph.rows), process.device()
        bind = device.edges_bfs if kernel == "bfs" else device.edges_sssp
        _compile(kernel, graph, bind, ids)
        search = bind(load_edges(graph, weighted=kernel == "sssp"), ids)
        return Engine(kernel, search, graph, load_ids(graph), graph.tuples())

    def describe(self, job: Job, reserved: Reservation) -> dict[str, Any]:
        """What it takes in all."""
        return {
            "kernel": job.kernel,
            "tier": "memory, as a list of edges",
            "budget": job.resources.process_limit_bytes,
            "bytes: in all": reserved.host_bytes,
        }

    def summary(self, kernel: str, reserved: Reservation) -> str:
        """What it takes."""
        return f"{kernel} groups its edges in {reserved.host_bytes:,} bytes"


def resident_bytes(graph: Graph, kernel: str) -> int:
    """Memory of the process that searches grouped edges."""
    from ooc_graph.shards.edge_list import edge_list_bytes, grouping_bytes  # noqa: PLC0415

    weighted = kernel == "sssp"
    edges = edge_list_bytes(graph, weighted=weighted) + grouping_bytes(graph, weighted=weighted)
    return edges + graph.rows * _STATE_BYTES[kernel]


def _compile(kernel: str, graph: Graph, bind: Callable[..., Any], ids: np.dtype[Any]) -> None:
    """Search a pair of vertices of the same types once in a process, so that no time has it in."""
    from ooc_graph.kernels.cpu.edge_list.grouped import GroupedEdges, segment_bases  # noqa: PLC0415

    key = kernel, ids, graph.weight_dtype
    if key in _warm:
        return
    weighted = kernel == "sssp" and graph.weight_dtype is not None
    weights = np.ones(1 if weighted else 0, graph.weight_dtype if weighted else np.float32)
    segment = np.zeros(1, np.int32)
    pair = GroupedEdges(
        not graph.directed,
        np.array([1 << 16], np.uint32),
        weights,
        np.array([0, 1]),
        segment,
        segment,
        weights,
        segment_bases(2),
    )
    bind(pair, ids).run(0)
    _warm.add(key)
