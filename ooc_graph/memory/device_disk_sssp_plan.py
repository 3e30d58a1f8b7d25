"""What of a graph whose rows stay in the store is within a CUDA device's reach, for SSSP.

Rows ascend by weight, and a search reads their lightest arcs: of each row a share of its first arcs
is within reach, its head. Heads stand on the device as far as there is room, those of the first
rows, and behind that in pinned host memory. As many arcs are held as both have room for; what
the host has left keeps units that were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout import names
from ooc_graph.memory import device_plan
from ooc_graph.memory.device_disk_plan import (
    KEPT_SHARE,
    LEAST_BATCH_UNITS,
    MOST_BATCH_UNITS,
    ORDER_BYTES,
    READERS,
    STAGING_SHARE,
    WINDOW_ROWS,
    DiskFacts,
    require_countable,
)
from ooc_graph.memory.plan import (
    RESERVE_BYTES,
    SLACK_SHARE,
    STRETCH_ROW_BYTES,
    STRETCH_ROWS,
    UNPACKING_BYTES,
    WINDOW_ROW_BYTES,
    HeadRule,
    rules,
)

REQUEST_BYTES = 4 * 5 + 1
"""Of a row in a window on the device, and as much on its way there and back."""
FEW_ROWS = 4096
"""Rows that are pushed whole, at most; 4 bytes each."""
_ARC_BYTES, _STATE_BYTES, _BITMAPS = 8, 8, 4
_COLUMNS = 2  # neighbours and weights
_MOST_ARCS = 1 << 32
# Of a row that is longer than a unit while its last weight is read.
_LONG_ROW_BYTES = 28


@dataclass(frozen=True)
class DiskSsspPlan:
    """What is where.

    Parameters
    ----------
    facts, device_budget_bytes, host_budget_bytes
        What it was made for.
    share
        Arcs of each row that are within reach.
    near_arcs
        Most of them that stand on the device, of each side.
    batch_units
        Units of neighbours that are fetched at a time.
    kept_bytes
        Host memory for units that were read, of each side.
    pins
        Whether anything is pinned: heads, and staging.
    """

    facts: DiskFacts
    device_budget_bytes: int
    host_budget_bytes: int
    share: HeadRule
    near_arcs: int
    batch_units: int = LEAST_BATCH_UNITS
    kept_bytes: int = 0
    pins: bool = False

    @property
    def device_parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts = self.facts
        bitmap = facts.device.padded // 8
        staged = _COLUMNS * self.batch_units * names.SIDECAR_BYTES
        return {
            "vertex state": _STATE_BYTES * (facts.rows + 1) + _BITMAPS * bitmap + 4 * FEW_ROWS,
            "places of heads": facts.sides * (4 * (facts.rows + 1) + bitmap),
            "first arcs": _ARC_BYTES * self.arcs_on_device,
            "staging": staged + _window(facts) * REQUEST_BYTES,
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
        units = facts.device.arcs * _ARC_BYTES // names.SIDECAR_BYTES
        units += 2 * _COLUMNS * facts.sides * facts.shards
        # Lengths, and places of rows; crc32c of each unit, and where it is kept.
        tables = facts.sides * (4 * facts.rows + 8 * -(-facts.rows // 64)) + 8 * units
        # Two batches, and the numbers of their units.
        staged = 2 * _COLUMNS * self.batch_units * (names.SIDECAR_BYTES + 16)
        unpacking = UNPACKING_BYTES * READERS // 4 if facts.packed else 0
        # A list of each side, and one of what is loaded.
        lists = (facts.sides + 1) * WINDOW_ROW_BYTES + REQUEST_BYTES + ORDER_BYTES
        return {
            "row tables": tables,
            "tree": max(_STATE_BYTES * facts.rows, self._loading()),
            "bitmaps": facts.device.padded // 8,
            "staging": facts.sides * (staged + unpacking) + lists * _window(facts),
            "first arcs": _ARC_BYTES * self.arcs_in_host,
            "kept units": facts.sides * self.kept_bytes,
            "reserve": RESERVE_BYTES,
        }

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory when most is held."""
        return sum(self.host_parts.values())

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned memory among them, at most."""
        if not self.pins:
            return 0
        facts = self.facts
        staged = facts.sides * 2 * _COLUMNS * self.batch_units * names.SIDECAR_BYTES
        copied = _window(facts) * REQUEST_BYTES + facts.device.padded // 8
        return staged + copied + self.host_parts["first arcs"]

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""
        return sum(min(side.kept(self.share), self.near_arcs) for side in self.facts.device.sides)

    @property
    def arcs_in_host(self) -> int:
        """Arcs in host memory, at most: no head is cut in two."""
        total = 0
        for side in self.facts.device.sides:
            kept = side.kept(self.share)
            if kept > self.near_arcs:
                longest = int(self.share.of(side.length).max(initial=0))
                total += kept - max(self.near_arcs - longest, 0)
        return total

    @property
    def rule(self) -> str:
        """Arcs of each row that are within reach."""
        return str(self.share)

    @property
    def held(self) -> dict[str, Any]:
        """Which arcs are at hand, JSON-able."""
        return {"arcs of each row at hand": self.rule}

    def _loading(self) -> int:
        """A chunk of offsets, or how many arcs to read of each row and which rows are short."""
        facts = self.facts
        chunk = min(names.CHUNK_BYTES, 8 * (facts.rows + 1))
        stretch = min(STRETCH_ROWS, facts.rows + 1) * STRETCH_ROW_BYTES
        long_rows = facts.device.arcs * 4 // names.SIDECAR_BYTES
        return max(chunk + stretch, 5 * facts.rows + _LONG_ROW_BYTES * long_rows)


def least_disk_sssp(facts: DiskFacts) -> DiskSsspPlan:
    """Plan with the least memory that will do: the first arc of each row, on the device."""
    least = next(rules("sssp"))
    return DiskSsspPlan(facts, 0, 0, least, _most_kept(facts, least))


def plan_disk_sssp(
    facts: DiskFacts, device_bytes: int, host_bytes: int, *, may_pin: bool = True
) -> DiskSsspPlan:
    """Plan for SSSP on a CUDA device with arcs in the store.

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
    least = least_disk_sssp(facts)
    require_countable(facts)
    if least.device_bytes > device_bytes:
        raise MemoryBudgetError(
            f"{facts.kernel} on {facts.rows:,} rows with arcs in the store needs at least "
            f"{least.device_bytes:,} bytes of device memory, and {device_bytes:,} may be used; "
            "raise --device-memory"
        )
    spare = max(host_bytes - least.host_bytes, 0)
    spare -= spare // SLACK_SHARE
    within = least.host_bytes + spare
    plan = replace(
        least,
        device_budget_bytes=device_bytes,
        host_budget_bytes=host_bytes,
        batch_units=_batch_units(facts, device_bytes - least.device_bytes, spare),
        pins=may_pin and least.host_bytes <= host_bytes,
    )
    plan = _with_heads(plan, within)
    if not spare or plan.share.least >= _longest(facts):
        return plan
    rest = min(within - plan.host_bytes, _tail_bytes(facts)) // facts.sides
    return replace(plan, kept_bytes=max(rest, 0) // names.SIDECAR_BYTES * names.SIDECAR_BYTES)


def _batch_units(facts: DiskFacts, device_spare: int, host_spare: int) -> int:
    on_device = device_spare // STAGING_SHARE // (_COLUMNS * names.SIDECAR_BYTES)
    each = 2 * _COLUMNS * facts.sides * (names.SIDECAR_BYTES + 16)
    more = min(on_device, host_spare // STAGING_SHARE // each, MOST_BATCH_UNITS - LEAST_BATCH_UNITS)
    return LEAST_BATCH_UNITS + max(more, 0)


def _with_heads(plan: DiskSsspPlan, host_bytes: int) -> DiskSsspPlan:
    """The plan with the longest heads that device and host have room for, on the device first."""
    facts, chosen = plan.facts, plan
    bare = replace(plan, near_arcs=0)
    arcs = (plan.device_budget_bytes - bare.device_bytes) // _ARC_BYTES
    # Units that are kept have a share of what heads may take.
    room = max(host_bytes - plan.host_bytes, 0) if plan.pins else 0
    room -= room // KEPT_SHARE
    for share in rules("sssp"):
        more = replace(plan, share=share, near_arcs=_near_arcs(facts, share, arcs))
        too_many = _most_kept(facts, share) >= _MOST_ARCS
        if too_many or _ARC_BYTES * more.arcs_in_host > room:
            break
        chosen = more
    return chosen


def _near_arcs(facts: DiskFacts, share: HeadRule, arcs: int) -> int:
    """Most arcs in heads of each side, of so many of all; what one has none for, the other has."""
    kept = sorted(side.kept(share) for side in facts.device.sides)
    for index, least in enumerate(kept):
        each = arcs // (len(kept) - index)
        if least >= each:
            return each
        arcs -= least
    return kept[-1]


def _most_kept(facts: DiskFacts, share: HeadRule) -> int:
    """Arcs in heads of the side that has most."""
    return max(side.kept(share) for side in facts.device.sides)


def _window(facts: DiskFacts) -> int:
    return min(WINDOW_ROWS, facts.rows + 64)


def _longest(facts: DiskFacts) -> int:
    return max(int(side.length.max(initial=0)) for side in facts.device.sides)


def _tail_bytes(facts: DiskFacts) -> int:
    """Bytes of units that are worth keeping: all there are."""
    return facts.device.arcs * _ARC_BYTES + 4 * _COLUMNS * facts.sides * names.SIDECAR_BYTES
