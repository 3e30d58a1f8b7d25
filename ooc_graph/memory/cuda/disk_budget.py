"""Budgets of a CUDA device and its host, shared out where rows stay in the store.

A plan begins with what it must have. What there is beyond that is for larger batches, up to a share
of it, for arcs within the device's reach, which is for each kernel to say, and then for blocks that
are kept once they were read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ooc_graph.errors import DEVICE, MemoryBudgetError
from ooc_graph.layout import names
from ooc_graph.memory.cpu.plan import SLACK_SHARE, whole_blocks
from ooc_graph.memory.cuda import disk
from ooc_graph.memory.heads import Sides, require_bytes

STAGING_SHARE = 16
"""Staging takes at most one in this many of the bytes beyond the least."""
KEPT_SHARE = 4
"""Of what hubs or heads may take, and blocks that are kept, one in this many bytes is for these."""
LONGEST_ROW = 1 << 31
"""A row has fewer arcs than this."""

Made = TypeVar("Made", bound=disk.DiskPlan)


def begin_plan(
    least: Made, device_bytes: int, host_bytes: int, *, may_pin: bool
) -> tuple[Made, int]:
    """A plan within budgets that has nothing but what it must; and the host memory it may take.

    If the device's budget is too small, that is a `MemoryBudgetError`, which names the least that
    would do; so is a graph with rows that are longer than the kernels count.
    """
    facts = least.facts
    require_countable(facts.kernel, facts.device)
    require_device(facts, least.device_bytes, device_bytes)
    spare = max(host_bytes - least.host_bytes, 0)
    spare -= spare // SLACK_SHARE
    plan = replace(
        least,
        device_budget_bytes=device_bytes,
        host_budget_bytes=host_bytes,
        batch_blocks=_batch_blocks(least, device_bytes - least.device_bytes, spare),
        pins=may_pin and least.host_bytes <= host_bytes,
    )
    return plan, least.host_bytes + spare


def _batch_blocks(plan: disk.DiskPlan, device_spare: int, host_spare: int) -> int:
    on_device = device_spare // STAGING_SHARE // (plan.columns * names.SIDECAR_BYTES)
    each = 2 * plan.columns * plan.facts.sides * (names.SIDECAR_BYTES + disk.NUMBER_BYTES)
    more = min(
        on_device,
        host_spare // STAGING_SHARE // each,
        disk.MOST_BATCH_BLOCKS - disk.LEAST_BATCH_BLOCKS,
    )
    return disk.LEAST_BATCH_BLOCKS + max(more, 0)


def with_kept(plan: Made, host_bytes: int) -> Made:
    """The plan with as many blocks kept as there is room for, and are worth it: all there are."""
    sides = plan.facts.sides
    tail = plan.arcs_bytes + 4 * plan.columns * sides * names.SIDECAR_BYTES
    rest = max(min(host_bytes - plan.host_bytes, tail) // sides, 0)
    return replace(plan, kept_bytes=whole_blocks(rest))


def require_device(facts: disk.DiskFacts, needed: int, there: int) -> None:
    """Refuse a search that needs more device memory than there is."""
    what = f"{facts.kernel} on {facts.rows:,} rows with arcs in the store"
    require_bytes(what, DEVICE, needed, there, "raise --device-memory")


def require_countable(kernel: str, rows: Sides) -> None:
    """Refuse rows that are longer than the kernels count."""
    if rows.longest >= LONGEST_ROW:
        raise MemoryBudgetError(
            f"{kernel} with arcs in the store has a row of {rows.longest:,} arcs, and fewer "
            f"than {LONGEST_ROW:,} can be counted on a CUDA device; use --device cpu"
        )
