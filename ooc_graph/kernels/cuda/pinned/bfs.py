"""BFS on a CUDA device of a graph whose rows stand in pinned host memory.

What a search reads most is on the device too: the first neighbours of all rows, in columns, and the
rows of the hubs. Everything else is read over the bus, where a search comes to it.
"""

from __future__ import annotations

from typing import Any

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.compiled import INT_LEVELS
from ooc_graph.kernels.cuda.bfs.near import MOST_COLUMNS, BfsShare, Near, queue_capacity
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.runtime.modules import free_unused
from ooc_graph.kernels.cuda.runtime.shares import TIERED
from ooc_graph.types import AnyArray, Rows

PULL_ABOVE = (12, 25, 60)
"""How small a share of the arcs a frontier may have to pull, with no column, one, and more.

A pull from a small frontier reads many rows to their ends, which is dear where these are in host
memory. Measured on one H200 at scale 26.
"""


class CudaTierBfsSearch(CudaBfsSearch):
    """As `CudaBfsSearch`, of rows that the device reads where they are.

    Offsets are on the device or in host memory (copied), neighbours the device's view of pinned
    host memory. The ``share`` is copied to the device. Once a search has found more levels than a
    byte can count, levels take four bytes a row, and the share is ``deep`` (None: ``share``) from
    then on.
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        share: BfsShare,
        *,
        deep: BfsShare | None = None,
        original_of: AnyArray | None = None,
        count_arcs: bool = True,
    ) -> None:
        for one in (share, deep or share):
            if not 0 <= one.columns <= MOST_COLUMNS:
                raise UsageError(f"{one.columns} columns: choose 0 to {MOST_COLUMNS}")
        self._share, self._deep = share, deep or share
        self._near: Near | None = None
        super().__init__(out, into, original_of=original_of, count_arcs=count_arcs)

    def _load_heads(self) -> None:
        self._near = Near(self._out, self._into, self._share, self._original_of)
        self._heads = self._near.heads

    def _use(self, level: str, traced_levels: int) -> None:
        if level == INT_LEVELS and self._share != self._deep:
            # The share must be gone before there are wider levels.
            self._share = self._deep
            self._level = self._heads = self._near = None
            # Else parts of it would be taken, and what is left of those be of no use.
            free_unused()
        if self._heads is None:  # or the search before was refused them
            self._load_heads()
        super()._use(level, traced_levels)

    def _queue_capacity(self) -> int:
        return queue_capacity(self._out, self._into)

    def _constants(self) -> dict[str, int | str]:
        return {**TIERED, "PULL_ABOVE": PULL_ABOVE[min(self._share.columns, 2)]}

    def _arguments(self) -> tuple[Any, ...]:
        assert self._near is not None
        return self._near.arguments
