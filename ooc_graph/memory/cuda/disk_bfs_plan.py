"""What of a graph whose rows stay in the store is on a CUDA device and in host memory, for BFS.

Computed before rows are read, from their lengths. The device holds all that a search writes, and
the first arcs of the in-rows: the first of each, and behind it columns of four. The columns that it
has no room for stand in pinned host memory, as far as the host's budget goes. What room either
has then takes the out-rows of the hubs, whole, which searches push; and the host keeps blocks that
were read. With no budget the host has what it cannot do without, and pins nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ooc_graph.memory.cuda import device_facts
from ooc_graph.memory.cuda.device_facts import COLUMNS
from ooc_graph.memory.cuda.disk import STATE_BYTES, DiskFacts, DiskPlan
from ooc_graph.memory.cuda.disk_budget import KEPT_SHARE, begin_plan, with_kept
from ooc_graph.memory.heads import Lengths

ENOUGH_COLUMNS = 4
"""Columns at hand from which on hubs, and blocks that are kept, are better than more of them."""
COLUMN_SHARE = 4
"""Behind those a column is held if it takes at most one in this many of what is left."""
MOST_HUBS = 1 << 16
"""Rows that are kept whole, at most."""
REQUEST_BYTES = 4 * 8 + 1
"""Of a row in a window on the device."""
_ARC_BYTES = 4
_BITMAPS = 4  # visited, frontier, found, left


@dataclass(frozen=True)
class DiskDevicePlan(DiskPlan):
    """As `DiskPlan`, for BFS: columns, staging, and what answers are copied to are pinned."""

    # Columns on the device, and behind them in pinned host memory.
    near: int = 0
    far: int = 0
    # Room for arcs of out-rows that are kept whole, on the device and in pinned memory.
    near_hub_arcs: int = 0
    far_hub_arcs: int = 0

    columns = 1
    request_bytes = REQUEST_BYTES
    copied_bytes = 0
    host_bitmaps = 2

    @property
    def near_rows(self) -> tuple[int, ...]:
        """Rows of each column on the device."""
        return self.facts.device.longer[: self.near]

    @property
    def far_rows(self) -> tuple[int, ...]:
        """Rows of each column in host memory."""
        return self.facts.device.longer[self.near : self.near + self.far]

    @property
    def device_parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts = self.facts
        padded = facts.device.padded
        return {
            "vertex state": padded * STATE_BYTES + _BITMAPS * padded // 8,
            "row lengths": 4 * facts.rows * facts.sides,
            "first arcs": 4 * padded + _column_bytes(self.near_rows),
            "hub rows": _ARC_BYTES * self.near_hub_arcs + self._hub_offsets(),
            "staging": self.staged_bytes,
            "reserve": device_facts.FIXED_BYTES,
        }

    @property
    def reach_parts(self) -> dict[str, int]:
        """Bytes of host memory for columns and hubs."""
        return {
            "columns": _column_bytes(self.far_rows),
            "hub rows": _ARC_BYTES * self.far_hub_arcs + self._hub_offsets(),
        }

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory, at most: with what answers are copied to."""
        if not self.pins:
            return 0
        arcs = _column_bytes(self.far_rows) + _ARC_BYTES * self.far_hub_arcs
        return self.staged_host_bytes + STATE_BYTES * self.facts.rows + arcs

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most: those of hubs count twice where they are in columns too."""
        return self.facts.rows + 4 * sum(self.near_rows) + self.near_hub_arcs

    @property
    def arcs_in_host(self) -> int:
        """Arcs in columns and of hubs in host memory, at most."""
        return 4 * sum(self.far_rows) + self.far_hub_arcs

    @property
    def rule(self) -> str:
        """First arcs of each row that are loaded: on the device, and in all."""
        return f"{1 + 4 * self.near} and {1 + 4 * (self.near + self.far)}"

    @property
    def reach(self) -> dict[str, Any]:
        """Which arcs are loaded, JSON-able."""
        return {
            "arcs of each row on the device, and at hand": self.rule,
            "room for arcs of hubs on the device": self.near_hub_arcs,
            "room for arcs of hubs in host memory": self.far_hub_arcs,
        }

    def _hub_offsets(self) -> int:
        """Where rows begin that are kept whole, on the device and in host memory."""
        return 8 * (min(self.facts.rows, MOST_HUBS) + 2)


def _column_bytes(rows: tuple[int, ...]) -> int:
    """Bytes of columns of four neighbours of so many rows each."""
    return 16 * sum(max(count, 1) for count in rows)


def least_disk_plan(facts: DiskFacts) -> DiskDevicePlan:
    """Plan with the least memory that will do, of either kind."""
    return DiskDevicePlan(facts, 0, 0)


def plan_disk_device(
    facts: DiskFacts, device_bytes: int, host_bytes: int, *, may_pin: bool = True
) -> DiskDevicePlan:
    """Plan for BFS with arcs in the store; pins nothing if the host's budget is below the least."""
    plan, within = begin_plan(least_disk_plan(facts), device_bytes, host_bytes, may_pin=may_pin)
    return with_kept(_with_hubs(_with_columns(plan, within), within), within)


def _with_columns(plan: DiskDevicePlan, host_bytes: int) -> DiskDevicePlan:
    """The plan with as many columns as there is room for, on the device first."""
    longer = plan.facts.device.longer
    while plan.near < COLUMNS and longer[plan.near]:
        more = replace(plan, near=plan.near + 1)
        if more.device_bytes > plan.device_budget_bytes:
            break
        plan = more
    while plan.pins and plan.near + plan.far < COLUMNS and longer[plan.near + plan.far]:
        more = replace(plan, far=plan.far + 1)
        left = host_bytes - plan.host_bytes
        if plan.near + plan.far >= ENOUGH_COLUMNS:
            left //= COLUMN_SHARE
        if more.host_bytes - plan.host_bytes > left:
            break
        plan = more
    return plan


def _with_hubs(plan: DiskDevicePlan, host_bytes: int) -> DiskDevicePlan:
    """The plan with room for hubs: all that the device has left, and a share of the host's."""
    most = _arcs_of_longest(plan.facts.device.sides[0], MOST_HUBS)
    near = min(max(plan.device_budget_bytes - plan.device_bytes, 0) // _ARC_BYTES, most)
    far = max(host_bytes - plan.host_bytes, 0) // _ARC_BYTES if plan.pins else 0
    far = min(far - far // KEPT_SHARE, most - near)
    return replace(plan, near_hub_arcs=near, far_hub_arcs=far)


def _arcs_of_longest(side: Lengths, count: int) -> int:
    """Arcs of so many rows at most: the longest ones, so that there are no more in any others."""
    order = np.argsort(side.length)[::-1]
    length, rows = side.length[order], side.rows[order]
    taken = np.clip(count - (np.cumsum(rows) - rows), 0, rows)
    return int(length @ taken)
