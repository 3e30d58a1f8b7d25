"""What of a graph whose rows stay in the store is within a CUDA device's reach, for SSSP.

Rows ascend by weight, and a search reads their lightest arcs: of each row a share of its first arcs
is within reach, its head. Heads stand on the device as far as there is room, those of the first
rows, and behind that in pinned host memory. As many arcs are held as both have room for; what
the host has left keeps blocks that were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.layout import names
from ooc_graph.memory.cuda import device_facts
from ooc_graph.memory.cuda.disk import STATE_BYTES, DiskFacts, DiskPlan
from ooc_graph.memory.cuda.disk_budget import KEPT_SHARE, begin_plan, with_kept
from ooc_graph.memory.heads import HeadRule, Shared, rules

REQUEST_BYTES = 4 * 5 + 1
"""Of a row in a window on the device, and as much on its way there and back."""
FEW_ROWS = 4096
"""Rows that are pushed whole, at most; 4 bytes each."""
_ARC_BYTES, _BITMAPS = 8, 4
_MOST_ARCS = 1 << 32
# Of a row that is longer than a block while its last weight is read.
_LONG_ROW_BYTES = 28


@dataclass(frozen=True)
class DiskSsspPlan(Shared, DiskPlan):
    """As `DiskPlan`, for SSSP: heads and staging are pinned."""

    share: HeadRule  # arcs of each row that are within reach
    near_arcs: int  # most of them that stand on the device, of each side

    columns = 2
    request_bytes = REQUEST_BYTES
    copied_bytes = REQUEST_BYTES
    host_bitmaps = 1

    @property
    def device_parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts = self.facts
        bitmap = facts.device.padded // 8
        return {
            "vertex state": STATE_BYTES * (facts.rows + 1) + _BITMAPS * bitmap + 4 * FEW_ROWS,
            "places of heads": facts.sides * (4 * (facts.rows + 1) + bitmap),
            "first arcs": _ARC_BYTES * self.arcs_on_device,
            "staging": self.staged_bytes,
            "reserve": device_facts.FIXED_BYTES,
        }

    @property
    def reach_parts(self) -> dict[str, int]:
        """Bytes of host memory for heads."""
        return {"first arcs": _ARC_BYTES * self.arcs_in_host}

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory, at most: with what sets and requests are copied to."""
        if not self.pins:
            return 0
        facts = self.facts
        copied = facts.window * REQUEST_BYTES + facts.device.padded // 8
        return self.staged_host_bytes + copied + _ARC_BYTES * self.arcs_in_host

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""
        return sum(min(kept, self.near_arcs) for kept in self.facts.device.kept(self.share))

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
    def reach(self) -> dict[str, Any]:
        """Which arcs are loaded, JSON-able."""
        return {"arcs of each row at hand": self.rule}

    def _long_rows(self) -> int:
        """Bytes for rows that are longer than a block, whose last weight is read by itself."""
        return _LONG_ROW_BYTES * (self.facts.device.arcs * 4 // names.SIDECAR_BYTES)


def least_disk_sssp(facts: DiskFacts) -> DiskSsspPlan:
    """Plan with the least memory that will do: the first arc of each row, on the device."""
    least = next(rules("sssp"))
    return DiskSsspPlan(facts, 0, 0, least, max(facts.device.kept(least)))


def plan_disk_sssp(
    facts: DiskFacts, device_bytes: int, host_bytes: int, *, may_pin: bool = True
) -> DiskSsspPlan:
    """As `ooc_graph.memory.cuda.disk_bfs_plan.plan_disk_device`, for SSSP."""
    plan, within = begin_plan(least_disk_sssp(facts), device_bytes, host_bytes, may_pin=may_pin)
    plan = _with_heads(plan, within)
    # What is within reach is not read again.
    return plan if plan.share.least >= facts.device.longest else with_kept(plan, within)


def _with_heads(plan: DiskSsspPlan, host_bytes: int) -> DiskSsspPlan:
    """The plan with the longest heads that device and host have room for, on the device first."""
    facts, chosen = plan.facts, plan
    bare = replace(plan, near_arcs=0)
    arcs = (plan.device_budget_bytes - bare.device_bytes) // _ARC_BYTES
    # Blocks that are kept have a share of what heads may take.
    spare = max(host_bytes - plan.host_bytes, 0) if plan.pins else 0
    spare -= spare // KEPT_SHARE
    for share in rules("sssp"):
        more = replace(plan, share=share, near_arcs=_near_arcs(facts, share, arcs))
        too_many = max(facts.device.kept(share)) >= _MOST_ARCS
        if too_many or _ARC_BYTES * more.arcs_in_host > spare:
            break
        chosen = more
    return chosen


def _near_arcs(facts: DiskFacts, share: HeadRule, arcs: int) -> int:
    """Most arcs in heads of each side, of so many of all; what one has none for, the other has."""
    kept = sorted(facts.device.kept(share))
    for index, least in enumerate(kept):
        each = arcs // (len(kept) - index)
        if least >= each:
            return each
        arcs -= least
    return kept[-1]
