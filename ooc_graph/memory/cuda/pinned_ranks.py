"""What of the rows of one worker's ranks is on its CUDA device, if they are in pinned host memory.

Computed before rows are read. The device holds all that is written, offsets, and the first arcs of
each row: as large a share of them as there is room for. All arcs are in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ooc_graph.errors import DEVICE
from ooc_graph.memory.cuda.device_facts import OnDevice
from ooc_graph.memory.heads import HeadRule, Lengths, Shared, Sides, require_bytes, rules

# Of a row: its offset, and where its first arcs begin, which is told in 32 bits.
_OFFSET_BYTES, _START_BYTES, _MOST_ARCS = 8, 4, 1 << 32


@dataclass(frozen=True)
class RankFacts(Sides):
    """What a plan for the ranks of one worker depends on beside the budget."""

    kernel: str  # ``bfs`` or ``sssp``
    sides: tuple[Lengths, ...]  # lengths of the rows of every side of the worker's shards
    state_bytes: int  # device memory that the ranks take beside their rows
    arc_bytes: int  # of a neighbour, and of a weight as it is stored

    @property
    def offset_bytes(self) -> int:
        """Bytes of the offsets."""
        return _OFFSET_BYTES * self.ends

    @property
    def ends(self) -> int:
        """Offsets of all sides."""
        return sum(side.count + 1 for side in self.sides)

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory."""
        return self.arc_bytes * self.arcs


@dataclass(frozen=True)
class RankPlan(Shared, OnDevice):
    """What is on the device."""

    facts: RankFacts
    budget_bytes: int
    share: HeadRule  # arcs of each row that are on the device

    @property
    def kernel(self) -> str:
        """``bfs`` or ``sssp``."""
        return self.facts.kernel

    @property
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        return {
            "vertex state": self.facts.state_bytes,
            "offsets": (_OFFSET_BYTES + _START_BYTES) * self.facts.ends,
            "shares": self.facts.arc_bytes * self.arcs_on_device,
        }

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory."""
        return self.facts.pinned_bytes

    def joined_bytes(self, sides: Sequence[Lengths], ranks: int) -> int:
        """Memory for a rank with rows of these lengths to search with others, one of ``ranks``.

        That is its share beside the least one, and its part of what is left of the budget.
        """
        least = least_plan_of_ranks(self.facts).share
        more = sum(side.kept(self.share) - side.kept(least) for side in sides)
        return self.facts.arc_bytes * more + max(self.budget_bytes - self.bytes, 0) // ranks


def plan_ranks(facts: RankFacts, budget_bytes: int) -> RankPlan:
    """Plan for the ranks of one worker; `MemoryBudgetError` below the least."""
    least = least_plan_of_ranks(facts)
    what = f"{facts.kernel} by ranks with rows in pinned host memory"
    advice = "raise --device-memory, or add workers"
    require_bytes(what, DEVICE, least.bytes, budget_bytes, advice, of=" in one worker")
    chosen = least.share
    for share in rules(facts.kernel):
        is_countable = max(facts.kept(share)) < _MOST_ARCS
        if not is_countable or RankPlan(facts, budget_bytes, share).bytes > budget_bytes:
            break
        chosen = share
    return RankPlan(facts, budget_bytes, chosen)


def least_plan_of_ranks(facts: RankFacts) -> RankPlan:
    """Plan with the least device memory that will do."""
    return RankPlan(facts, 0, next(rules(facts.kernel)))
