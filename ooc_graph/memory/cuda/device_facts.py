"""What plans for CUDA devices depend on besides budgets, and what all of them say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ooc_graph.memory.cpu.plan import Lengths

FIXED_BYTES = 16 << 20
"""Small buffers, and what the allocator rounds up."""
QUAD_ROWS = 128
"""Arrays are padded to so many rows."""
COLUMNS = 7
"""Columns of four neighbours at most."""


@dataclass(frozen=True)
class DeviceFacts:
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

    @property
    def arcs(self) -> int:
        """Arcs of all sides."""
        return sum(side.arcs for side in self.sides)


@dataclass(frozen=True)
class DevicePlan(ABC):
    """What is on the device, within a budget."""

    facts: DeviceFacts
    budget_bytes: int

    kernel: ClassVar[str]
    arc_bytes: ClassVar[int]

    @property
    @abstractmethod
    def parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""

    @property
    @abstractmethod
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""

    @property
    @abstractmethod
    def rule(self) -> str:
        """Which arcs are on the device."""

    @property
    def bytes(self) -> int:
        """Bytes on the device when most is held."""
        return sum(self.parts.values())

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
