"""When garbage is looked for."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest

from ooc_graph import garbage


def test_garbage_is_collected_in_a_fiftieth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = [1000.0], []

    def collect() -> None:
        calls.append(now[0])
        now[0] += 0.1

    monkeypatch.setattr(garbage, "monotonic", lambda: now[0])
    monkeypatch.setattr(garbage, "_next_s", 0.0)
    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 1))
    for _ in range(120):
        garbage.collect_sparingly()
        now[0] += 0.1
    # Each takes 0.1 s, and 5 s pass between them.
    assert len(calls) == 3
    assert min(after - before for before, after in pairwise(calls)) >= 5


def test_garbage_is_not_looked_for_if_nothing_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(garbage, "_next_s", 0.0)
    monkeypatch.setattr(gc, "collect", lambda: calls.append(1))
    monkeypatch.setattr(gc, "get_count", lambda: (700, 10, 0))
    garbage.collect_sparingly()
    assert not calls
