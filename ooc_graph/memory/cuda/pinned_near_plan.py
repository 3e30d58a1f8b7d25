"""What is on a CUDA device if SSSP by near-far reads its rows in pinned host memory: no arcs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.memory.cuda import device_facts
from ooc_graph.memory.cuda.device_facts import DevicePlan

# Of near-far's lists: an entry, entries that a block does alone at most, and of how many rows there
# is one in the two near and in the two far lists.
NEAR_ENTRY_BYTES, NEAR_FRONT, NEAR_LISTS = 16, 2048, (2, 4)


@dataclass(frozen=True)
class NearPlan(DevicePlan):
    """As `DevicePlan`, for SSSP by near-far: what it takes beside the rows, whatever the budget.

    There is room for lengths of 64 bits, which integers of 32 may come to need.
    """

    kernel = "sssp"

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
            "reserve": device_facts.FIXED_BYTES,
        }

    @property
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory."""
        assert self.facts.near is not None
        return near_arc_bytes(self.facts.near) * self.facts.arcs

    @property
    def arcs_on_device(self) -> int:
        """Arcs on the device: none."""
        return 0

    @property
    def rule(self) -> str:
        """Which arcs are on the device."""
        return "none"


def near_arc_bytes(weights: np.dtype[Any]) -> int:
    """Bytes of an arc in pinned memory for SSSP: a neighbour, and a weight as it is stored."""
    return 4 + weights.itemsize
