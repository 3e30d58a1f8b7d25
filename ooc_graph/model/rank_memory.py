"""Whether ranks must search a graph on CUDA devices, and the device memory that they need."""

from __future__ import annotations

from collections.abc import Sequence

from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.kernels.cuda.runtime.rank_bytes import (
    RankBytes,
    bfs_bytes,
    owned_sssp_bytes,
    peers_bytes,
    sssp_bytes,
)
from ooc_graph.kernels.cuda.runtime.rows import MOST_ROWS, NARROW
from ooc_graph.kernels.cuda.runtime.table import table_bytes
from ooc_graph.layout.names import ORDER_OF, id_dtype
from ooc_graph.model.request import CUDA_FIXED_BYTES
from ooc_graph.shards.load import Graph
from ooc_graph.types import Dealing


def only_ranks(graph: Graph) -> bool:
    """Whether a graph has too many vertices for the searches of one rank on a CUDA device."""
    return graph.rows > MOST_ROWS or id_dtype(graph.rows) != NARROW


def ranks_bytes(graph: Graph, kernel: str, shards: Sequence[int], kept: Sequence[int] = ()) -> int:
    """Device memory that one process needs for the ranks of these shards, at most.

    Ranks that are ``kept`` from an earlier search take what their steps take.
    """
    rows = graph.resident_bytes(ORDER_OF[kernel], shards)
    return rows + state_bytes(graph, kernel, shards, kept)


def state_bytes(graph: Graph, kernel: str, shards: Sequence[int], kept: Sequence[int] = ()) -> int:
    """As `ranks_bytes`, without the rows."""
    ids = id_dtype(graph.rows)
    distances = distances_of(graph.weight_dtype)
    each = bfs_bytes(ids) if kernel == "bfs" else sssp_bytes(ids, distances)
    return _bytes_of(graph, each, shards, kept)


def _bytes_of(graph: Graph, each: RankBytes, shards: Sequence[int], kept: Sequence[int]) -> int:
    own, before = (
        sum(Dealing(graph.rows, graph.shards, shard).rows for shard in some)
        for some in (shards, kept)
    )
    on_rows = own * each.state + (own + before) * each.step
    return graph.rows * each.vertex + on_rows + CUDA_FIXED_BYTES


def owned_bytes(graph: Graph, shards: Sequence[int], kept: Sequence[int] = ()) -> int:
    """As `state_bytes`, of SSSP ranks that own their distances."""
    each = owned_sssp_bytes(id_dtype(graph.rows), distances_of(graph.weight_dtype))
    return _bytes_of(graph, each, shards, kept)


def listed_bytes(graph: Graph, shards: Sequence[int], entries: int) -> int:
    """Device memory of their candidates: ``entries`` that each lists, and as many that arrive."""
    ids, distances = id_dtype(graph.rows).itemsize, distances_of(graph.weight_dtype).itemsize
    arrived = entries * 2 * (ids + distances)
    return len(shards) * (table_bytes(entries, ids, ids + 2 * distances) + arrived)


def joined_bytes(graph: Graph, kernel: str, shards: Sequence[int]) -> int:
    """What the ranks of these shards take more if they search together with others of their host.

    They do without if there is less.
    """
    if kernel != "bfs" or graph.shards == 1 or only_ranks(graph):
        return 0
    rows = (Dealing(graph.rows, graph.shards, shard).rows for shard in shards)
    return sum(peers_bytes(graph.rows, each) for each in rows)
