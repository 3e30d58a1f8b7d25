"""BFS on a graph that one CUDA device holds whole: rows, buffers and the one launch of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.common.decisions import BfsTree, rows_are_short
from ooc_graph.kernels.cuda.bfs.short_rows import Places
from ooc_graph.kernels.cuda.runtime.modules import (
    THREADS,
    blocks_for,
    cuda,
    kernel,
    limits,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.rows import (
    NULL,
    QUAD_ROWS,
    DeviceRows,
    extents,
    hold,
    hold_originals,
    require_root,
    seconds_of,
)
from ooc_graph.types import AnyArray, Rows

# Constants of bfs.cu.
_BLOCK = 1024
# Threads of a block where levels are narrow: more registers for each do more than more threads.
_THIN_BLOCK = 512
_HEADS, _LANE_ARCS, STRETCH = 9, 24, 1024
_ROOM_BYTES = 8 * (QUAD_ROWS * 2 + 16)
_OPEN_BELOW = 32
_MOST_HUB_WORDS = 32768
_MAPS = 4
_ROUGH_WORDS = 4096
_STATE_WORDS = 64
_COURSE = np.dtype([(name, np.uint64) for name in ("found", "pushed", "examined", "ns", "pull")])
# Shared memory that the kernel and the system take beside what is asked for.
_SHARED_RESERVE = 2048

BYTE_LEVELS, INT_LEVELS = "u8", "int"
"""Types of a level: bytes do for 254 levels, and are tried first where rows are long."""
FIRST_COURSE = {BYTE_LEVELS: 256, INT_LEVELS: 1 << 16}
"""Levels whose course there is room for at first."""


def constants(
    shared_bytes: int, level: str, *, count_arcs: bool, trace: bool = False, thin: bool = False
) -> dict[str, int | str]:
    """What ``bfs.cu`` is compiled with for a device.

    A block may have so much shared memory, and a level is `BYTE_LEVELS` or `INT_LEVELS`. Arcs that
    are looked at bottom-up are counted if wanted, and the time of each level is taken with
    ``trace``. Levels may be narrow, as on roads, with ``thin``.
    """
    room = shared_bytes - _SHARED_RESERVE - _BLOCK // 32 * _ROOM_BYTES - 4 * _ROUGH_WORDS
    words = min(_MOST_HUB_WORDS, room // 4 // 1024 * 1024)
    if words <= 0:
        raise DeviceError(f"BFS needs more than the device's {shared_bytes} bytes of shared memory")
    counted: dict[str, int | str] = {"COUNT": 1} if count_arcs else {}
    traced: dict[str, int | str] = {"TRACE": 1} if trace else {}
    short: dict[str, int | str] = {"THIN": 1, "BLOCK": _THIN_BLOCK} if thin else {}
    sizes: dict[str, int | str] = {"HUB_WORDS": words, "ROOM_BYTES": _ROOM_BYTES}
    return {**sizes, "ROUGH_WORDS": _ROUGH_WORDS, "LEVEL": level, **counted, **traced, **short}


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
    little time; otherwise ``level_arcs`` is -1 for such levels. With ``trace``, `course` knows the
    time of each level. Everything happens on the device and the stream that are CuPy's current
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
            self._out = hold(out, weighted=False)
            self._into = self._out if into is out else hold(into, weighted=False)
            self._original_of = hold_originals(original_of, self._out.rows)
            self._places: Places | None = None
            self._hold_heads()
            self._thin = self._places is not None
            level = INT_LEVELS if self._thin else BYTE_LEVELS
            self._use(level, FIRST_COURSE[level])
            self._allocate()

    def _hold_heads(self) -> None:
        """What of the rows stands apart."""
        self._heads: Any = _Heads(self._into, self._original_of)
        if rows_are_short(_widest(self._out), _widest(self._into)):
            self._places = Places.unless_too_many(self._out)

    def _room(self) -> int:
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
        self._rough = cupy.empty(_ROUGH_WORDS, np.uint32)
        self._queue, self._starts = (cupy.empty(self._room(), np.uint32) for _ in range(2))
        self._stretches = cupy.empty(max(1, self._heads.extents.stretches), np.uint64)
        self._open = cupy.empty(rows // _OPEN_BELOW + 1, np.uint32)
        self._state = cupy.zeros(_STATE_WORDS, np.uint32)

    def _use(self, level: str, course: int) -> None:
        """Compile for a type of levels, and make room for them and for the course."""
        cupy = cuda()
        self._blocks, shared = limits(cupy.cuda.Device().id)
        chosen = self._constants() | constants(
            shared, level, count_arcs=self._count, trace=self._trace, thin=self._thin
        )
        self._search = kernel("bfs.cu", "bfs_search", chosen, cooperative=True)
        words = int(chosen["HUB_WORDS"]) + int(chosen["ROUGH_WORDS"])
        self._shared = words * 4 + _BLOCK // 32 * _ROOM_BYTES
        self._search.max_dynamic_shared_size_bytes = self._shared
        self._threads = int(chosen.get("BLOCK", _BLOCK))
        if chosen.get("THIN") and self._places is None:
            self._places = Places(self._out)
        self._type = level
        dtype = np.uint8 if level == BYTE_LEVELS else np.int32
        self._level: Any = None  # both together would be more than is needed of either
        self._level = cupy.zeros(self._out.quads * QUAD_ROWS, dtype)[: self._out.rows]
        self._room_for(course)

    def _room_for(self, levels: int) -> None:
        self._course = cuda().zeros((levels, _COURSE.itemsize // 8), np.uint64)

    def run(self, root: int) -> BfsTree:
        """Search from internal id ``root``; the answer in host memory, parents as internal ids."""
        levels, elapsed_s = self._run(root, None)
        level = self._level.get()
        if level.dtype == np.uint8:
            level = level.astype(np.int32)
            level[level == np.iinfo(np.uint8).max] = -1
        course = self.course()
        examined = course["pushed"] + course["examined"]
        if not self._count:
            examined[course["pull"] == 1] = -1
        return BfsTree(
            self._parent.get(),
            level,
            elapsed_s,
            course["found"][:levels].copy(),
            examined[1:],
            course["pull"][1:].astype(np.int8),
        )

    def run_on_device(self, root: int) -> DeviceBfsTree:
        """Search from internal id ``root``; the answer stays on the device."""
        _, elapsed_s = self._run(root, self._original_of)
        return DeviceBfsTree(self._parent, self._level, elapsed_s)

    def count_arcs(self, on: bool) -> None:
        """Say whether arcs looked at bottom-up are counted from the next search on."""
        if on != self._count:
            self._count = on
            self._use(self._type, len(self._course))

    def course(self) -> AnyArray:
        """What each level of the last search cost, by the number of the level that it found.

        Fields are int64: ``found`` vertices, arcs ``pushed``, arcs ``examined`` bottom-up (where
        counted), ``ns`` from the search's beginning to the level's end (where traced; the last
        is the search's end), and ``pull``, 1 or 0.
        """
        levels = int(self._state[2].get())
        taken: AnyArray = self._course[: levels + 1].get().view(_COURSE).reshape(-1)
        return taken.astype(_COURSE_HOST)

    def _run(self, root: int, original_of: Any) -> tuple[int, float]:
        """Search until types and room suffice; levels that have vertices, and seconds in all."""
        require_root(root, self._out.rows)
        if self._level is None:  # the search before was refused its levels
            with within_memory("BFS of this graph"):
                self._use(self._type, FIRST_COURSE[self._type])
        elapsed_s = 0.0
        while True:
            elapsed_s += seconds_of(self._launch(root, original_of))
            levels, overflow = (int(word) for word in self._state[2:4].get())
            with within_memory("BFS of this graph"):
                if overflow:
                    self._use(INT_LEVELS, FIRST_COURSE[INT_LEVELS])
                elif levels >= len(self._course):
                    self._room_for(1 << levels.bit_length())
                else:
                    return levels, elapsed_s

    def _launch(self, root: int, original_of: Any) -> Callable[[], None]:
        """What launches a search, with all arguments ready."""
        out, into, heads = self._out, self._into, self._heads
        places = (NULL, NULL)
        if self._places is not None:
            places = (self._places.arcs, self._places.planes)
        named = (heads.head, NULL) if original_of is None else (heads.head_original, original_of)
        arguments = (
            *(np.uint32(out.rows), np.uint32(out.quads), np.uint64(out.arcs)),
            *(out.offsets, out.neighbors, into.offsets, into.neighbors),
            *(heads.head, heads.heads, named[0]),
            *(np.uint32(heads.extents.longer1), np.uint32(heads.extents.longer5)),
            *(*places, named[1]),
            *(self._parent, self._level, self._visited, self._maps, self._fronts),
            self._rough,
            *(self._queue, self._starts, self._stretches, self._open, self._state, self._course),
            *(np.uint32(len(self._course)), np.uint32(root)),
            *self._arguments(),
        )
        grid = (self._blocks,), (self._threads,)
        return partial(self._search, *grid, arguments, shared_mem=self._shared)


_COURSE_HOST = np.dtype([(name, np.int64) for name in _COURSE.names or ()])


def _widest(rows: DeviceRows) -> int:
    """Most arcs of a row; of the first alone where that tells already that rows are not short."""
    if not rows.rows:
        return 0
    first = int(rows.offsets[1].get())
    return first if not rows_are_short(first, first) else int(cuda().diff(rows.offsets).max())


class _Heads:
    """First neighbours of all rows in columns, and their original ids."""

    def __init__(self, rows: DeviceRows, original_of: Any) -> None:
        cupy = cuda()
        self.extents = found = extents(rows, _HEADS + _LANE_ARCS, STRETCH)
        padded = rows.quads * QUAD_ROWS
        self.head = cupy.full(padded, 0xFFFFFFFF, np.uint32)
        self.heads = cupy.empty(4 * (found.longer1 + found.longer5), np.uint32)
        fill = kernel("heads.cu", "hub_heads")
        sizes = (np.uint32(n) for n in (rows.rows, found.longer1, found.longer5))
        arguments = (*sizes, rows.offsets, rows.neighbors, self.head, self.heads)
        fill((blocks_for(rows.rows),), (THREADS,), arguments)
        self.head_original = names_of(self.head, original_of)


def names_of(head: Any, original_of: Any, *, at_once: int = 1 << 28) -> Any:
    """Original ids of first neighbours, where there are any, so many rows at a time; else None."""
    if original_of is None:
        return None
    cupy, most = cuda(), max(len(original_of), 1) - 1
    names = cupy.empty(len(head), np.uint32)
    for begin in range(0, len(head), at_once):
        some = slice(begin, begin + at_once)
        # Where there is no neighbour any number will do: nobody reads it.
        names[some] = original_of[cupy.minimum(head[some], most)]
    return names
