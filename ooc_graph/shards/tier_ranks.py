"""Ranks of which only the heads of the rows are in memory: their plan, and what loads them.

A worker holds the heads of its shards within a budget, and reads the tails from the store while it
searches. In addition it holds messages, and what all ranks share: as much on each worker, however
many there are. The heads are divided among the workers, and so are the distances of SSSP ranks that
have those of their own rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from ooc_graph.kernels.common.tuning import ENOUGH_PUSHED
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.memory.cpu.plan import Facts, Plan, least_bytes
from ooc_graph.shards.load import Graph
from ooc_graph.shards.tier_facts import LengthsByShard, facts_about, known_weights, require_stored
from ooc_graph.shards.tiers import Tiered, TierSearch, bind_sides, load_side
from ooc_graph.types import Dealing

LISTED_SHARE = 8
"""A rank lists an entry for one in this many of its rows in a push, if that is more than a row's
arcs."""
LEAST_LISTED = 1 << 12
ROUTED_COPIES, ROUTED_ORDER_BYTES = 4, 20
"""Copies of an entry that is routed: listed, ordered by receiver, as it arrives, put together; and
what ordering takes."""
SHARED_COPIES = 3
"""Copies of an entry that is sent to everyone: listed, as it arrives, and put together."""

ANSWER_COPIES = 3
"""Copies of an answer that a rank has at once: of the search, to keep, and as it is sent."""
SETTLED_BYTES = 1
"""Memory of a vertex of the whole graph: bitmaps of what is settled, told and as they arrive."""

MASKS_BYTES = 2
"""Memory of an own row while rows are chosen by what is known of them."""

OWN, EVERYONES = "state of own rows", "everyone's state, messages"


def facts_of_ranks(
    graph: Graph, kernel: str, shards: Sequence[int], lengths: LengthsByShard
) -> Facts:
    """What a plan for the ranks of one worker, which has these shards, depends on."""
    sides = tuple(side for shard in shards for side in lengths[shard])
    facts = facts_about(graph, kernel, sides)
    rows = _rows(graph)
    mine = sum(rows[shard] for shard in shards)
    own = replace(facts, rows=mine, shards=len(shards), table_bytes=0)
    longest = (int(out.length.max(initial=0)) for out, *_ in lengths)
    listed = [_most_listed(*pair) for pair in zip(rows, longest, strict=True)]
    own_listed = sum(listed[shard] for shard in shards)
    shared = _shared_bytes(own, graph.rows)
    if kernel == "bfs":
        each = ROUTED_COPIES * 2 * own.id_bytes + ROUTED_ORDER_BYTES
        messages = (own_listed + sum(listed)) * each
    else:
        each = SHARED_COPIES * (own.id_bytes + own.distance_bytes)
        # The inner vertices are listed whole.
        inner = sum(out.arcs for out, *_ in lengths) // ENOUGH_PUSHED
        messages = (own_listed + max(sum(listed), graph.rows, inner)) * each
    # After the search one worker puts the answer together, from one part after the other.
    column_bytes = own.id_bytes + own.distance_bytes
    answer = (graph.rows + max(rows)) * column_bytes + facts.table_bytes
    return replace(own, others=((EVERYONES, max(shared + messages, answer)),))


def facts_of_owners(
    graph: Graph, shards: Sequence[int], lengths: LengthsByShard, messages: int
) -> Facts:
    """As `facts_of_ranks`, of SSSP ranks that have the distances of their own rows alone.

    They push along out-arcs, and have ``messages`` bytes of lists and messages, or of the answer.
    """
    facts = facts_about(graph, "sssp", tuple(lengths[shard][0] for shard in shards))
    own = sum(Dealing(graph.rows, graph.shards, shard).rows for shard in shards)
    # Rows that wait, the parent's distance, where a row goes on and what comes next there, masks
    # while rows are chosen; copies of the answer in addition to the search's own.
    each = facts.id_bytes + 2 * facts.distance_bytes + facts.offset_bytes + MASKS_BYTES
    each += (ANSWER_COPIES - 1) * (facts.id_bytes + facts.distance_bytes)
    others = (OWN, own * each), (EVERYONES, graph.rows * SETTLED_BYTES + messages)
    return replace(facts, rows=own, shards=len(shards), table_bytes=0, others=others)


def _shared_bytes(own: Facts, rows: int) -> int:
    """What ranks hold of all ``rows``, and what of their own a search of one process does not."""
    bitmap = 8 * -(-rows // 64)
    if own.kernel == "bfs":
        # Frontier and visited vertices, bitmaps as they arrive; what each rank has listed.
        return (4 + own.shards) * bitmap
    # Distances, marks, what improved, who waits on plateaus; own rows in a list, and cursors.
    everyones = rows * (own.distance_bytes + 1 + own.id_bytes) + bitmap
    return everyones + own.rows * (own.id_bytes + own.offset_bytes)


def _rows(graph: Graph) -> list[int]:
    """Rows of each shard."""
    return [Dealing(graph.rows, graph.shards, shard).rows for shard in range(graph.shards)]


def _most_listed(rows: int, longest: int) -> int:
    """Entries that a rank lists at a time: the arcs of any row fit."""
    return max(LEAST_LISTED, rows // LISTED_SHARE, longest)


def busiest_facts(shards: int, ranks: int, facts_of: Callable[[Sequence[int]], Facts]) -> Facts:
    """Facts of the worker that needs most, if each has so many consecutive ranks."""
    return max(map(facts_of, consecutive(shards, ranks)), key=least_bytes)


def consecutive(shards: int, ranks: int) -> list[range]:
    """All ranges of as many consecutive shards as a worker has ranks."""
    return [range(first, first + ranks) for first in range(shards - ranks + 1)]


def load_rank(
    graph: Graph, kernel: str, shard: int, plan: Plan, device: CpuDevice, **sizes: int
) -> TierSearch:
    """Load the heads of a shard's rows; the rank is the ``search`` of what is returned.

    The plan is of all ranks of the worker; sizes are ``window`` and ``look`` of `TierRows`.
    """
    dealing = Dealing(graph.rows, graph.shards, shard)

    def bind(out: Tiered, into: Tiered) -> Any:
        lengths = out.rows.heads.lengths
        listed = _most_listed(dealing.rows, int(lengths.max(initial=0)))
        if kernel == "bfs":
            return device.tier_bfs_rank(dealing, out.rows, into.rows, listed)
        known = known_weights(graph, out.rows, out.heaviest)
        return device.tier_sssp_rank(dealing, out.rows, into.rows, known, listed)

    return _loaded(graph, kernel, shard, plan, graph.sides, bind, sizes)


def load_owner(graph: Graph, shard: int, plan: Plan, device: CpuDevice, **sizes: int) -> TierSearch:
    """As `load_rank`, an SSSP rank that has the distances of its own rows alone."""
    dealing = Dealing(graph.rows, graph.shards, shard)

    def bind(out: Tiered, _: Tiered) -> Any:
        known = known_weights(graph, out.rows, out.heaviest)
        given = dealing, out.rows, known
        return device.store_owned_sssp_rank(*given, directed=graph.directed)

    return _loaded(graph, "sssp", shard, plan, graph.sides[:1], bind, sizes)


def _loaded(
    graph: Graph,
    kernel: str,
    shard: int,
    plan: Plan,
    sides: Sequence[str],
    bind: Callable[[Tiered, Tiered], Any],
    sizes: dict[str, int],
) -> TierSearch:
    _, order = require_stored(graph, kernel)

    def load(name: str, undo: ExitStack) -> Tiered:
        return load_side(graph, name, order, plan, undo, shard=shard, **sizes)

    return TierSearch(*bind_sides(sides, load, bind), plan)
