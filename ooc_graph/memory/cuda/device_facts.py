"""What plans for CUDA devices depend on besides budgets, and the one that has no arcs there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ooc_graph.memory.heads import Lengths, Sides

FIXED_BYTES = 16 << 20
"""Small buffers, and what the allocator rounds up."""
QUAD_ROWS = 128
"""Arrays are padded to so many rows."""
COLUMNS = 7
"""Columns of four neighbours at most."""


@dataclass(frozen=True)
class DeviceFacts(Sides):
    """What a plan depends on besides the budgets."""

    rows: int  # of the graph
    sides: tuple[Lengths, ...]  # of rows of out-, and of directed graphs of in-arcs
    longer: tuple[int, ...]  # (COLUMNS,): no in-row from there on has more than 1, 5, 9 … arcs
    longer3: int  # the same of more than 3 arcs
    original_parents: bool  # parents are original ids on the device
    near: np.dtype[Any] | None = None  # of the weights, if SSSP goes by near-far

    @property
    def padded(self) -> int:
        """Rows with those that arrays are padded to."""
        return -(-self.rows // QUAD_ROWS) * QUAD_ROWS


class OnDevice(ABC):
    """What a plan has on the device."""

    @property
    @abstractmethod
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""

    @property
    def bytes(self) -> int:
        """Bytes on the device when most is held."""
        return self.device_bytes

    @property
    def device_bytes(self) -> int:
        """As ``bytes``."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class DevicePlan(OnDevice):
    """What is on the device, within a budget."""

    facts: DeviceFacts
    budget_bytes: int

    kernel: ClassVar[str]
    arc_bytes: ClassVar[int]

    @property
    @abstractmethod
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""

    @property
    @abstractmethod
    def rule(self) -> str:
        """Which arcs are on the device."""

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory."""
        return self.arc_bytes * self.facts.arcs

    def _offsets(self) -> int:
        return 8 * (self.facts.rows + 1) * len(self.facts.sides)


def last_longer(lengths: Any, arcs: int) -> int:
    """The row from which on none has more than so many arcs; lengths are of NumPy or CuPy."""
    longer = (lengths > arcs).nonzero()[0]
    return int(longer[-1]) + 1 if len(longer) else 0


# Of near-far's lists: an entry, entries that a block does alone at most, and of how many rows there
# is one in the two near and in the two far lists.
NEAR_ENTRY_BYTES, NEAR_FRONT, NEAR_LISTS = 16, 2048, (2, 4)


@dataclass(frozen=True)
class NearPlan(DevicePlan):
    """As `DevicePlan`, for SSSP by near-far: what it takes beside the rows, whatever the budget.

    There is room for lengths of 64 bits, which integers of 32 may come to need.
    """

    kernel = "sssp"
    arcs_on_device, rule = 0, "none"

    @property
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""
        facts = self.facts
        # Lengths, and those that rows were relaxed with. In 32 bits integers take 8 bytes less for
        # them than in 64, and distances of 8 bytes besides.
        lengths = 8 if facts.near == np.float32 else 16
        # Tuples, parents, and a look at the tuples while buffers are made.
        state = facts.rows * (4 + 4 + 1 + lengths) + facts.padded // 8
        entries = sum(2 * (facts.rows // share + NEAR_FRONT) for share in NEAR_LISTS)
        return {
            "vertex state": state + NEAR_ENTRY_BYTES * entries,
            "offsets": self._offsets(),
            "names": 4 * facts.rows if facts.original_parents else 0,
            "reserve": FIXED_BYTES,
        }

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory."""
        assert self.facts.near is not None
        return near_arc_bytes(self.facts.near) * self.facts.arcs


def near_arc_bytes(weights: np.dtype[Any]) -> int:
    """Bytes of an arc in pinned memory for SSSP: a neighbour, and a weight as it is stored."""
    return 4 + weights.itemsize
