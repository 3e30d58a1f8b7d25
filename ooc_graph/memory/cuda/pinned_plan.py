"""What of a graph whose rows stand in pinned host memory is on a CUDA device too, within a budget.

Computed before rows are read, as `ooc_graph.memory.cpu.plan` does for CPUs. The device holds all
that is written, offsets, names, and copies of what a search reads most. BFS reads the first
neighbours of the rows, which stand in columns (`ooc_graph.memory.cuda.columns`). SSSP reads a share
of each row; the first five arcs stand in columns as well. Where SSSP goes by near-far, no arcs are
on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ooc_graph.errors import DEVICE, PINNED, MemoryBudgetError
from ooc_graph.memory.cuda import device_facts
from ooc_graph.memory.cuda.columns import MOST_ARCS, MOST_WORDS, PIECE_ARCS, ColumnsPlan, filled
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts, DevicePlan, NearPlan
from ooc_graph.memory.cuda.pinned_ranks import RankPlan
from ooc_graph.memory.heads import HeadRule, Shared, require_bytes, rules

LEAST_ARCS = 5
"""Arcs of each row that SSSP has on the device at least."""
DEEP_BYTES = 4
"""A level where a search has more than 254 of them; else it is a byte."""
_BFS_BITMAPS, _SSSP_BITMAPS = 8, 2
# What BFS says of each level, by the bytes of a level: there is room for so many at first.
_TRACE_BYTES = {1: 40 << 8, DEEP_BYTES: 40 << 16}
_SSSP_PIECES = 1 << 20


@dataclass(frozen=True)
class BfsPlan(ColumnsPlan):
    """As `ColumnsPlan`, for one device that searches the whole graph."""

    level_bytes: int = 1  # or `DEEP_BYTES`

    @property
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts = self.facts
        state = facts.padded * (4 + self.level_bytes) + _BFS_BITMAPS * facts.padded // 8
        lists = facts.rows // 32 * 4 + 8 * self.queued + _TRACE_BYTES[self.level_bytes]
        return {
            "vertex state": state + lists,
            "offsets": self._offsets(),
            "names": 4 * facts.padded + 4 * facts.rows if facts.original_parents else 0,
            **self.near_parts,
            "reserve": device_facts.FIXED_BYTES,
        }

    @property
    def deep(self) -> BfsPlan:
        """What goes on within the same budget once a search has more levels than a byte tells."""
        return plan_bfs(self.facts, self.budget_bytes, self.columns, level_bytes=DEEP_BYTES)


@dataclass(frozen=True)
class SsspPlan(Shared, DevicePlan):
    """As `DevicePlan`, for SSSP with weights of 32 bits."""

    # Arcs of each row that are held.
    share: HeadRule = HeadRule(LEAST_ARCS)  # noqa: RUF009 (frozen)

    kernel = "sssp"
    arc_bytes = 8

    @property
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts, longer = self.facts, self.facts.longer
        lightest = 4 * facts.rows * (len(facts.sides) - 1)
        # Tuples, and lengths while the starts are made of them.
        state = facts.rows * (4 + 8 + 8 + 4 + 4) + 4 * facts.padded
        return {
            "vertex state": state + _SSSP_BITMAPS * facts.padded // 8 + 8 * _SSSP_PIECES,
            "offsets": self._offsets() + 4 * (facts.rows + 1) * len(facts.sides),
            "names": 4 * facts.rows if facts.original_parents else 0,
            "first arcs": 8 * facts.rows + 20 * longer[0] + 16 * facts.longer3 + lightest,
            "shares": 8 * self.arcs_on_device,
            "reserve": device_facts.FIXED_BYTES,
        }

    @property
    def counted_arcs(self) -> int:
        """Arcs on the device of one side, whose places are told in 32 bits."""
        return max(self.facts.kept(self.share))


SearchPlan: TypeAlias = BfsPlan | SsspPlan | NearPlan
"""Any of them."""


def plan_device(
    kernel: str, facts: DeviceFacts, budget_bytes: int, host_bytes: int, beside: int = 0
) -> SearchPlan:
    """Plan for a search with all rows in pinned host memory, of which there may be ``host_bytes``.

    If a budget is too small, that is a `MemoryBudgetError`, which says how much memory is needed,
    with what is on the device ``beside`` it; so is a graph that is too large for the kernels of one
    rank, whatever the budget.
    """
    _require_countable(kernel, facts)
    least = least_plan(kernel, facts)
    if least.pinned_bytes > host_bytes:
        said = (
            f"{kernel} on a graph that does not fit the device needs {least.pinned_bytes:,} bytes "
            f"of pinned host memory, and {host_bytes:,} may be used; raise --host-memory"
        )
        raise MemoryBudgetError(said).needing(least.pinned_bytes, PINNED)
    what = f"{kernel} on {facts.rows:,} rows with arcs in host memory"
    needed, there = least.bytes + beside, budget_bytes + beside
    require_bytes(what, DEVICE, needed, there, "raise --device-memory")
    return fill(kernel, facts, budget_bytes)


def fill(kernel: str, facts: DeviceFacts, budget_bytes: int) -> SearchPlan:
    """As `plan_device` once it is known that the budgets will do; else what takes least."""
    if kernel == "bfs":
        return plan_bfs(facts, budget_bytes)
    if facts.near is not None:
        return NearPlan(facts, budget_bytes)
    chosen = SsspPlan(facts, budget_bytes)
    for rule in rules(kernel):
        if rule.least < LEAST_ARCS:
            continue
        plan = SsspPlan(facts, budget_bytes, rule)
        if plan.bytes > budget_bytes or plan.counted_arcs >= MOST_WORDS:
            break
        chosen = plan
    return chosen


def least_plan(kernel: str, facts: DeviceFacts) -> SearchPlan:
    """Plan with the least device memory that will do, however many levels BFS finds."""
    if kernel == "bfs":
        return BfsPlan(facts, 0, level_bytes=DEEP_BYTES)
    return SsspPlan(facts, 0) if facts.near is None else NearPlan(facts, 0)


def _require_countable(kernel: str, facts: DeviceFacts) -> None:
    """Refuse graphs that have more than the kernels can count; near-far counts arcs in 64 bits."""
    if facts.near is not None:
        return
    arcs = max(side.arcs for side in facts.sides)
    if arcs + facts.rows >= MOST_ARCS:  # in a queue a row without arcs counts as one
        said = f"{arcs:,} arcs of a side, and fewer than {MOST_ARCS:,}"
    elif kernel == "bfs" and (queued := facts.rows + arcs // PIECE_ARCS + 1) >= MOST_WORDS:
        said = f"{queued:,} rows and pieces of rows, and fewer than {MOST_WORDS:,}"
    elif kernel == "sssp" and (first := SsspPlan(facts, 0).counted_arcs) >= MOST_WORDS:
        said = f"{first:,} first arcs of rows, and fewer than {MOST_WORDS:,}"
    else:
        return
    raise MemoryBudgetError(
        f"{kernel} on this graph by one rank has {said} can be counted where rows are in host "
        "memory; use more workers, or --device cpu"
    )


def plan_bfs(
    facts: DeviceFacts, budget_bytes: int, most_columns: int = COLUMNS, *, level_bytes: int = 1
) -> BfsPlan:
    """As `fill`, with so many columns at most."""
    return filled(BfsPlan(facts, budget_bytes, level_bytes=level_bytes), most_columns)


def rows_within(offsets: Any, arcs: int) -> int:
    """Rows from the first on that have so many arcs at most; offsets are of NumPy or CuPy."""
    low, high = 0, len(offsets) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if int(offsets[middle]) <= arcs:
            low = middle
        else:
            high = middle - 1
    return low


def describe_device(plan: DevicePlan | RankPlan) -> dict[str, Any]:
    """A plan as a table of names and numbers, JSON-able."""
    arcs = max(plan.facts.arcs, 1)
    return {
        "kernel": plan.kernel,
        "tier": "pinned",
        "device budget": plan.budget_bytes,
        **{f"device bytes: {name}": size for name, size in plan.parts.items()},
        "device bytes: in all": plan.bytes,
        "bytes of pinned host memory": plan.pinned_bytes,
        "arcs of each row on the device": plan.rule,
        "share of arcs on the device": round(min(1, plan.arcs_on_device / arcs), 4),
    }
