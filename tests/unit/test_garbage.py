"""When garbage is looked for."""

from __future__ import annotations

import gc
import sys
from itertools import pairwise

import pytest
from dask.utils import key_split

from ooc_graph import garbage
from ooc_graph.runtime import leftovers


def test_garbage_is_collected_in_a_fiftieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [1000.0], []

    def collect() -> None:
        calls.append(now[0])
        now[0] += 0.1

    monkeypatch.setattr(garbage, "monotonic", lambda: now[0])
    monkeypatch.setattr(garbage, "_next_s", 0.0)
    monkeypatch.setattr(gc, "collect", collect)
    for _ in range(120):
        garbage._blocks_left = 0
        garbage.collect_sparingly()
        now[0] += 0.1
    # Each takes 0.1 s, and 5 s pass between them.
    assert len(calls) == 3
    assert min(after - before for before, after in pairwise(calls)) >= 5


def test_garbage_is_not_looked_for_if_hardly_anything_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, blocks = [], [1000]
    monkeypatch.setattr(garbage, "_next_s", 0.0)
    monkeypatch.setattr(garbage, "_SHARE", 0)
    monkeypatch.setattr(garbage, "_blocks_left", 0)
    monkeypatch.setattr(sys, "getallocatedblocks", lambda: blocks[0])
    monkeypatch.setattr(gc, "collect", lambda: calls.append(blocks[0]))
    for blocks[0] in (1000, 1009, 1011, 1020, 900, 1030):
        garbage.collect_sparingly()
    assert calls == [1000, 1011, 1030]


def test_names_of_tasks_are_forgotten_if_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_MOST_NAMES", 3)
    key_split.cache_clear()
    for number, kept in ((3, 3), (4, 0)):
        for name in range(number):
            key_split(f"search-{name}")
        leftovers.clear_leftovers()
        assert key_split.cache_info().currsize == kept
