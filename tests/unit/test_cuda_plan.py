"""What a build on a device plans to hold, without a device."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.shards import cuda_plan
from ooc_graph.shards.cuda_plan import DevicePlan, usable_bytes, wanted_arcs

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
    assert DevicePlan(1 << 40, (1 << 32) - 2, False, 8).block_edges(MOST) == MOST
    with pytest.raises(UsageError, match="4,294,967,295 vertices: a device builds graphs of at"):
        DevicePlan(1 << 40, (1 << 32) - 1, False, 8)


def test_ranges_are_small_where_passes_are_cheap() -> None:
    assert wanted_arcs(1 << 40, cheap=False) == cuda_plan.MOST_ARCS
    assert wanted_arcs(1 << 20, cheap=True) == cuda_plan.CHEAP_ARCS
    assert wanted_arcs(1 << 31, cheap=True) == 1 << 27
    assert wanted_arcs(1 << 40, cheap=True) == cuda_plan.MOST_ARCS


def test_some_of_the_free_memory_is_left() -> None:
    assert usable_bytes(0) == 0
    assert (9 << 33) // 10 < usable_bytes(1 << 33) < 1 << 33
