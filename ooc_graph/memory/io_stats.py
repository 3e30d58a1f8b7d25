"""What a tier on disk gave, and how its reading went during the search."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter

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
