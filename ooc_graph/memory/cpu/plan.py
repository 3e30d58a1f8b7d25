"""What of a graph is kept in memory for searches within a budget, computed before rows are read.

As many arcs of the heads of rows (`ooc_graph.memory.heads`) are kept as the budget allows. What is
left of it keeps blocks that were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.layout import names
from ooc_graph.memory.heads import HeadRule, Lengths, Sides, require_in_worker, rules

RESERVE_BYTES = 4 << 20
"""What interpreter, threads and allocator take beside the arrays."""
SLACK_SHARE = 32
"""Besides, one in this many of the bytes beyond the least is left alone."""
ANSWER_VERTICES, ANSWER_VERTEX_BYTES, ANSWER_BLOCK_BYTES = 1 << 18, 48, 2 << 20
"""Vertices in a piece of an answer that is written, bytes of each, and blocks on their way."""
MOST_BATCH_BLOCKS = 32
LEAST_BATCH_BLOCKS = 2
STAGING_SHARE = 8
"""Staging takes at most one in this many of the bytes beyond the least."""
WINDOW_ROWS, WINDOW_ROW_BYTES = 1 << 14, 48
"""Most rows that are looked at together, of one side, and bytes of each in their list."""
PIECE_ROWS, PIECE_ROW_BYTES = 1 << 16, 64
"""Rows whose lengths are made of offsets at a time, and bytes of each meanwhile."""
UNPACKING_BYTES = 512 << 10
"""Packed blocks of a side in memory beside the unpacked ones: one a reader, or a few of a chunk."""


@dataclass(frozen=True)
class Facts(Sides):
    """What a plan depends on beside the budget.

    ``kernel`` is ``bfs``, ``sssp``, or ``apsp``: batches of sources, whose lanes the plan leaves
    out. Rows and shards of ranks are those of one worker. Bytes are of a neighbour, of a weight (0
    for ``bfs``), of a level or distance, and of all id tables. ``sides`` are lengths of rows of
    out-, and of directed graphs of in-arcs; of ranks for each shard. ``packed_bits`` are those of
    an arc in the store if it is packed, else 0. ``others`` are purposes and bytes of what ranks
    share, and of messages.
    """

    kernel: str
    vertices: int
    rows: int
    shards: int
    id_bytes: int
    weight_bytes: int
    distance_bytes: int
    table_bytes: int
    sides: tuple[Lengths, ...]
    packed_bits: int = 0
    others: tuple[tuple[str, int], ...] = ()

    def stored_bytes(self, arcs: int) -> int:
        """Bytes of so many arcs in the store, about."""
        return arcs * (self.packed_bits or 8 * self.arc_bytes) // 8

    @property
    def arc_bytes(self) -> int:
        """Bytes of an arc."""
        return self.id_bytes + self.weight_bytes

    @property
    def offset_bytes(self) -> int:
        """Bytes in which a side's arcs are counted."""
        return 4 if max(side.arcs for side in self.sides) < 1 << 31 else 8


@dataclass(frozen=True)
class Plan:
    """What is where.

    ``rule`` says which arcs are in memory. ``batch_blocks`` of neighbours are fetched at a time;
    ``kept_bytes`` are for blocks that were read, of each side. ``slack_bytes`` are left alone, too.
    """

    facts: Facts
    budget_bytes: int
    rule: HeadRule
    batch_blocks: int
    kept_bytes: int
    slack_bytes: int = 0

    @property
    def head_arcs(self) -> int:
        """Arcs in memory."""
        return sum(self.facts.kept(self.rule))

    @property
    def parts(self) -> dict[str, int]:
        """Bytes in memory by purpose, as they are when most is held."""
        facts, sides = self.facts, len(self.facts.sides)
        # While rows are loaded there is no state yet, but what lengths are made of, or the arcs to
        # read of each row and which of them are short.
        loading = max(offsets_bytes(facts.rows), facts.rows * (2 * facts.offset_bytes + 1))
        state = max(_state_bytes(facts) + _answer_bytes(facts), loading)
        staging = self.batch_blocks * _staged_bytes(facts)
        staging += min(WINDOW_ROWS, facts.rows + 64) * WINDOW_ROW_BYTES
        staging += UNPACKING_BYTES if facts.packed_bits else 0
        return {
            "id tables": facts.table_bytes,
            "vertex state": state,
            "row tables": _row_bytes(facts),
            "heads": self.head_arcs * facts.arc_bytes,
            "staging": sides * staging,
            "kept blocks": sides * self.kept_bytes,
            "reserve": RESERVE_BYTES + self.slack_bytes,
            **dict(facts.others),
        }

    @property
    def bytes(self) -> int:
        """Bytes in memory when most is held."""
        return sum(self.parts.values())


def plan_disk(facts: Facts, budget_bytes: int) -> Plan:
    """Plan for searches whose arcs stay in the store but for what the budget has room for."""
    chosen, *larger = rules(facts.kernel)
    least = least_bytes(facts)
    what = f"{facts.kernel} on {facts.rows:,} rows with arcs in the store"
    require_in_worker(what, least, budget_bytes, "raise --memory-limit")
    spare = budget_bytes - least
    staged = len(facts.sides) * _staged_bytes(facts)
    batch = LEAST_BATCH_BLOCKS + min(
        MOST_BATCH_BLOCKS - LEAST_BATCH_BLOCKS, spare // STAGING_SHARE // staged
    )
    slack_bytes = spare // SLACK_SHARE
    for rule in larger:
        if Plan(facts, budget_bytes, rule, batch, 0, slack_bytes).bytes > budget_bytes:
            break
        chosen = rule
    bare = Plan(facts, budget_bytes, chosen, batch, 0, slack_bytes)
    # Nothing is worth keeping of what is read if all arcs are in memory.
    if bare.head_arcs == facts.arcs:
        return bare
    tail_bytes = facts.arcs * facts.arc_bytes + 4 * len(facts.sides) * names.SIDECAR_BYTES
    rest = min(budget_bytes - bare.bytes, tail_bytes) // len(facts.sides)
    return replace(bare, kept_bytes=whole_blocks(rest))


def least_bytes(facts: Facts) -> int:
    """Least memory that a search with arcs in the store does with."""
    return Plan(facts, 0, next(rules(facts.kernel)), LEAST_BATCH_BLOCKS, 0).bytes


def _state_bytes(facts: Facts) -> int:
    bitmap = 8 * -(-facts.rows // 64)
    if facts.kernel == names.APSP:
        return 3 * bitmap
    # Parent, queue and level; visited, found, never, frontier and what a pull leaves.
    each = 2 * facts.id_bytes + facts.distance_bytes
    if facts.kernel == "sssp":
        each += 4 if facts.longest < 1 << 30 else 8
    return facts.rows * each + 5 * bitmap


def _row_bytes(facts: Facts) -> int:
    """Starts, lengths, the first neighbour or weight, places; crc32c and slot of each block."""
    each = 2 * facts.offset_bytes + (facts.weight_bytes or facts.id_bytes)
    rows = sum(row_table_bytes(side.count, each) for side in facts.sides)
    blocks = (facts.arcs * facts.arc_bytes) // names.SIDECAR_BYTES + 8 * facts.shards
    return rows + 8 * blocks


def _answer_bytes(facts: Facts) -> int:
    """Pieces of an answer that is written; between searches a chunk of ids, to find the root in."""
    pieces = min(ANSWER_VERTICES, facts.vertices) * ANSWER_VERTEX_BYTES + ANSWER_BLOCK_BYTES
    return max(pieces, min(names.CHUNK_BYTES, 8 * facts.vertices))


def offsets_bytes(rows: int) -> int:
    """A chunk of offsets, and what lengths are made of."""
    chunk = min(names.CHUNK_BYTES, 8 * (rows + 1))
    return chunk + min(PIECE_ROWS, rows + 1) * PIECE_ROW_BYTES


def row_table_bytes(rows: int, each: int = 4) -> int:
    """So many bytes of each row of a side, its length among them, and places of every 64th."""
    return each * rows + 8 * -(-rows // 64)


def whole_blocks(size_bytes: int) -> int:
    """So many bytes or less, in whole blocks."""
    return size_bytes // names.SIDECAR_BYTES * names.SIDECAR_BYTES


def _staged_bytes(facts: Facts) -> int:
    """Bytes of two buffers, for each block of neighbours in a batch."""
    wider = max(1, facts.weight_bytes // facts.id_bytes) if facts.weight_bytes else 0
    return 2 * (1 + wider) * (names.SIDECAR_BYTES + 8)


def describe(plan: Plan) -> dict[str, Any]:
    """A plan as a table of names and numbers, JSON-able."""
    facts, arcs = plan.facts, max(plan.facts.arcs, 1)
    return {
        "kernel": facts.kernel,
        "tier": "disk",
        "budget": plan.budget_bytes,
        **{f"bytes: {name}": size for name, size in plan.parts.items()},
        "bytes: in all": plan.bytes,
        "arcs of each row in memory": str(plan.rule),
        "share of arcs in memory": round(plan.head_arcs / arcs, 4),
        "bytes that stay in the store": facts.stored_bytes(facts.arcs - plan.head_arcs),
    }
