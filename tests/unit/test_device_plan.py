"""What of a graph in pinned host memory a device holds too, by budget, without a device."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.bfs import heads as cuda_bfs_heads
from ooc_graph.kernels.cuda.bfs import search as cuda_bfs
from ooc_graph.kernels.cuda.pinned import bfs as cuda_tier_bfs
from ooc_graph.kernels.cuda.pinned import sssp as cuda_tier_sssp
from ooc_graph.kernels.cuda.runtime import rows as cuda_held
from ooc_graph.kernels.cuda.sssp import pull as cuda_sssp_pull
from ooc_graph.memory.cuda import device_facts
from ooc_graph.memory.cuda import pinned_plan as device_plan
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts, last_longer
from ooc_graph.memory.cuda.pinned_plan import (
    BfsPlan,
    describe_device,
    least_plan,
    plan_bfs,
    plan_device,
    rows_within,
)
from ooc_graph.memory.heads import Lengths

ALL_HOST = 1 << 50


def facts_of(
    lengths: np.ndarray, *, directed: bool = False, original_parents: bool = True
) -> DeviceFacts:
    side = Lengths(*np.unique(lengths, return_counts=True))
    longer = tuple(last_longer(lengths, 1 + 4 * k) for k in range(COLUMNS))
    sides = (side,) * (1 + directed)
    return DeviceFacts(len(lengths), sides, longer, last_longer(lengths, 3), original_parents)


def hubs(rows: int) -> np.ndarray:
    """Falling lengths, most of them short."""
    return np.maximum(1, rows // (1 + np.arange(rows)))


@settings(max_examples=200, deadline=None)
@given(
    kernel=st.sampled_from(["bfs", "sssp"]),
    rows=st.integers(1, 3000),
    budget=st.integers(0, 1 << 28),
    directed=st.booleans(),
    original_parents=st.booleans(),
)
def test_plans_fit_and_refusals_name_what_would_do(
    kernel: str, rows: int, budget: int, directed: bool, original_parents: bool
) -> None:
    facts = facts_of(hubs(rows), directed=directed, original_parents=original_parents)
    try:
        plan = plan_device(kernel, facts, budget, ALL_HOST)
    except MemoryBudgetError as error:
        found = re.search(r"at least ([\d,]+) bytes of device memory", str(error))
        assert found is not None
        needed = int(found[1].replace(",", ""))
        assert needed > budget
        plan = plan_device(kernel, facts, needed, ALL_HOST)
        assert plan.bytes <= needed
    else:
        assert plan.bytes <= budget
    assert plan.pinned_bytes == facts.arcs * (4 if kernel == "bfs" else 8)
    if isinstance(plan, BfsPlan):
        assert plan.deep.bytes <= plan.budget_bytes
        assert plan.deep.columns <= plan.columns


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_more_memory_holds_more(kernel: str) -> None:
    facts = facts_of(hubs(1 << 20))
    least = least_plan(kernel, facts).bytes
    held = [
        plan_device(kernel, facts, least + share * facts.arcs // 4, ALL_HOST).arcs_on_device
        for share in range(33)
    ]
    assert held == sorted(held)
    assert held[0] < facts.arcs <= held[-1]


def test_pinned_memory_is_refused_with_what_it_takes() -> None:
    facts = facts_of(hubs(5000))
    with pytest.raises(MemoryBudgetError, match=f"needs {4 * facts.arcs:,} bytes of pinned"):
        plan_device("bfs", facts, 1 << 30, 4 * facts.arcs - 1)


def test_columns_come_before_hubs() -> None:
    facts = facts_of(hubs(5000))
    one = BfsPlan(facts, 0, 1).bytes
    assert plan_bfs(facts, one + 400) == BfsPlan(facts, one + 400, 1, 100)
    assert plan_bfs(facts, one + 400, 0).columns == 0
    assert plan_bfs(facts, 1 << 30).columns == COLUMNS


def test_levels_of_four_bytes_take_the_room_of_columns_and_hubs() -> None:
    facts = facts_of(hubs(1 << 20))
    least = least_plan("bfs", facts)
    assert least.bytes > BfsPlan(facts, 0).bytes + 3 * facts.rows
    plan = plan_device("bfs", facts, least.bytes + 40_000_000, ALL_HOST)
    assert isinstance(plan, BfsPlan)
    more = plan.deep.parts["vertex state"] - plan.parts["vertex state"]
    assert more == 3 * facts.padded + 40 * ((1 << 16) - (1 << 8))
    less = 4 * (plan.arcs_on_device - plan.deep.arcs_on_device)
    assert more - 4 < less < more + 4
    assert plan.bytes - 4 < plan.deep.bytes <= plan.budget_bytes


def large(rows: int, arcs: int) -> DeviceFacts:
    """Facts of a graph that nobody has here: all rows are of the same length."""
    side = Lengths(np.array([arcs // rows]), np.array([rows]))
    longer = tuple(rows if arcs // rows > 1 + 4 * k else 0 for k in range(COLUMNS))
    return DeviceFacts(rows, (side,), longer, rows if arcs // rows > 3 else 0, True)


def test_columns_end_where_their_places_are_no_words_any_more() -> None:
    rows = 800_000_000
    facts = large(rows, 30 * rows)
    assert facts.longer == (rows,) * COLUMNS
    plan = plan_bfs(facts, 1 << 40)
    assert plan.columns == 6  # a seventh would begin beyond 2**32
    assert 5 * rows < 1 << 32 <= 6 * rows
    assert plan.bytes <= 1 << 40


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_more_arcs_than_can_be_counted_are_refused(kernel: str) -> None:
    rows = 1 << 20
    assert (
        plan_device(kernel, large(rows, (1 << 36) - 2 * rows), 1 << 40, ALL_HOST).facts.rows == rows
    )
    with pytest.raises(MemoryBudgetError, match="68,719,476,736 arcs of a side"):
        plan_device(kernel, large(rows, 1 << 36), 1 << 40, ALL_HOST)


def test_more_rows_than_can_be_counted_are_refused() -> None:
    rows = (1 << 32) - 100
    with pytest.raises(MemoryBudgetError, match="rows and pieces of rows"):
        plan_device("bfs", large(rows, rows), 1 << 50, ALL_HOST)
    rows = 860_000_000
    assert plan_device("bfs", large(rows, 5 * rows), 1 << 50, ALL_HOST).facts.rows == rows
    with pytest.raises(MemoryBudgetError, match="4,300,000,000 first arcs of rows"):
        plan_device("sssp", large(rows, 5 * rows), 1 << 50, ALL_HOST)
    # Each side of a directed graph is counted by itself.
    rows = 450_000_000
    facts = large(rows, 6 * rows)
    facts = replace(facts, sides=facts.sides * 2)
    assert plan_device("sssp", facts, 1 << 50, ALL_HOST).facts.rows == rows


def test_plan_and_kernels_count_alike() -> None:
    assert (device_facts.COLUMNS, device_plan.PIECE_ARCS, device_plan.LEAST_ARCS) == (
        cuda_tier_bfs.MOST_COLUMNS,
        cuda_bfs_heads.PIECE_ARCS,
        cuda_tier_sssp.LEAST_ARCS,
    )
    assert device_facts.QUAD_ROWS == cuda_held.QUAD_ROWS
    assert device_plan._SSSP_PIECES == cuda_sssp_pull.PIECE_CAPACITY
    room = {level: cuda_bfs.FIRST_TRACED[name] for level, name in ((1, "u8"), (4, "int"))}
    each = cuda_bfs._TRACE.itemsize
    assert {level: each * count for level, count in room.items()} == device_plan._TRACE_BYTES


def test_rows_within_a_number_of_arcs() -> None:
    offsets = np.array([0, 5, 5, 9, 10], np.uint64)
    assert [rows_within(offsets, arcs) for arcs in (0, 4, 5, 8, 9, 10, 99)] == [0, 0, 2, 2, 3, 4, 4]


def test_rows_that_are_longer() -> None:
    lengths = np.array([9, 2, 6, 1, 1])
    assert [last_longer(lengths, arcs) for arcs in (0, 1, 5, 6, 9)] == [5, 3, 3, 1, 0]


def test_a_plan_as_a_table() -> None:
    plan = plan_device("sssp", facts_of(hubs(5000)), 1 << 26, ALL_HOST)
    table = describe_device(plan)
    parts = [size for name, size in table.items() if name.startswith("device bytes: ")]
    assert sum(parts) == 2 * plan.bytes == 2 * table["device bytes: in all"]
    assert table["tier"] == "pinned"
