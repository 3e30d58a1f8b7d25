"""What is in memory of a graph whose arcs are streamed from the store, within a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.layout import names
from ooc_graph.memory.cpu.plan import (
    ANSWER_BLOCK_BYTES,
    ANSWER_VERTEX_BYTES,
    ANSWER_VERTICES,
    RESERVE_BYTES,
    SLACK_SHARE,
    STAGING_SHARE,
    UNPACKING_BYTES,
    whole_blocks,
)

ROW_BYTES = 48
"""Offsets, what a row's arcs weigh, its score and sum, what it sends and what arrives of that."""
EVERYONES_BYTES = 16
"""Memory of a row of any rank: what it sends, as it is kept and as it arrives."""
LEAST_BATCH_BLOCKS, MOST_BATCH_BLOCKS = 2, 64


@dataclass(frozen=True)
class StreamFacts:
    """What a plan depends on, in one process: of its ``shards``, whose rows it ``owns``.

    ``arcs`` are in-arcs of these, ``arc_bytes`` each; ``columns`` are 2 with weights, else 1.
    ``streams`` are as many as buffers. ``table_bytes`` are those of id tables.
    """

    kernel: str
    vertices: int
    rows: int
    owns: int
    arcs: int
    id_bytes: int
    weight_bytes: int
    streams: int
    table_bytes: int
    is_packed: bool

    @property
    def arc_bytes(self) -> int:
        """Bytes of an arc."""
        return self.id_bytes + self.weight_bytes

    @property
    def batch_bytes(self) -> int:
        """Bytes of the two buffers of all streams, for each block of neighbours in a batch."""
        wider = max(1, self.weight_bytes // self.id_bytes) if self.weight_bytes else 0
        return self.streams * 2 * (1 + wider) * names.SIDECAR_BYTES


@dataclass(frozen=True)
class StreamPlan:
    """What is where: ``kept_bytes`` are for blocks that were read, of all streams together."""

    facts: StreamFacts
    budget_bytes: int
    batch_blocks: int = LEAST_BATCH_BLOCKS
    kept_bytes: int = 0
    slack_bytes: int = 0

    @property
    def parts(self) -> dict[str, int]:
        """Bytes in memory by purpose, as they are when most is held."""
        facts = self.facts
        answer = min(ANSWER_VERTICES, facts.vertices) * ANSWER_VERTEX_BYTES + ANSWER_BLOCK_BYTES
        # Of scores that several ranks have found there is a copy; then nothing is sent any more.
        state = facts.owns * ROW_BYTES + facts.rows * EVERYONES_BYTES
        packed = facts.streams * UNPACKING_BYTES if facts.is_packed else 0
        return {
            "id tables": facts.table_bytes,
            "vertex state": state + answer,
            "staging": self.batch_blocks * facts.batch_bytes + packed,
            "kept blocks": self.kept_bytes,
            "reserve": RESERVE_BYTES + self.slack_bytes,
        }

    @property
    def bytes(self) -> int:
        """Bytes in memory when most is held."""
        return sum(self.parts.values())

    @property
    def kept_share(self) -> float:
        """Share of the arcs that is kept."""
        return min(1.0, self.kept_bytes / max(1, self.facts.arcs * self.facts.arc_bytes))


def least_streamed(facts: StreamFacts) -> int:
    """Least memory that a search with streamed arcs does with."""
    return StreamPlan(facts, 0).bytes


def plan_streams(facts: StreamFacts, budget_bytes: int) -> StreamPlan:
    """Plan within a budget that is enough; what is left of it keeps blocks."""
    spare = budget_bytes - least_streamed(facts)
    more = spare // STAGING_SHARE // facts.batch_bytes
    # An even number of blocks of neighbours is whole blocks of weights, too.
    batch = min(MOST_BATCH_BLOCKS, LEAST_BATCH_BLOCKS + more // 2 * 2)
    plan = StreamPlan(facts, budget_bytes, batch, 0, spare // SLACK_SHARE)
    all_bytes = facts.arcs * facts.arc_bytes + 4 * facts.streams * names.SIDECAR_BYTES
    return replace(plan, kept_bytes=whole_blocks(min(budget_bytes - plan.bytes, all_bytes)))


def describe(plan: StreamPlan) -> dict[str, Any]:
    """A plan as a table of names and numbers, JSON-able."""
    facts = plan.facts
    return {
        "kernel": facts.kernel,
        "tier": "disk",
        "budget": plan.budget_bytes,
        **{f"bytes: {name}": size for name, size in plan.parts.items()},
        "bytes: in all": plan.bytes,
        "share of arcs in memory": round(plan.kept_share, 4),
        "bytes that stay in the store": int((1 - plan.kept_share) * facts.arcs * facts.arc_bytes),
    }
