"""SSSP by ranks that have the distances of their own rows alone: what they send, on any device."""

from __future__ import annotations

from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.layout.names import id_dtype
from ooc_graph.model.request import SCHEDULER, Job
from ooc_graph.model.reservation import Reservation
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_ranks import ROUTED_COPIES, ROUTED_ORDER_BYTES
from ooc_graph.strategies.ranks import busiest

LEAST_LISTED, MOST_LISTED = 1 << 10, 1 << 16
"""Candidates that a rank sends at a time: no fewer, and more hardly save anything."""
LISTS_SHARE = 4
"""Lists and messages take at most one in this many of the bytes beyond the least, if arcs are in
the store."""
SLOT_BYTES = 16
"""Memory of the slots of an entry in a rank's list, at most."""


class Owners:
    """What strategies of such ranks have in common, wherever rows are."""

    rank_rows = ", each of which has the distances of its own rows alone"

    def lacks_rank(self, job: Job, exchange: str) -> str:
        """Refuses other kernels, and ranks of which one worker has all."""
        if job.kernel != "sssp":
            return "only sssp is searched by ranks that own their distances"
        is_shared = exchange == SCHEDULER and busiest(job) < job.graph.shards
        return "" if is_shared else "there are no workers to share the work"


IN_STORE = f"{Owners.rank_rows}, and leaves arcs in the store"


def described(rows: str) -> dict[str, str]:
    """The tier of such ranks as plans describe it; ``rows`` says where these are."""
    return {"tier": f"{rows}, by ranks, each with the distances of its own rows"}


def most_listed(reserved: Reservation, graph: Graph, ranks: int) -> int:
    """Candidates that each of ``ranks`` may list at a time."""
    fitting = reserved.messages_bytes // messages_bytes(graph, ranks, 1)
    return min(MOST_LISTED, max(LEAST_LISTED, fitting))


def gathered_bytes(job: Job) -> int:
    """Memory of one worker that brings together an answer, which is written, beside its ranks."""
    graph, request = job.graph, job.request
    if request.answer_bytes or request.on_worker:
        return 0
    ids, distances = sizes_of(graph)
    tables = 8 * graph.rows + graph.vertices * (ids + (0 if graph.first_id is not None else 8))
    return tables + 2 * graph.rows * (ids + distances)


def sizes_of(graph: Graph) -> tuple[int, int]:
    """Bytes of an id and of a distance."""
    return id_dtype(graph.rows).itemsize, distances_of(graph.weight_dtype).itemsize


def messages_bytes(graph: Graph, ranks: int, most_listed: int) -> int:
    """Memory of lists and messages of one worker, if each rank lists ``most_listed`` candidates.

    Each rank may be of this worker, and all that ranks list may be sent to it.
    """
    entry = 2 * sum(sizes_of(graph))
    return 2 * ranks * most_listed * (ROUTED_COPIES * entry + ROUTED_ORDER_BYTES + SLOT_BYTES)
