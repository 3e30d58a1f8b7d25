"""Plans of BFS that reads the first neighbours of rows in columns, and those of hubs, on a device.

Of rows in pinned host memory the device has the first neighbour of all, and behind it columns of
four, each as long as there are rows that reach it; what memory is left takes the rows of the hubs,
whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from ooc_graph.memory.cuda.device_facts import COLUMNS, FIXED_BYTES, DevicePlan

PIECE_ARCS = 1024
"""Arcs of a piece, in which BFS looks at long rows."""
LEAST_JOINED = 2
"""Columns of a rank that searches together with others, at least: all decide alike when to pull."""
_JOINED_BITS = 11
MOST_WORDS, MOST_ARCS = 1 << 32, 1 << 36
"""Limits of what kernels count in 32 bits, and of the arcs of a side (36 bits of a word)."""


@dataclass(frozen=True)
class ColumnsPlan(DevicePlan):
    """As `DevicePlan`, for BFS with columns."""

    columns: int = 0  # of four neighbours
    hub_arcs: int = 0  # arcs of hubs, of each side, that there is memory for

    kernel = "bfs"
    arc_bytes = 4

    @property
    def near_parts(self) -> dict[str, int]:
        """Bytes of the rows that are on the device, by purpose."""
        facts = self.facts
        return {
            "first arcs": 4 * facts.padded + 16 * sum(facts.longer[: self.columns]),
            "hub rows": 4 * self.hub_arcs * len(facts.sides),
        }

    @property
    def queued(self) -> int:
        """Rows and pieces of rows that wait in a queue, at most."""
        return self.facts.rows + self.facts.sides[-1].arcs // PIECE_ARCS + 1

    @property
    def is_countable(self) -> bool:
        """Whether kernels can count what there is."""
        # In the queue a row without arcs counts as one.
        most = max(side.arcs for side in self.facts.sides) + self.facts.rows
        return most < MOST_ARCS and self.queued < MOST_WORDS

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""
        columns = 4 * sum(self.facts.longer[: self.columns])
        return self.facts.rows + columns + self.hub_arcs * len(self.facts.sides)

    @property
    def rule(self) -> str:
        """Which arcs are on the device."""
        return f"{1 + 4 * self.columns}, and hubs"


@dataclass(frozen=True)
class JoinedPlan(ColumnsPlan):
    """As `ColumnsPlan`, for one rank of a BFS by devices that search together.

    Beside what it has for supersteps, offsets among it. Facts are of its own rows.
    """

    vertices: int = 0  # of the whole graph

    @property
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        rows = self.facts.padded
        # Parent and level; of all vertices three frontiers, a mark, and what is open at last.
        state = rows * 5 + _JOINED_BITS * rows // 8 + self.vertices
        return {"vertex state": state + 8 * self.queued, **self.near_parts, "reserve": FIXED_BYTES}


Plan = TypeVar("Plan", bound=ColumnsPlan)


def filled(bare: Plan, most_columns: int = COLUMNS) -> Plan:
    """The plan with as much of the rows on the device as its budget has memory for."""
    plan, facts = bare, bare.facts
    while plan.columns < most_columns and sum(facts.longer[: plan.columns]) < MOST_WORDS:
        longer = replace(bare, columns=plan.columns + 1)
        if longer.bytes > bare.budget_bytes:
            break
        plan = longer
    spare = max(bare.budget_bytes - plan.bytes, 0)
    most = max(side.arcs for side in facts.sides)
    return replace(plan, hub_arcs=min(spare // (4 * len(facts.sides)), most))
