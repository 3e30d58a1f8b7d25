"""What plans for CUDA devices have in common where rows stay in the store, whatever the kernel.

A search has the same frame: blocks are fetched in batches, two of which are in memory at a time;
rows that want some are listed in windows; and what either memory has room for beside that is for
arcs within reach, and for blocks that are kept. `ooc_graph.memory.cuda.disk_budget` fills it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from ooc_graph.layout import names
from ooc_graph.memory.cpu.plan import RESERVE_BYTES, UNPACKING_BYTES, offsets_bytes, row_table_bytes
from ooc_graph.memory.cuda.device_facts import DeviceFacts

LEAST_BATCH_BLOCKS, MOST_BATCH_BLOCKS = 16, 256
"""Blocks that are fetched at a time."""
WINDOW_ROWS = 1 << 16
"""Most rows that are looked at together."""
READERS = 16
"""Threads that read."""
STATE_BYTES = 8
"""Of a row: what a search finds, on the device and in host memory."""
NUMBER_BYTES = 16
"""The numbers of a block, for two who list them."""
ORDER_BYTES = 24
"""Of a row in a window while it is put in order, or its arcs are counted."""
_COLUMN_BYTES = 4
# Of a row in the list of a window, and its place in each column.
_LISTED_BYTES, _POSITION_BYTES = 32, 8


def listed_bytes(columns: int) -> int:
    """Of a row in the list of a window, if so many columns are fetched."""
    return _LISTED_BYTES + _POSITION_BYTES * columns


def batches_bytes(columns: int, batch_blocks: int, packed: bool) -> int:
    """Host memory of two batches of a side, and the numbers of their blocks."""
    unpacking = UNPACKING_BYTES * READERS // 4 if packed else 0
    return 2 * columns * batch_blocks * (names.SIDECAR_BYTES + NUMBER_BYTES) + unpacking


@dataclass(frozen=True)
class DiskFacts:
    """What a plan depends on besides the budgets."""

    kernel: str  # ``bfs`` or ``sssp``
    device: DeviceFacts  # ``longer`` is what columns are made of
    shards: int  # of the graph
    packed: bool = False  # arcs have fewer bits in the store

    @property
    def rows(self) -> int:
        """Of the graph."""
        return self.device.rows

    @property
    def sides(self) -> int:
        """1, or 2 of directed graphs."""
        return len(self.device.sides)

    @property
    def window(self) -> int:
        """Most rows in a window."""
        return min(WINDOW_ROWS, self.rows + 64)


class TwoMemories(ABC):
    """What is on the device, and what in host memory."""

    @property
    @abstractmethod
    def device_parts(self) -> dict[str, int]:
        """Bytes on the device by purpose."""

    @property
    @abstractmethod
    def host_parts(self) -> dict[str, int]:
        """Bytes of host memory by purpose, when most is held: pinned or not."""

    @property
    def device_bytes(self) -> int:
        """Bytes on the device when most is held."""
        return sum(self.device_parts.values())

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory when most is held."""
        return sum(self.host_parts.values())


@dataclass(frozen=True)
class DiskPlan(TwoMemories):
    """What is where, within budgets."""

    facts: DiskFacts
    device_budget_bytes: int
    host_budget_bytes: int
    _: KW_ONLY
    batch_blocks: int = LEAST_BATCH_BLOCKS  # blocks of neighbours that are fetched at a time
    kept_bytes: int = 0  # host memory for blocks that were read, of each side
    pins: bool = False  # anything is pinned

    columns: ClassVar[int]
    """Columns of the store that are fetched: neighbours, and weights."""
    request_bytes: ClassVar[int]
    """Of a row in a window on the device."""
    copied_bytes: ClassVar[int]
    """Of a row in a window on its way there and back."""
    host_bitmaps: ClassVar[int]
    """Sets of rows that the host has for a while."""

    @property
    @abstractmethod
    def reach_parts(self) -> dict[str, int]:
        """Bytes of host memory, by purpose, for arcs within the device's reach."""

    @property
    @abstractmethod
    def pinned_bytes(self) -> int:
        """Bytes of pinned host memory, at most."""

    @property
    @abstractmethod
    def arcs_on_device(self) -> int:
        """Arcs on the device, at most."""

    @property
    @abstractmethod
    def arcs_in_host(self) -> int:
        """Arcs within its reach in host memory, at most."""

    @property
    @abstractmethod
    def rule(self) -> str:
        """Arcs of each row that are within reach."""

    @property
    def host_parts(self) -> dict[str, int]:
        """Bytes of host memory by purpose, when most is held: pinned or not."""
        facts = self.facts
        batches = batches_bytes(self.columns, self.batch_blocks, facts.packed)
        # A row is in a window of each side, and of what is loaded, in order.
        listed = (facts.sides + 1) * listed_bytes(self.columns) + self.copied_bytes + ORDER_BYTES
        # While rows are loaded: how many arcs to read of each, and which of them are short.
        loading = max(offsets_bytes(facts.rows), 5 * facts.rows + self._long_rows())
        return {
            "row tables": self._tables(),
            "tree": max(STATE_BYTES * facts.rows, loading),
            "bitmaps": self.host_bitmaps * facts.device.padded // 8,
            "staging": facts.sides * batches + facts.window * listed,
            **self.reach_parts,
            "kept blocks": facts.sides * self.kept_bytes,
            "reserve": RESERVE_BYTES,
        }

    @property
    def arcs(self) -> int:
        """Arcs of all sides."""
        return self.facts.device.arcs

    @property
    def arcs_bytes(self) -> int:
        """Bytes of all arcs."""
        return self.arcs * self.columns * _COLUMN_BYTES

    @property
    def staged_bytes(self) -> int:
        """Bytes of a batch of blocks on the device, and of what is asked of it."""
        return self._batch_bytes() + self.facts.window * self.request_bytes

    @property
    def staged_host_bytes(self) -> int:
        """Bytes of the batches of all sides that are in host memory."""
        return 2 * self.facts.sides * self._batch_bytes()

    def _batch_bytes(self) -> int:
        return self.columns * self.batch_blocks * names.SIDECAR_BYTES

    def _tables(self) -> int:
        """Lengths, and places of rows; crc32c of each block, and where it is kept."""
        facts = self.facts
        blocks = (
            self.arcs_bytes // names.SIDECAR_BYTES + 2 * self.columns * facts.sides * facts.shards
        )
        return facts.sides * row_table_bytes(facts.rows) + 8 * blocks

    def _long_rows(self) -> int:
        """Bytes for rows that are looked at once more when all are loaded."""
        return 0


def describe_disk(plan: Any) -> dict[str, Any]:
    """A plan, of whichever kernel, or of ranks, as a table of names and numbers, JSON-able."""
    arcs = max(plan.arcs, 1)
    return {
        "kernel": plan.facts.kernel,
        "tier": "disk",
        "device budget": plan.device_budget_bytes,
        **{f"device bytes: {name}": size for name, size in plan.device_parts.items()},
        "device bytes: in all": plan.device_bytes,
        "host budget": plan.host_budget_bytes,
        **{f"host bytes: {name}": size for name, size in plan.host_parts.items()},
        "host bytes: in all": plan.host_bytes,
        "bytes of pinned host memory": plan.pinned_bytes,
        **plan.reach,
        "share of arcs on the device": round(min(1, plan.arcs_on_device / arcs), 4),
        "share of arcs in host memory": round(min(1, plan.arcs_in_host / arcs), 4),
        "units fetched at a time": plan.batch_blocks,
    }
