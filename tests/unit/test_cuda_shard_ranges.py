"""Which shards are one task of a build on devices, and how rows of so many arcs are made."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.shards import cuda_shard_ranges
from ooc_graph.shards.cuda_shard_ranges import Fit, ShardRange, apart, dealt, shard_ranges_of

AMPLE = Fit(1 << 40, 10, 100, 100, 0.25, 8, 0)
"""Tuples that are generated: a pass for each 100 arcs."""
SIDES = ["out", "in"]

arcs_of_shards = st.lists(st.integers(0, 1000), min_size=1, max_size=16)
fits = st.builds(
    Fit,
    most=st.integers(50, 2000),
    longest=st.integers(1, 50),
    by_pass=st.integers(50, 2000),
    from_runs=st.integers(50, 2000),
    pass_bytes=st.sampled_from([0.0, 0.25, 16.0]),
    arc_bytes=st.just(8),
    run_edges=st.sampled_from([0, 100]),
)
bounds = st.lists(st.integers(0, 32), max_size=6).map(sorted)


@given(arcs_of_shards, st.sampled_from([1, 2]), bounds, fits, st.integers(1, 5))
def test_every_shard_is_in_one_task(
    arcs: list[int], sides: int, cuts: list[int], fit: Fit, processes: int
) -> None:
    count = len(arcs) * sides
    inside = [min(cut, count) for cut in cuts]
    done = [ShardRange(*pair) for pair in pairwise(inside) if pair[0] < pair[1]][::2]
    tasks = dealt(arcs, SIDES[:sides], done, fit, processes)
    found = [number for some in (*tasks, *done) for number in range(some.first, some.stop)]
    assert sorted(found) == list(range(count))
    assert all(some.first < some.stop for some in tasks)


@given(arcs_of_shards, st.sampled_from([1, 2]), fits)
def test_one_process_makes_no_more_passes_than_for_everything_at_once(
    arcs: list[int], sides: int, fit: Fit
) -> None:
    fit = replace(fit, run_edges=0)
    tasks = dealt(arcs, SIDES[:sides], [], fit, 1)
    passes = [
        fit.passes(sum(arcs[low:high]) for _, low, high in task.spans(SIDES[:sides], len(arcs)))
        for task in tasks
    ]
    assert sum(passes) <= sides * fit.passes([sum(arcs)])


@given(st.integers(0, 10_000), st.integers(1, 500), fits)
def test_ranges_of_the_arcs_that_are_said_are_no_more_than_are_said(
    arcs: int, longest: int, fit: Fit
) -> None:
    """Unless memory, and where rows end, make one more of each: as many as fit are made then."""
    fit = replace(fit, longest=longest, most=max(fit.most, 2 * longest))
    most, ranges = fit.range_arcs(arcs, fit.by_pass), fit.ranges(arcs, fit.by_pass)
    assert most <= fit.most
    if most < fit.most:
        # All but the last have so many at least: a further row did not fit.
        assert ranges * (most - longest) >= arcs
    assert (ranges == 0) == (arcs == 0)


def test_a_process_has_about_as_much_as_another() -> None:
    arcs = [140, *[95] * 15]
    tasks = dealt(arcs, ["out"], [], AMPLE, 4)
    assert [sum(arcs[some.first : some.stop]) for some in tasks] == [425, 380, 380, 380]
    tasks = dealt(arcs, ["out"], [], AMPLE, 8)
    assert [sum(arcs[some.first : some.stop]) for some in tasks] == [235, *[190] * 7]
    assert len(dealt([50, 50], ["out"], [], AMPLE, 4)) == 2
    assert len(dealt([50], SIDES, [], AMPLE, 2)) == 2


def test_each_of_some_processes_has_as_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    arcs = [200] * 16
    assert len(dealt(arcs, ["out"], [], AMPLE, 1)) == 1
    monkeypatch.setattr(cuda_shard_ranges, "MOST_ARCS", 800)
    assert [len(dealt(arcs, ["out"], [], AMPLE, count)) for count in (1, 2, 3)] == [4, 4, 6]
    # Memory for three passes and a bit makes four of them for a task, thirteen for everything.
    little = replace(AMPLE, by_pass=250, most=250)
    assert len(dealt(arcs, ["out"], [], little, 1)) == 1
    assert len(dealt(arcs, ["out"], [], little, 2)) == 4


def test_runs_are_made_once_by_each_process() -> None:
    """A task of a single range passes over all tuples for it; with runs, so does any task."""
    read = replace(AMPLE, by_pass=100, pass_bytes=16.0, run_edges=10)
    arcs = [100] * 32
    assert len(dealt(arcs, ["out"], [], read, 1)) == 1
    assert dealt(arcs, SIDES, [], read, 1) == [ShardRange(0, 64)]
    assert len(dealt(arcs, ["out"], [], read, 4)) == 4
    # A pass or two for each process cost less than its runs.
    assert not read.runs_pay(1, 1 / 32)


def test_shards_of_a_task_by_side() -> None:
    assert ShardRange(0, 8).spans(SIDES, 4) == [("out", 0, 4), ("in", 0, 4)]
    assert ShardRange(3, 6).spans(SIDES, 4) == [("out", 3, 4), ("in", 0, 2)]
    assert ShardRange(5, 6).spans(SIDES, 4) == [("in", 1, 2)]


def test_checkpoints_are_known_by_their_names() -> None:
    tasks = [ShardRange(0, 3), ShardRange(3, 12)]
    assert shard_ranges_of([some.name for some in tasks[::-1]]) == tasks


def test_no_shard_is_taken_twice_of_what_is_recorded() -> None:
    ends = [(0, 4), (0, 2), (2, 3), (3, 6), (7, 8), (5, 9)]
    chosen = apart(ShardRange(*some) for some in ends)
    assert [(some.first, some.stop) for some in chosen] == [(0, 2), (2, 3), (3, 6), (7, 8)]
