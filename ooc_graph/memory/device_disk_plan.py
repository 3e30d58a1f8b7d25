"""What of a graph whose rows stay in the store is on a CUDA device and in host memory, for BFS.

Computed before rows are read, from their lengths. The device holds all that a search writes, and
the first arcs of the in-rows: the first of each, and behind it columns of four. The columns that it
has no room for stand in pinned host memory, as far as the host's budget goes. What room either
has then takes the out-rows of the hubs, whole, which searches push; and the host keeps units that
were read. With no budget the host has what it cannot do without, and pins nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout import names
from ooc_graph.memory import device_plan
from ooc_graph.memory.device_plan import COLUMNS, DeviceFacts
from ooc_graph.memory.plan import (
    RESERVE_BYTES,
    SLACK_SHARE,
    STRETCH_ROW_BYTES,
    STRETCH_ROWS,
    UNPACKING_BYTES,
    Lengths,
)

LEAST_BATCH_UNITS, MOST_BATCH_UNITS = 16, 256
"""Units that are fetched at a time."""
STAGING_SHARE = 16
"""Staging takes at most one in this many of the bytes beyond the least."""
ENOUGH_COLUMNS = 4
"""Columns at hand from which on hubs, and units that are kept, are better than more of them."""
COLUMN_SHARE = 4
"""Behind those a column is held if it takes at most one in this many of what is left."""
MOST_HUBS = 1 << 16
"""Rows that are held whole, at most."""
KEPT_SHARE = 4
"""Of what hubs may take, and units that are kept, one in this many bytes is for the latter."""
WINDOW_ROWS = 1 << 16
"""Most rows that are looked at together."""
READERS = 16
"""Threads that read."""
REQUEST_BYTES = 4 * 8 + 1
"""Of a row in a window on the device."""
ORDER_BYTES = 24
"""Of a row in a window, in host memory, while it is put in order, or arcs are counted."""
# Visited, frontier, found, left; and those that the host has of them for a while.
_BITMAPS, _HOST_BITMAPS = 4, 2
_ARC_BYTES, _STATE_BYTES = 4, 8
# Of a row in the list of a window, which has a place in one column.
_WINDOW_ROW_BYTES = 5 * 8
_LONGEST = 1 << 31


@dataclass(frozen=True)
class DiskFacts:
    """What a plan depends on beside the budgets.

    Parameters
    ----------
    kernel
        ``bfs`` or ``sssp``.
    device
        Rows and their lengths; ``longer`` is what columns are made of.
    shards
        Of the graph.
    packed
        Whether arcs have fewer bits in the store.
    """

    kernel: str
    device: DeviceFacts
    shards: int
    packed: bool = False

    @property
    def rows(self) -> int:
        """Of the graph."""
        return self.device.rows

    @property
    def sides(self) -> int:
        """1, or 2 of directed graphs."""
        return len(self.device.sides)


@dataclass(frozen=True)
class DiskDevicePlan:
    """What is where.

    Parameters
    ----------
    facts, device_budget_bytes, host_budget_bytes
        What it was made for.
    near, far
        Columns on the device, and behind them in pinned host memory.
    batch_units
        Units that are fetched at a time.
    kept_bytes
        Host memory for units that were read, of each side.
    pins
        Whether anything is pinned: columns, staging, and what answers are copied to.
    near_hub_arcs, far_hub_arcs
        Room for arcs of out-rows that are held whole, on the device and in pinned memory.
    """

    facts: DiskFacts
    device_budget_bytes: int
    host_budget_bytes: int
    near: int = 0
    far: int = 0
    batch_units: int = LEAST_BATCH_UNITS
    kept_bytes: int = 0
    pins: bool = False
    near_hub_arcs: int = 0
    far_hub_arcs: int = 0

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
            "vertex state": padded * _STATE_BYTES + _BITMAPS * padded // 8,
            "row lengths": 4 * facts.rows * facts.sides,
            "first arcs": 4 * padded + 16 * sum(max(rows, 1) for rows in self.near_rows),
            "hub rows": _ARC_BYTES * self.near_hub_arcs + self._hub_places(),
            "staging": self.batch_units * names.SIDECAR_BYTES + self._window() * REQUEST_BYTES,
            "reserve": device_plan.FIXED_BYTES,
        }

    @property
    def device_bytes(self) -> int:
        """Bytes on the device when most is held."""
        return sum(self.device_parts.values())

    @property
    def host_parts(self) -> dict[str, int]:
        """Bytes of host memory by purpose, when most is held: pinned or not."""
        facts = self.facts
        sides, padded = facts.sides, facts.device.padded
        units = facts.device.arcs * _ARC_BYTES // names.SIDECAR_BYTES + 2 * sides * facts.shards
        # Places of rows; crc32c of each unit, and where it is kept.
        tables = sides * (4 * facts.rows + 8 * -(-facts.rows // 64)) + 8 * units
        return {
            "row tables": tables,
            "tree": max(_STATE_BYTES * facts.rows, self._loading()),
            "bitmaps": _HOST_BITMAPS * padded // 8,
            "staging": sides * self._batches() + self._lists(),
            "columns": 16 * sum(max(rows, 1) for rows in self.far_rows),
            "hub rows": _ARC_BYTES * self.far_hub_arcs + self._hub_places(),
            "kept units": sides * self.kept_bytes,
            "reserve": RESERVE_BYTES,
        }

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory when most is held."""
        return sum(self.host_parts.values())

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned memory among them."""
        if not self.pins:
            return 0
        facts, parts = self.facts, self.host_parts
        staged = facts.sides * 2 * self.batch_units * names.SIDECAR_BYTES
        copied = _STATE_BYTES * facts.rows
        return staged + copied + parts["columns"] + _ARC_BYTES * self.far_hub_arcs

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
        """First arcs of each row at hand: on the device, and in all."""
        return f"{1 + 4 * self.near} and {1 + 4 * (self.near + self.far)}"

    @property
    def held(self) -> dict[str, Any]:
        """Which arcs are at hand, JSON-able."""
        return {
            "arcs of each row on the device, and at hand": self.rule,
            "room for arcs of hubs on the device": self.near_hub_arcs,
            "room for arcs of hubs in host memory": self.far_hub_arcs,
        }

    def _window(self) -> int:
        return min(WINDOW_ROWS, self.facts.rows + 64)

    def _hub_places(self) -> int:
        """Where rows begin that are held whole, on the device and in host memory."""
        return 8 * (min(self.facts.rows, MOST_HUBS) + 2)

    def _batches(self) -> int:
        """Two batches of a side, and the numbers of their units, for those who list them."""
        unpacking = UNPACKING_BYTES * READERS // 4 if self.facts.packed else 0
        return 2 * self.batch_units * (names.SIDECAR_BYTES + 16) + unpacking

    def _lists(self) -> int:
        """A window of each side, and one of what is loaded, in order."""
        return self._window() * ((self.facts.sides + 1) * _WINDOW_ROW_BYTES + ORDER_BYTES)

    def _loading(self) -> int:
        """A chunk of offsets, or how many arcs to read of each row and which rows have any."""
        chunk = min(names.CHUNK_BYTES, 8 * (self.facts.rows + 1))
        stretch = min(STRETCH_ROWS, self.facts.rows + 1) * STRETCH_ROW_BYTES
        return max(chunk + stretch, 5 * self.facts.rows)


def least_disk_plan(facts: DiskFacts) -> DiskDevicePlan:
    """Plan with the least memory that will do, of either kind."""
    return DiskDevicePlan(facts, 0, 0)


def plan_disk_device(
    facts: DiskFacts, device_bytes: int, host_bytes: int, *, may_pin: bool = True
) -> DiskDevicePlan:
    """Plan for a search on a CUDA device with arcs in the store.

    Parameters
    ----------
    device_bytes
        Device memory.
    host_bytes
        Host memory. Where it is less than the host does with, down to 0, nothing is pinned, and the
        plan takes what it must.
    may_pin
        Whether host memory can be pinned.

    Raises
    ------
    MemoryBudgetError
        The device's budget is too small, and says the least that would do; or the graph has rows
        that are longer than the kernels count.
    """
    least = least_disk_plan(facts)
    require_countable(facts)
    if least.device_bytes > device_bytes:
        raise MemoryBudgetError(
            f"{facts.kernel} on {facts.rows:,} rows with arcs in the store needs at least "
            f"{least.device_bytes:,} bytes of device memory, and {device_bytes:,} may be used; "
            "raise --device-memory"
        )
    spare = max(host_bytes - least.host_bytes, 0)
    spare -= spare // SLACK_SHARE
    pins = may_pin and least.host_bytes <= host_bytes
    batch = _batch_units(facts, device_bytes - least.device_bytes, spare)
    plan = DiskDevicePlan(facts, device_bytes, host_bytes, batch_units=batch, pins=pins)
    within = least.host_bytes + spare
    plan = _with_hubs(_with_columns(plan, within), within)
    if not spare:
        return plan
    rest = min(within - plan.host_bytes, _tail_bytes(plan)) // facts.sides
    return replace(plan, kept_bytes=max(rest, 0) // names.SIDECAR_BYTES * names.SIDECAR_BYTES)


def _batch_units(facts: DiskFacts, device_spare: int, host_spare: int) -> int:
    on_device = device_spare // STAGING_SHARE // names.SIDECAR_BYTES
    in_host = host_spare // STAGING_SHARE // (2 * facts.sides * (names.SIDECAR_BYTES + 16))
    more = min(on_device, in_host, MOST_BATCH_UNITS - LEAST_BATCH_UNITS)
    return LEAST_BATCH_UNITS + max(more, 0)


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


def _tail_bytes(plan: DiskDevicePlan) -> int:
    """Bytes of units that are worth keeping: all there are."""
    return plan.facts.device.arcs * _ARC_BYTES + 4 * plan.facts.sides * names.SIDECAR_BYTES


def require_countable(facts: DiskFacts) -> None:
    """Refuse rows that are longer than the kernels count.

    Raises
    ------
    MemoryBudgetError
    """
    longest = max((int(side.length.max(initial=0)) for side in facts.device.sides), default=0)
    if longest >= _LONGEST:
        raise MemoryBudgetError(
            f"{facts.kernel} with arcs in the store has a row of {longest:,} arcs, and fewer than "
            f"{_LONGEST:,} can be counted on a CUDA device; use more workers, or --device cpu"
        )


def describe_disk(plan: Any) -> dict[str, Any]:
    """A plan, of whichever kernel, as a table of names and numbers, JSON-able."""
    arcs = max(plan.facts.device.arcs, 1)
    return {
        "kernel": plan.facts.kernel,
        "tier": "disk",
        "device budget": plan.device_budget_bytes,
        **{f"device bytes: {name}": size for name, size in plan.device_parts.items()},
        "device bytes: in all": plan.device_bytes,
        "host budget": plan.host_budget_bytes,
        **{f"host bytes: {name}": size for name, size in plan.host_parts.items()},
        "host bytes: in all": plan.host_bytes,
        "bytes of pinned host memory": plan.pinned_bytes,
        **plan.held,
        "share of arcs on the device": round(min(1, plan.arcs_on_device / arcs), 4),
        "share of arcs in host memory": round(min(1, plan.arcs_in_host / arcs), 4),
        "units fetched at a time": plan.batch_units,
    }
