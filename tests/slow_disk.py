"""A disk as slow as a test wants it to be, by a clock of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from ooc_graph.layout.names import INTERNAL_OF
from ooc_graph.memory.cpu import columns, disk
from ooc_graph.memory.io_stats import Meter
from tests.said import Said

PATIENCE_S = 60


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, seconds: float) -> None:
        with self._lock:
            self.now_s += seconds


def of_reading(said: Said) -> list[str]:
    """Notes of how fast the disk is, among all."""
    return [note for note in said.notes if "of the store in" in note and "of late" in note]


def slow_down(patch: pytest.MonkeyPatch, seconds: float) -> Clock:
    """Have every request take so many seconds, by the clock, once the search waits for it."""
    read, clock, waits = columns.LastFile.read, Clock(), threading.Event()

    class Seen(Meter):
        @contextmanager
        def waiting(self) -> Iterator[None]:
            with super().waiting():
                waits.set()
                yield
                waits.clear()

    def slow(last: columns.LastFile, path: str, offset: int, buffer: memoryview) -> int:
        if f"/{INTERNAL_OF}/" in path:  # the root is looked up before the search
            return read(last, path, offset, buffer)
        assert waits.wait(PATIENCE_S)
        clock.pass_by(seconds)
        return read(last, path, offset, buffer)

    patch.setattr(disk, "Meter", partial(Seen, clock))
    patch.setattr(columns.LastFile, "read", slow)
    return clock
