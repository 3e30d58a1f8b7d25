"""What is said while a search reads a store for long: how much, how fast, and whether it waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ooc_graph.forked import in_child
from ooc_graph.memory.io_stats import IoStats, Meter

INTERVAL_S = 5.0
"""Seconds of reading that are looked at together; the first line is said after so many."""
SLOW_BYTES_S = 50e6
"""A disk that gives less is called slow, whatever it gave before. It is a choice, not a measure."""
SLOW_SHARE = 0.25
"""So is one that gives less than this share of what it gave at best in the same search."""
BEST_BYTES = 16 << 20
"""Least bytes of which a rate is taken as what the disk can give."""
SLOWER = "the disk is slower than expected"
_WAITS_SHARE = 0.5


class Watch:
    """Says how reading goes, at growing intervals: after 5 seconds of reading, 10, 20 and so on.

    That a disk is slower than expected is said with it, and the first time at once; not of what is
    read while the search does other work. The lines go to ``say``, by the thread that searches. The
    interval to the next line grows ``growth`` times; 1: a line every 5 seconds of reading.
    """

    def __init__(self, say: Callable[[str], None], growth: int = 2) -> None:
        self._say, self._growth = say, growth
        self._begun: dict[Meter, IoStats] = {}
        self._interval = self._sprint = IoStats()
        self._best_bytes_s = 0.0
        self._next_s = INTERVAL_S
        self._has_said_slow = False

    def begin(self, meter: Meter) -> None:
        """Take account of what a meter measures from now on; again, it changes nothing."""
        if meter not in self._begun:
            self._begun[meter] = meter.now()

    def look(self) -> None:
        """Say how it stands, if it is time to."""
        now = IoStats()
        for meter, begun in self._begun.items():
            now = now.plus(meter.now().since(begun))
        sprint, interval = now.since(self._sprint), now.since(self._interval)
        expected, why = self._expected()
        if sprint.bytes >= BEST_BYTES:
            self._sprint = now
            self._best_bytes_s = max(self._best_bytes_s, sprint.bytes_s or 0.0)
        if interval.reading_s < INTERVAL_S:
            return
        self._interval = now
        rate_bytes_s = interval.bytes_s or 0.0
        is_slow = rate_bytes_s < expected and interval.waited_share >= _WAITS_SHARE
        if now.reading_s < self._next_s and (self._has_said_slow or not is_slow):
            return
        self._next_s = max(self._growth * self._next_s, now.reading_s + INTERVAL_S)
        self._has_said_slow = self._has_said_slow or is_slow
        rate = f"{rate_bytes_s / 1e6:,.1f} MB/s"
        slow = f"; {SLOWER}: it gives {rate}, {why}" if is_slow else ""
        self._say(
            f"read {now.bytes / 1e6:,.1f} MB of the store in {now.reading_s:.0f} s of reading, "
            f"{rate} of late; it waited for the disk in {100 * now.waited_share:.0f} % of that "
            f"time{slow}"
        )

    def _expected(self) -> tuple[float, str]:
        """Bytes a second below which the disk is slow, and what is said then."""
        best = self._best_bytes_s
        if SLOW_SHARE * best > SLOW_BYTES_S:
            return SLOW_SHARE * best, f"and gave {best / 1e6:,.0f} MB/s before"
        return SLOW_BYTES_S, f"where {SLOW_BYTES_S / 1e6:.0f} MB/s are the least to be expected"


_current: ContextVar[Watch | None] = ContextVar("ooc_graph_reading_watch", default=None)
in_child(lambda: _current.set(None))


def current() -> Watch | None:
    """What watches the searches of this thread."""
    return _current.get()


@contextmanager
def watched_by(watch: Watch | None) -> Iterator[None]:
    """Have the searches of this thread watched."""
    token = _current.set(watch)
    try:
        yield
    finally:
        _current.reset(token)
