"""How much of a device each step of a build may hold, computed before bytes move."""

from __future__ import annotations

from dataclasses import dataclass

from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.runtime.pool import PAGE_BYTES, PAGES_LIMIT
from ooc_graph.kernels.cuda.runtime.rows import MOST_ROWS
from ooc_graph.shards.range_runs import KEY_BYTES

FIXED_BYTES = 4 << 20
"""Small tables, and what allocating in steps of the device's pages wastes."""
NUMBERED_BYTES = 24
"""A vertex while it is numbered: sort key, degree, order, internal id, tuples."""
RESIDENT_BYTES = 4
"""A vertex while rows are made: its internal id."""
ORIGINAL_BYTES = 8
"""A vertex whose id stands among others with gaps."""
SHARD_BYTES = 4
"""A shard: where it begins."""
ARC_BYTES = {0: 48, 4: 72, 8: 80}
"""An arc of a range and its part of the offsets while it is sorted, by bytes of its weight."""
BLOCK_PART, KEPT_PART = 16, 4
"""Parts of what vertices leave, for a block of tuples and for tuples that stay on the device."""
LEAST_BLOCK = 1 << 12
MOST_ARCS, CHEAP_ARCS, ROUNDS = 1 << 28, 1 << 26, 16
"""Arcs of a range: at most; where another pass is cheap, so many or a part of all, so that the
disk is busy with one range while the next is sorted."""
RUN_EDGES = 1 << 25
"""Tuples of a sorted run at most: the next one is read while it is sorted and written."""
PAGES_BYTES = 16 * PAGE_BYTES
"""What arrays may leave of the device's pages, where these count."""
_FREE_PART, _RESERVE_BYTES = 20, 256 << 20


@dataclass(frozen=True)
class DevicePlan:
    """Memory of one build on the device.

    UsageError: more vertices than 32 bits name; MemoryBudgetError: vertices alone do not fit.
    """

    limit_bytes: int  # all that it may hold
    vertices: int  # of the input
    gapped: bool  # their ids have gaps
    edge_bytes: int  # of a tuple in a block
    edges: int | None = None  # tuples that could stay on the device; None: unknown, or not wanted

    def __post_init__(self) -> None:
        if self.vertices > MOST_ROWS:
            raise UsageError(
                f"{self.vertices:,} vertices: a device builds graphs of at most {MOST_ROWS:,}; "
                "build on the CPU (--device cpu)"
            )
        self._require(self._numbering_bytes + LEAST_BLOCK * self.edge_bytes, "its vertices")

    @property
    def _numbering_bytes(self) -> int:
        return FIXED_BYTES + NUMBERED_BYTES * self.vertices

    @property
    def _resident_bytes(self) -> int:
        originals = ORIGINAL_BYTES * self.vertices if self.gapped else 0
        return FIXED_BYTES + RESIDENT_BYTES * self.vertices + originals

    def block_edges(self, most: int) -> int:
        """Tuples of a block."""
        left = (
            self.limit_bytes - max(self._numbering_bytes, self._resident_bytes) - self._kept_bytes
        )
        return max(LEAST_BLOCK, min(most, left // BLOCK_PART // self.edge_bytes))

    @property
    def keep(self) -> bool:
        """Whether tuples that were copied to the device stay there."""
        return self._kept_bytes > 0

    @property
    def _kept_bytes(self) -> int:
        if self.edges is None:
            return 0
        wanted = self.edges * self.edge_bytes
        left = self.limit_bytes - max(self._numbering_bytes, self._resident_bytes)
        return wanted if wanted <= left // KEPT_PART else 0

    def range_arcs(
        self,
        arcs: int,
        longest: int,
        weight_bytes: int,
        shards: int,
        block_edges: int,
        *,
        kept: bool,
    ) -> int:
        """Arcs of a range of rows that fit the device, at most ``arcs``, all of a side.

        0 if the ``longest`` row fits only without the tuples that are ``kept`` on the device; if
        not even then, that is a `MemoryBudgetError`. A stored weight has ``weight_bytes``, 0
        without, and a block ``block_edges`` tuples.
        """
        each = ARC_BYTES[weight_bytes]
        left = self.limit_bytes - self._resident_bytes - SHARD_BYTES * shards
        left -= block_edges * self.edge_bytes + (self._kept_bytes if kept else 0)
        missing = longest * each - left
        if missing > 0 and kept:
            return 0
        if missing > 0:
            # A larger budget has larger blocks.
            needed = self.limit_bytes + missing + missing // (BLOCK_PART - 1) + 1
            self._require(needed, "its longest row")
        return min(arcs, left // each)

    def run_edges(self, weight_bytes: int, shards: int, block_edges: int) -> int:
        """Tuples of a sorted run: arcs of both directions are gathered and sorted on the device.

        Meanwhile the arcs of the run before are there as well, on their way to the disk, and two
        blocks. At most `RUN_EDGES`; 0 if not even a block fits.
        """
        each = 2 * (ARC_BYTES[weight_bytes] + KEY_BYTES + weight_bytes)
        left = self.limit_bytes - self._resident_bytes - SHARD_BYTES * shards
        fit = min(RUN_EDGES, (left - 2 * block_edges * self.edge_bytes) // each)
        return fit if fit >= block_edges else 0

    def _require(self, needed_bytes: int, what: str) -> None:
        if needed_bytes > self.limit_bytes:
            raise MemoryBudgetError(
                f"the build of this graph on a device needs at least {needed_bytes:,} bytes of "
                f"its memory for {what}; {self.limit_bytes:,} are there: use a larger device, "
                "or build on the CPU (--device cpu)"
            )


def wanted_arcs(arcs: int, *, cheap: bool) -> int:
    """Arcs of a range if memory is ample, of so many of a side; another pass may be ``cheap``."""
    return min(MOST_ARCS, max(CHEAP_ARCS, arcs // ROUNDS) if cheap else MOST_ARCS)


def runs_pay(passes: int, pass_bytes: float, arc_bytes: float) -> bool:
    """Whether sorted runs cost less than so many passes over the tuples, one a range of rows.

    ``pass_bytes`` is the cost of a pass, for each tuple: bytes that the disk could give or take in
    the same time. ``arc_bytes`` are of an arc in a run; a tuple is two arcs, each written and read.
    Of rows that have a part of all arcs, they are as large a part of it.
    """
    return passes * pass_bytes > pass_bytes + 2 * 2 * arc_bytes


def within_pages(limit_bytes: int) -> int:
    """What arrays of a build may take, so that the pages they lie in keep to a limit."""
    return limit_bytes - (PAGES_BYTES if limit_bytes >= PAGES_LIMIT else 0)


def usable_bytes(free_bytes: int) -> int:
    """What a build takes of so much free device memory."""
    return max(0, free_bytes - free_bytes // _FREE_PART - _RESERVE_BYTES)
