"""When garbage is looked for."""

from __future__ import annotations

import gc
import sys
from itertools import pairwise

import pytest
from dask.utils import key_split

from ooc_graph import garbage
from ooc_graph.runtime import leftovers


class Time:
    """A clock, blocks of memory, and a collection that takes 0.1 s of that clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.blocks = 1000.0, 1000
        self.collections: list[float] = []
        monkeypatch.setattr(garbage, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: self.blocks)
        monkeypatch.setattr(gc, "collect", self.collect)
        monkeypatch.setattr(garbage, "_next_s", 0.0)
        monkeypatch.setattr(garbage, "_blocks_left", 0)

    def collect(self) -> None:
        self.collections.append(self.now_s)
        self.now_s += 0.1


def test_garbage_is_collected_in_a_fiftieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch)
    for _ in range(120):
        time.blocks += 100
        garbage.collect_sparingly()
        time.now_s += 0.1
    # Each takes 0.1 s, and 5 s pass between them.
    assert len(time.collections) == 3
    assert min(after - before for before, after in pairwise(time.collections)) >= 5


def test_garbage_is_looked_for_if_much_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time(monkeypatch)
    for blocks, collects in ((1000, 1), (1009, 0), (1011, 1), (1020, 0), (900, 0), (920, 1)):
        before, time.blocks = len(time.collections), blocks
        garbage.collect_sparingly()
        assert len(time.collections) - before == collects, blocks
        time.now_s += 10
    time.now_s += 300
    garbage.collect_sparingly()
    assert len(time.collections) == 4
    gc.disable()
    try:
        time.now_s += 400
        garbage.collect_sparingly()
    finally:
        gc.enable()
    assert len(time.collections) == 4


def test_names_of_tasks_are_forgotten_if_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_MOST_NAMES", 3)
    key_split.cache_clear()
    for number, kept in ((3, 3), (4, 0)):
        for name in range(number):
            key_split(f"search-{name}")
        leftovers.clear_leftovers()
        assert key_split.cache_info().currsize == kept
