"""What a tier on disk gave, and how its reading went; and what is said of that if it takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from time import perf_counter

from ooc_graph.forked import in_child
from ooc_graph.layout import names


@dataclass
class IoStats:
    """What a tier gave.

    ``blocks`` and ``bytes`` were read from the disk, or the page cache, by so many ``requests``;
    ``kept_blocks`` were given again without being read. ``rows`` had arcs asked for. Something was
    being read in ``reading_s`` seconds, by one thread or several; ``block_s`` is the sum of the
    blocks', each on its own. The search stood still for ``waited_s``.
    """

    blocks: int = 0
    bytes: int = 0
    kept_blocks: int = 0
    requests: int = 0
    rows: int = 0
    reading_s: float = 0.0
    block_s: float = 0.0
    waited_s: float = 0.0

    def since(self, before: IoStats) -> IoStats:
        """What came since ``before``."""
        fields = zip(self.__dict__.values(), before.__dict__.values(), strict=True)
        return IoStats(*(now - then for now, then in fields))

    def plus(self, other: IoStats) -> IoStats:
        """The sums of two."""
        fields = zip(self.__dict__.values(), other.__dict__.values(), strict=True)
        return IoStats(*map(sum, fields))

    @property
    def kept_bytes(self) -> int:
        """Bytes of blocks given again; those at an array's end count whole."""
        return self.kept_blocks * names.SIDECAR_BYTES

    @property
    def overlap(self) -> float | None:
        """Share of the reading time in which the search did other work; None: nothing was read."""
        return 1 - self.waited_share if self.reading_s > 0 else None

    @property
    def waited_share(self) -> float:
        """Share of the reading time in which the search stood still."""
        return min(self.waited_s / self.reading_s, 1.0) if self.reading_s > 0 else 0.0

    @property
    def blocks_in_flight(self) -> float | None:
        """Units that were being read at a time, on average over the reading time."""
        return self.block_s / self.reading_s if self.reading_s > 0 else None

    @property
    def bytes_s(self) -> float | None:
        """Bytes read in a second of the reading time."""
        return self.bytes / self.reading_s if self.reading_s > 0 else None


class Meter:
    """Measures threads that read, and the one that waits for them; ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reading, self._since, self._bytes = 0, 0.0, 0
        self._waits_since: float | None = None
        self._reading_s = self._block_s = self._waited_s = 0.0

    @contextmanager
    def reading(self, blocks: int) -> Iterator[None]:
        """A thread reads so many blocks in one request."""
        with self._lock:
            # Taken inside, here and below: so they follow each other as the threads do.
            begun = self._clock()
            if not self._reading:
                self._since = begun
            self._reading += 1
        try:
            yield
        finally:
            with self._lock:
                now = self._clock()
                self._reading -= 1
                self._block_s += blocks * (now - begun)
                if not self._reading:
                    self._reading_s += now - self._since

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The search waits; one thread at a time does."""
        begun = self._waits_since = self._clock()
        try:
            yield
        finally:
            self._waits_since = None
            self._waited_s += self._clock() - begun

    def count(self, bytes_: int) -> None:
        """A thread has read so many bytes."""
        with self._lock:
            self._bytes += bytes_

    def now(self) -> IoStats:
        """What was read and how it went, what is under way included; asked by who waits."""
        with self._lock:
            now = self._clock()
            reads_s = now - self._since if self._reading else 0.0
            waits_s = 0.0 if self._waits_since is None else now - self._waits_since
            return IoStats(
                bytes=self._bytes,
                reading_s=self._reading_s + reads_s,
                waited_s=self._waited_s + waits_s,
            )

    def added_to(self, io_stats: IoStats) -> IoStats:
        """A copy with the seconds measured so far; reads under way are not counted yet."""
        with self._lock:
            return replace(
                io_stats,
                reading_s=self._reading_s,
                block_s=self._block_s,
                waited_s=self._waited_s,
            )


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


def current_watch() -> Watch | None:
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
