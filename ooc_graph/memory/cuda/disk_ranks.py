"""What of the rows of one worker's ranks is on its CUDA device, if their arcs are in the store.

Computed before rows are read. The device holds all that is written, offsets, and the first arcs of
each row, the heads: as large a share of each row as there is room for. Host memory holds lengths of
rows, batches of blocks on their way to the device, and blocks that are kept once they were read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.errors import DEVICE, HOST
from ooc_graph.layout import names
from ooc_graph.memory.cpu import plan as cpu_plan
from ooc_graph.memory.cuda.disk import (
    ORDER_BYTES,
    WINDOW_ROWS,
    TwoMemories,
    batches_bytes,
    listed_bytes,
)
from ooc_graph.memory.cuda.disk_budget import require_countable
from ooc_graph.memory.cuda.pinned_ranks import RankFacts
from ooc_graph.memory.heads import HeadRule, require_bytes, rules

BATCH_BLOCKS = 32
"""Blocks of neighbours that a rank fetches at a time."""
REQUEST_BYTES = 5 * 4 + 1
"""Of a row in a window on the device, and on its way there: words of its request, and a flag."""
# Of a row on the device: offsets of its head and of all its arcs. Of a row of SSSP beside
# distances: where it goes on in its tail.
_OFFSET_BYTES, _CURSOR_BYTES = 8, 4
# Of a row in a window of ranks that own their distances, beside a distance: where its neighbours
# and its weights are, how many of them are pushed, and arcs before them.
_MEASURED_BYTES = 4 * 8
# Sets of rows: those that are longer than their heads, that wait, that want arcs, and a copy.
_BITMAPS = 4
# Of a row in host memory while its side is loaded: arcs to read, those on the device, offsets.
_LOADED_ROW_BYTES = 28


@dataclass(frozen=True)
class DiskRankFacts:
    """What a plan for the ranks of one worker depends on beside the budgets.

    ``host_bytes`` is host memory of a search beside its rows: id tables and the answer. Ranks that
    own their distances push along fetched arcs by other steps.
    """

    ranks: RankFacts
    shards: int  # ranks of the worker
    id_bytes: int
    distance_bytes: int
    host_bytes: int
    packed: bool
    owns_distances: bool = False

    @property
    def kernel(self) -> str:
        """``bfs`` or ``sssp``."""
        return self.ranks.kernel

    @property
    def tail_bytes(self) -> int:
        """Device memory of a row that SSSP takes to go on along its tail."""
        distances = 1 if self.owns_distances else 2
        return _CURSOR_BYTES + distances * self.distance_bytes if self.kernel == "sssp" else 0

    @property
    def request_bytes(self) -> int:
        """Device memory of a row in a window."""
        measured = _MEASURED_BYTES + self.distance_bytes
        return REQUEST_BYTES + (measured if self.owns_distances else 0)

    @property
    def columns_bytes(self) -> int:
        """Bytes that are fetched for a block of neighbours, weights included."""
        weight_bytes = self.ranks.arc_bytes - self.id_bytes
        wider = max(1, weight_bytes // self.id_bytes) if weight_bytes else 0
        return (1 + wider) * names.SIDECAR_BYTES


@dataclass(frozen=True)
class DiskRankPlan(TwoMemories):
    """What is where, within budgets."""

    facts: DiskRankFacts
    device_budget_bytes: int
    host_budget_bytes: int
    share: HeadRule  # arcs of each row that are on the device
    kept_bytes: int = 0  # host memory for blocks that were read, of each side

    batch_blocks = BATCH_BLOCKS
    pinned_bytes = arcs_in_host = 0

    @property
    def device_parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts, sides = self.facts, self.facts.ranks.sides
        rows = sum(side.count for side in sides) * facts.shards // len(sides)
        offsets = sum(side.count + 1 for side in sides) + rows + facts.shards
        bitmaps = sum(8 * -(-side.count // 64) for side in sides)
        staged = BATCH_BLOCKS * facts.columns_bytes
        requests = sum(self._window(side.count) for side in sides) * facts.request_bytes
        return {
            "vertex state": facts.ranks.state_bytes + rows * facts.tail_bytes,
            "row tables": _OFFSET_BYTES * offsets + _BITMAPS * bitmaps,
            "first arcs": facts.ranks.arc_bytes * self.arcs_on_device,
            "staging": len(sides) * staged + requests,
        }

    @property
    def host_parts(self) -> dict[str, int]:
        """Bytes of host memory by purpose, when most is held."""
        facts, sides = self.facts, self.facts.ranks.sides
        columns = facts.columns_bytes // names.SIDECAR_BYTES
        tables = sum(cpu_plan.row_table_bytes(side.count) for side in sides)
        blocks = facts.ranks.pinned_bytes // names.SIDECAR_BYTES + 4 * len(sides)
        batches = batches_bytes(columns, BATCH_BLOCKS, facts.packed)
        listed = listed_bytes(columns) + ORDER_BYTES + REQUEST_BYTES
        windows = sum(self._window(side.count) for side in sides) * listed
        most = max(side.count for side in sides)
        return {
            "row tables": tables + 8 * blocks,
            "vertices": max(
                facts.host_bytes, cpu_plan.offsets_bytes(most), _LOADED_ROW_BYTES * most
            ),
            "staging": len(sides) * batches + windows,
            "kept blocks": len(sides) * self.kept_bytes,
            "reserve": cpu_plan.RESERVE_BYTES,
        }

    @property
    def arcs(self) -> int:
        """Arcs of all sides."""
        return self.facts.ranks.arcs

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device."""
        return sum(self.facts.ranks.kept(self.share))

    @property
    def reach(self) -> dict[str, Any]:
        """Which arcs are on the device, JSON-able."""
        return {"arcs of each row at hand": str(self.share)}

    def _window(self, rows: int) -> int:
        return min(WINDOW_ROWS, rows + 64)


def require_disk_ranks(every: Sequence[DiskRankFacts], device_bytes: int, host_bytes: int) -> None:
    """Refuse ranks if the worker that needs most of either memory has too little of it."""
    least = [least_disk_ranks(facts) for facts in every]
    for facts in every:
        require_countable(facts.kernel, facts.ranks)
    what = f"{every[0].kernel} by ranks with arcs in the store"
    for kind, option, needed, there in (
        (DEVICE, "--device-memory", max(plan.device_bytes for plan in least), device_bytes),
        (HOST, "--memory-limit", max(plan.host_bytes for plan in least), host_bytes),
    ):
        advice = f"raise {option}, or add workers"
        require_bytes(what, kind, needed, there, advice, of=" in one worker")


def plan_disk_ranks(facts: DiskRankFacts, device_bytes: int, host_bytes: int) -> DiskRankPlan:
    """Plan for the ranks of one worker; errors are those of `require_disk_ranks`."""
    require_disk_ranks([facts], device_bytes, host_bytes)
    least = least_disk_ranks(facts)
    plan = replace(least, device_budget_bytes=device_bytes, host_budget_bytes=host_bytes)
    for share in rules(facts.kernel):
        more = replace(plan, share=share)
        if more.device_bytes > device_bytes:
            break
        plan = more
    if plan.arcs_on_device == plan.arcs:
        return plan
    spare = host_bytes - least.host_bytes
    arcs_bytes = facts.ranks.pinned_bytes // len(facts.ranks.sides)
    each = min((spare - spare // cpu_plan.SLACK_SHARE) // len(facts.ranks.sides), arcs_bytes)
    return replace(plan, kept_bytes=cpu_plan.whole_blocks(each))


def least_disk_ranks(facts: DiskRankFacts) -> DiskRankPlan:
    """Plan with the least memory of either kind that is enough."""
    return DiskRankPlan(facts, 0, 0, next(rules(facts.kernel)))
