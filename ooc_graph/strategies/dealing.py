"""What workers have of a graph whose shards are dealt to them."""

from __future__ import annotations

from ooc_graph.model.job import Job
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.request import SCHEDULER

ADVICE = "raise --memory-limit or add workers that have the memory"
STATE_BYTES = {"bfs": 56, "sssp": 96, "components": 40}
"""Bytes a vertex beside the rows: state of a search, heads kept apart, id tables, the answer's
pieces. Measured peaks are below it."""


def busiest(job: Job) -> int:
    """Shards of the busiest worker: they are dealt whole, and every worker takes part."""
    shards = job.graph.shards
    return -(-shards // min(job.resources.processes, shards))


def most_ranks(job: Job, exchange: str) -> int:
    """Ranks of the process that has most of them."""
    return busiest(job) if exchange == SCHEDULER else job.graph.shards


def ranks_bytes(job: Job) -> int:
    """Host memory of the busiest worker whose ranks search on the CPU."""
    rows = job.graph.resident_bytes(ORDER_OF[job.kernel]) * busiest(job) // job.graph.shards
    return rows + job.graph.rows * STATE_BYTES[job.kernel]
