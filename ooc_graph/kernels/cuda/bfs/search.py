"""BFS on a graph that one CUDA device holds whole: rows, buffers and the one launch of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.cuda.bfs.compiled import (
    BLOCK,
    BUFFER_BYTES,
    BYTE_LEVELS,
    INT_LEVELS,
    ROUGH_WORDS,
    constants,
)
from ooc_graph.kernels.cuda.bfs.heads import Heads
from ooc_graph.kernels.cuda.bfs.short_rows import FixedRows, are_short
from ooc_graph.kernels.cuda.runtime.modules import cuda, limits, on_all, within_memory
from ooc_graph.kernels.cuda.runtime.rows import (
    NULL,
    QUAD_ROWS,
    originals_on_device,
    require_root,
    rows_on_device,
    seconds_of,
)
from ooc_graph.types import AnyArray, Rows

_OPEN_BELOW = 32
_MAPS = 4
_STATE_WORDS = 64
_TRACE_FIELDS = "found", "pushed", "examined", "ns", "pull"
_TRACE_WORDS, _TRACE = (np.dtype([(f, kind) for f in _TRACE_FIELDS]) for kind in ("u8", "i8"))
FIRST_TRACED = {BYTE_LEVELS: 256, INT_LEVELS: 1 << 16}
"""Levels that are traced at first."""


@dataclass(frozen=True)
class DeviceBfsTree:
    """Answer of a BFS in device memory; the arrays change with the search's next run."""

    # uint32 (rows,), by internal id: original ids if the search was given some, else internal ids;
    # all ones if unreached, the root its own.
    parent: Any
    # Hops from the root: uint8 (rows,), 255 if unreached; or int32 with -1, always if all rows are
    # short.
    level: Any
    elapsed_s: float  # on the device, by events, all initialisation included


class CudaBfsSearch:
    """BFS searches of one whole graph, one at a time; buffers are allocated once.

    Rows are hub-first, of out- and in-arcs (the same object when undirected), in host memory
    (copied) or on the device. ``original_of``, (rows,), names the parents of `run_on_device`;
    without it they are internal ids. ``count_arcs`` counts arcs looked at bottom-up, which takes a
    little time; otherwise ``level_arcs`` is -1 for such levels. With ``trace``, `level_trace` knows
    the time of each level. Everything happens on the device and the stream that are CuPy's current
    ones.

    64-bit ids, and too many vertices for 32 bits, are refused (`UsageError`).
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        *,
        original_of: AnyArray | None = None,
        count_arcs: bool = True,
        trace: bool = False,
    ) -> None:
        cuda()
        self._count, self._trace = count_arcs, trace
        with within_memory("BFS of this graph"):
            self._out = rows_on_device(out, weighted=False)
            self._into = self._out if into is out else rows_on_device(into, weighted=False)
            self._original_of = originals_on_device(original_of, self._out.rows)
            self._fixed_rows: FixedRows | None = None
            self._load_heads()
            self._thin = self._fixed_rows is not None
            level = INT_LEVELS if self._thin else BYTE_LEVELS
            self._use(level, FIRST_TRACED[level])
            self._allocate()

    def _load_heads(self) -> None:
        """Copy what of the rows stands in columns of its own."""
        self._heads: Any = Heads(self._into, self._original_of)
        if are_short(self._out, self._into):
            self._fixed_rows = FixedRows.unless_too_many(self._out)

    def _queue_capacity(self) -> int:
        """Entries of the queue."""
        return self._out.rows

    def _constants(self) -> dict[str, int | str]:
        """Constants beside those that all searches have."""
        return {}

    def _arguments(self) -> tuple[Any, ...]:
        """Arguments of the kernel behind those that all searches have."""
        return ()

    def _allocate(self) -> None:
        cupy, rows, quads = cuda(), self._out.rows, self._out.quads
        # Whole quads are written; nothing is to be read that was never written.
        self._parent = cupy.zeros(quads * QUAD_ROWS, np.uint32)[:rows]
        self._visited = cupy.empty(4 * quads, np.uint32)
        self._maps = cupy.empty(_MAPS * 4 * quads, np.uint32)
        self._fronts = cupy.empty(12 * quads, np.uint32)
        self._rough = cupy.empty(ROUGH_WORDS, np.uint32)
        self._queue, self._starts = (
            cupy.empty(self._queue_capacity(), np.uint32) for _ in range(2)
        )
        self._pieces = cupy.empty(max(1, self._heads.extents.pieces), np.uint64)
        self._open = cupy.empty(rows // _OPEN_BELOW + 1, np.uint32)
        self._state = cupy.zeros(_STATE_WORDS, np.uint32)

    def _use(self, level: str, traced_levels: int) -> None:
        """Compile for a type of levels, and allocate these and the trace."""
        cupy = cuda()
        _, most = limits(cupy.cuda.Device().id)
        chosen = self._constants() | constants(
            most, level, count_arcs=self._count, trace=self._trace, thin=self._thin
        )
        words = int(chosen["HUB_WORDS"]) + int(chosen["ROUGH_WORDS"])
        shared, threads = words * 4 + BLOCK // 32 * BUFFER_BYTES, int(chosen.get("BLOCK", BLOCK))
        self._search = on_all("bfs.cu", "bfs_search", chosen, threads, shared)
        if chosen.get("THIN") and self._fixed_rows is None:
            self._fixed_rows = FixedRows(self._out)
        self._type = level
        dtype = np.uint8 if level == BYTE_LEVELS else np.int32
        self._level: Any = None  # both together would be more than is needed of either
        self._level = cupy.zeros(self._out.quads * QUAD_ROWS, dtype)[: self._out.rows]
        self._allocate_trace(traced_levels)

    def _allocate_trace(self, levels: int) -> None:
        self._level_trace = cuda().zeros((levels, len(_TRACE_FIELDS)), np.uint64)

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the answer in host memory, parents as internal ids."""
        levels, elapsed_s = self._run(root, None)
        level = self._level.get()
        if level.dtype == np.uint8:
            level = level.astype(np.int32)
            level[level == np.iinfo(np.uint8).max] = -1
        trace = self.level_trace()
        examined = trace["pushed"] + trace["examined"]
        if not self._count:
            examined[trace["pull"] == 1] = -1
        return BfsTree(
            self._parent.get(),
            level,
            elapsed_s,
            trace["found"][:levels].copy(),
            examined[1:],
            trace["pull"][1:].astype(np.int8),
        )

    def run_on_device(self, root: int) -> DeviceBfsTree:
        """Search from internal id ``root``; the answer stays on the device."""
        _, elapsed_s = self._run(root, self._original_of)
        return DeviceBfsTree(self._parent, self._level, elapsed_s)

    def count_arcs(self, on: bool) -> None:
        """Say whether arcs looked at bottom-up are counted from the next search on."""
        if on != self._count:
            self._count = on
            self._use(self._type, len(self._level_trace))

    def level_trace(self) -> AnyArray:
        """What each level of the last search cost, by the number of the level that it found.

        Fields are int64: ``found`` vertices, arcs ``pushed``, arcs ``examined`` bottom-up (where
        counted), ``ns`` from the search's beginning to the level's end (where traced; the last
        is the search's end), and ``pull``, 1 or 0.
        """
        levels = int(self._state[2].get())
        taken: AnyArray = self._level_trace[: levels + 1].get().view(_TRACE_WORDS).reshape(-1)
        return taken.astype(_TRACE)

    def _run(self, root: int, original_of: Any) -> tuple[int, float]:
        """Search until levels and trace fit; levels that have vertices, and seconds in all."""
        require_root(root, self._out.rows)
        if self._level is None:  # the search before was refused its levels
            with within_memory("BFS of this graph"):
                self._use(self._type, FIRST_TRACED[self._type])
        elapsed_s = 0.0
        while True:
            elapsed_s += seconds_of(self._launch(root, original_of))
            levels, overflow = (int(word) for word in self._state[2:4].get())
            with within_memory("BFS of this graph"):
                if overflow:
                    self._use(INT_LEVELS, FIRST_TRACED[INT_LEVELS])
                elif levels >= len(self._level_trace):
                    self._allocate_trace(1 << levels.bit_length())
                else:
                    return levels, elapsed_s

    def _launch(self, root: int, original_of: Any) -> Callable[[], None]:
        """What launches a search, with all arguments ready."""
        out, into, heads = self._out, self._into, self._heads
        fixed_rows = (NULL, NULL)
        if self._fixed_rows is not None:
            fixed_rows = (self._fixed_rows.arcs, self._fixed_rows.planes)
        by_original = (
            (heads.head, NULL) if original_of is None else (heads.head_original, original_of)
        )
        arguments = (
            *(np.uint32(out.rows), np.uint32(out.quads), np.uint64(out.arcs)),
            *(out.offsets, out.neighbors, into.offsets, into.neighbors),
            *(heads.head, heads.heads, by_original[0]),
            *(np.uint32(heads.extents.longer1), np.uint32(heads.extents.longer5)),
            *(*fixed_rows, by_original[1]),
            *(self._parent, self._level, self._visited, self._maps, self._fronts),
            self._rough,
            *(self._queue, self._starts, self._pieces, self._open, self._state, self._level_trace),
            *(np.uint32(len(self._level_trace)), np.uint32(root)),
            *self._arguments(),
        )
        return partial(self._search, arguments)
