"""What workers have of a graph whose shards are dealt to them."""

from __future__ import annotations

from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.request import SCHEDULER
from ooc_graph.model.resources import Resources
from ooc_graph.shards.load import Graph

ADVICE = "raise --memory-limit or add workers that have the memory"
STATE_BYTES = {"bfs": 56, "sssp": 96, "components": 40}
"""Bytes a vertex beside the rows: state of a search, heads kept apart, id tables, the answer's
pieces. Measured peaks are below it."""


def busiest(graph: Graph, resources: Resources) -> int:
    """Shards of the busiest worker: they are dealt whole, and every worker takes part."""
    return -(-graph.shards // min(resources.processes, graph.shards))


def most_ranks(graph: Graph, resources: Resources, exchange: str) -> int:
    """Ranks of the process that has most of them."""
    return busiest(graph, resources) if exchange == SCHEDULER else graph.shards


def ranks_bytes(graph: Graph, kernel: str, resources: Resources) -> int:
    """Host memory of the busiest worker whose ranks search on the CPU."""
    rows = graph.resident_bytes(ORDER_OF[kernel])
    return rows * busiest(graph, resources) // graph.shards + graph.rows * STATE_BYTES[kernel]
