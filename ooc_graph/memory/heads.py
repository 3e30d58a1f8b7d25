"""Heads of rows: which arcs of each row a plan keeps in memory or on a device.

Heads are what a search reads most: the first arcs of each row, hubs first for BFS; for SSSP, whose
rows ascend by weight, a share of each row too, since the arcs below any weight are a share of a
row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.errors import HOST, MemoryBudgetError
from ooc_graph.types import AnyArray, IntArray

ALL = 1 << 62
"""Least arcs of a rule that keeps all."""

_HUB_LEAST = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_LIGHT = (
    *((1, shift) for shift in (63, 8, 7, 6)),
    *((least, 6) for least in (2, 3, 4)),
    *((least, 5) for least in (4, 5, 6)),
    *((least, 4) for least in (6, 8, 10, 12)),
    *((least, 3) for least in (12, 16, 20, 24)),
    *((least, 2) for least in (24, 32, 40)),
    *((least, 1) for least in (40, 64)),
)


@dataclass(frozen=True)
class HeadRule:
    """How many arcs of a row are kept in memory: ``least``, and one in ``2**shift`` of its arcs.

    The first of every row is, as ``least`` is 1 at least. From 63 on, ``shift`` adds none.
    """

    least: int
    shift: int = 63

    def of(self, lengths: AnyArray) -> AnyArray:
        """Arcs kept of rows of these lengths, in their dtype."""
        kept: AnyArray = lengths >> min(self.shift, lengths.dtype.itemsize * 8 - 1)
        # What is more than the longest row is as good, and adds up without overflow.
        longest = int(lengths.max(initial=0))
        if self.least >= longest:
            return lengths.copy()
        np.minimum(kept, longest - self.least, out=kept)
        kept += lengths.dtype.type(self.least)
        np.minimum(kept, lengths, out=kept)
        return kept

    def __str__(self) -> str:
        if self.least == ALL:
            return "all"
        share = f" + 1/{1 << self.shift}" if self.shift < 63 else ""
        return f"{self.least}{share}"


def rules(kernel: str) -> Iterator[HeadRule]:
    """Rules for a kernel, each of which keeps at least what the one before it does."""
    if kernel == "bfs":
        yield from (HeadRule(least) for least in _HUB_LEAST)
        yield from (HeadRule(_HUB_LEAST[-1], shift) for shift in (4, 3, 2, 1))
    else:
        yield from (HeadRule(*rule) for rule in _LIGHT)
    yield HeadRule(ALL)


@dataclass(frozen=True)
class Lengths:
    """How many rows of a side, int64, have how many arcs, for each distinct length."""

    length: IntArray
    rows: IntArray

    @property
    def count(self) -> int:
        """Rows."""
        return int(self.rows.sum())

    @cached_property
    def arcs(self) -> int:
        """Arcs of all rows."""
        return int(self.length @ self.rows)

    def kept(self, rule: HeadRule) -> int:
        """Arcs that a rule keeps."""
        return int(rule.of(self.length) @ self.rows)


class Sides:
    """What is known of rows whose lengths are known, by side."""

    sides: tuple[Lengths, ...]

    @property
    def arcs(self) -> int:
        """Arcs of all sides."""
        return sum(side.arcs for side in self.sides)

    @property
    def longest(self) -> int:
        """Arcs of the longest row."""
        return max(int(side.length.max(initial=0)) for side in self.sides)

    def kept(self, rule: HeadRule) -> list[int]:
        """Arcs that a rule keeps of each side."""
        return [side.kept(rule) for side in self.sides]


class Shared:
    """A plan that has a share of each row on the device."""

    facts: Any
    share: HeadRule

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""
        return sum(self.facts.kept(self.share))

    @property
    def rule(self) -> str:
        """Which arcs of each row are within the device's reach."""
        return str(self.share)


def require_bytes(
    what: str, kind: str, needed: int, there: int, advice: str, *, of: str = ""
) -> None:
    """Refuse what needs more memory of a kind than there is; ``of`` says whose memory it is."""
    if needed > there:
        said = (
            f"{what} needs at least {needed:,} bytes of {kind} memory{of}, and {there:,} may be "
            f"used; {advice}"
        )
        raise MemoryBudgetError(said).needing(needed, kind)


def require_in_worker(what: str, needed: int, there: int, advice: str, kind: str = "") -> None:
    """Refuse what needs more memory than a worker has; ``kind`` is named unless it is empty."""
    if needed > there:
        needs = f"{needed:,} bytes of {kind} memory" if kind else f"at least {needed:,} bytes"
        said = f"{what} needs {needs} in one worker, and a worker may use {there:,}; {advice}"
        raise MemoryBudgetError(said).needing(needed, kind or HOST)
