"""What a build on a device plans to hold, without a device."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.runtime.rows import MOST_ROWS
from ooc_graph.shards import cuda_plan
from ooc_graph.shards.cuda_plan import DevicePlan, runs_pay, usable_bytes, wanted_arcs, within_pages

MOST = 1 << 20


def range_arcs(limit: int, vertices: int, longest: int, *, gapped: bool, edges: int | None) -> int:
    """As the build asks: with tuples that stay, else without."""
    plan = DevicePlan(limit, vertices, gapped, 24, edges)
    sizes = (100 * longest, longest, 8, 4, plan.block_edges(MOST))
    return plan.range_arcs(*sizes, kept=True) or plan.range_arcs(*sizes, kept=False)


@settings(max_examples=200)
@given(
    limit=st.integers(0, 1 << 26),
    vertices=st.integers(0, 1 << 20),
    longest=st.integers(1, 1 << 18),
    gapped=st.booleans(),
    edges=st.one_of(st.none(), st.integers(0, 1 << 20)),
)
def test_the_figure_that_a_refusal_names_will_do(
    limit: int, vertices: int, longest: int, gapped: bool, edges: int | None
) -> None:
    for _ in range(3):
        try:
            fit = range_arcs(limit, vertices, longest, gapped=gapped, edges=edges)
        except MemoryBudgetError as error:
            found = re.search(r"at least ([\d,]+) bytes.*; ([\d,]+) are there", str(error))
            assert found is not None
            needed, there = (int(figure.replace(",", "")) for figure in found.groups())
            assert there == limit < needed
            limit = needed
        else:
            assert fit >= longest
            assert fit * cuda_plan.ARC_BYTES[8] <= limit
            return
    pytest.fail("the vertices and the longest row were satisfied, and still it does not fit")


def test_everything_held_at_once_fits() -> None:
    limit, vertices, edges = 1 << 26, 100_000, 50_000
    plan = DevicePlan(limit, vertices, True, 24, edges)
    assert plan.keep
    block = plan.block_edges(MOST)
    arcs = plan.range_arcs(1 << 30, 1000, 4, 8, block, kept=True)
    held = cuda_plan.FIXED_BYTES + 12 * vertices + 24 * (edges + block) + 4 * 8
    assert limit - cuda_plan.ARC_BYTES[4] < held + arcs * cuda_plan.ARC_BYTES[4] <= limit


def test_tuples_stay_only_where_they_take_a_part() -> None:
    assert DevicePlan(1 << 26, 1000, False, 16, 100_000).keep
    assert not DevicePlan(1 << 26, 1000, False, 16, 10_000_000).keep
    assert not DevicePlan(1 << 26, 1000, False, 16, None).keep


def test_vertices_that_32_bits_do_not_name() -> None:
    assert DevicePlan(1 << 40, MOST_ROWS, False, 8).block_edges(MOST) == MOST
    with pytest.raises(UsageError, match="4,293,918,721 vertices: a device builds graphs of at"):
        DevicePlan(1 << 40, MOST_ROWS + 1, False, 8)


def test_ranges_are_small_where_passes_are_cheap() -> None:
    assert wanted_arcs(1 << 40, cheap=False) == cuda_plan.MOST_ARCS
    assert wanted_arcs(1 << 20, cheap=True) == cuda_plan.CHEAP_ARCS
    assert wanted_arcs(1 << 31, cheap=True) == 1 << 27
    assert wanted_arcs(1 << 40, cheap=True) == cuda_plan.MOST_ARCS


def test_some_of_the_free_memory_is_left() -> None:
    assert usable_bytes(0) == 0
    assert (9 << 33) // 10 < usable_bytes(1 << 33) < 1 << 33


@pytest.mark.parametrize("weight_bytes", [0, 4, 8])
def test_a_run_fits_beside_the_one_that_is_written(weight_bytes: int) -> None:
    limit, vertices = 1 << 26, 100_000
    plan = DevicePlan(limit, vertices, True, 24, None)
    block = plan.block_edges(MOST)
    edges = plan.run_edges(weight_bytes, 8, block)
    held = cuda_plan.FIXED_BYTES + 12 * vertices + 4 * 8 + 2 * 24 * block
    each = 2 * (cuda_plan.ARC_BYTES[weight_bytes] + 8 + weight_bytes)
    assert block <= edges
    assert limit - each < held + edges * each <= limit


@settings(max_examples=200)
@given(
    limit=st.integers(6 << 20, 1 << 40),
    vertices=st.integers(0, 1 << 16),
    gapped=st.booleans(),
    weight_bytes=st.sampled_from([0, 4, 8]),
)
def test_runs_hold_whole_blocks_or_there_are_none(
    limit: int, vertices: int, gapped: bool, weight_bytes: int
) -> None:
    plan = DevicePlan(limit, vertices, gapped, 16 + weight_bytes)
    block = plan.block_edges(MOST)
    edges = plan.run_edges(weight_bytes, 1, block)
    assert edges == 0 or block <= edges <= cuda_plan.RUN_EDGES
    each = 2 * (cuda_plan.ARC_BYTES[weight_bytes] + 8 + weight_bytes)
    assert edges * each <= limit
    if edges:
        assert plan.run_edges(weight_bytes, 1, edges + 1) == 0


def test_runs_pay_where_tuples_would_be_read_often() -> None:
    # Tuples of 16 bytes against arcs of 8, which are written and read, two of each tuple.
    assert [runs_pay(passes, 16.0, 8) for passes in (0, 1, 2, 3, 4)] == [False] * 4 + [True]
    # Where tuples stay on the device, or are made there, a pass costs nothing, or next to it.
    assert not runs_pay(1000, 0.0, 8)
    assert not runs_pay(100, 0.25, 8)
    assert runs_pay(1000, 0.25, 8)


def test_arrays_leave_room_for_the_rest_of_their_pages() -> None:
    assert within_pages((512 << 20) - 1) == (512 << 20) - 1
    assert within_pages(512 << 20) == 480 << 20
