"""SSSP on a graph that one CUDA device holds whole: rows, buffers, the one launch of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ooc_graph.errors import DeviceError, UsageError
from ooc_graph.kernels.cuda_held import (
    NULL,
    QUAD_ROWS,
    DeviceRows,
    extents,
    hold,
    hold_originals,
    require_root,
    seconds_of,
)
from ooc_graph.kernels.cuda_modules import THREADS, blocks_for, cuda, kernel, limits, within_memory
from ooc_graph.kernels.interface import SsspTree
from ooc_graph.kernels.sssp_search import (
    Survey,
    first_rows,
    may_pull,
    overflow_error,
    sampled_rows,
    sums_may_overflow,
    survey_of,
)
from ooc_graph.types import AnyArray, Rows

# Constants of sssp.cu.
_BLOCK = 1024
_UNITS = (4, 2, 1)
_STATE_WORDS = 128
_COUNTS = slice(6, 16)  # 64 bits each: unresolved, then arcs by phase
# Shared memory that the kernel and the system take beside what is asked for.
_SHARED_RESERVE = 2048

STRETCH_ROOM = 1 << 20
"""Stretches of long rows that one round can leave to other warps."""
LONG_ROW = 1024
"""Rows with more tuples than this are looked at by a whole warp each."""


def constants(shared_bytes: int) -> dict[str, int | str]:
    """What ``sssp.cu`` is compiled with where a block may have so much shared memory."""
    for unit in _UNITS:
        room = unit * QUAD_ROWS * 10 + 128
        if _BLOCK // 32 * room + _SHARED_RESERVE <= shared_bytes:
            return {"UNIT": unit, "ROOM_BYTES": room}
    raise DeviceError(f"SSSP needs more than the device's {shared_bytes} bytes of shared memory")


@dataclass(frozen=True)
class DeviceSsspTree:
    """Answer of an SSSP in device memory; the arrays change with the search's next run.

    Parameters
    ----------
    parent
        uint32 (rows,), by internal id: original ids where the search was given some, else
        internal ids; all ones where unreached, the root its own.
    distance
        float32 (rows,): +inf where unreached.
    elapsed_s
        Seconds on the device, by events, all initialisation included.
    phase_arcs
        Arcs examined, as in `SsspTree`.
    """

    parent: Any
    distance: Any
    elapsed_s: float
    phase_arcs: dict[str, int]


class CudaSsspSearch:
    """SSSP searches of one whole graph, one at a time; buffers are allocated once.

    Everything happens on the device and the stream that are CuPy's current ones.

    Parameters
    ----------
    out, into
        Light-first rows of out- and in-arcs (the same object when undirected), in host memory
        (copied) or on the device; weights float32, not negative.
    tuples
        Input tuples at each row, in host memory or on the device.
    original_of
        Original id of each row, (rows,), for parents of `run_on_device`; None: internal ids.

    Raises
    ------
    DeviceError
        There is no usable device.
    UsageError
        Weights of another type, 64-bit ids, or too many vertices for 32 bits.
    MemoryBudgetError
        The device's memory is too small.
    """

    def __init__(
        self, out: Rows, into: Rows, tuples: AnyArray, *, original_of: AnyArray | None = None
    ) -> None:
        cuda()
        for rows in (out, into):
            if rows.weights is None or rows.weights.dtype != np.float32:
                found = "none" if rows.weights is None else str(rows.weights.dtype)
                raise UsageError(
                    f"SSSP on a CUDA device takes weights of type float32, not {found}"
                )
        with within_memory("SSSP on this graph"):
            self._out = hold(out, weighted=True)
            self._into = self._out if into is out else hold(into, weighted=True)
            self._original_of = hold_originals(original_of, self._out.rows)
            self._heads = _Heads(self._out, self._into)
            self._survey(cuda().asarray(tuples))
            self._allocate()
        self._compile()

    def _survey(self, tuples: Any) -> None:
        found = _survey(self._out, tuples)
        self._may_pull = may_pull(found)
        self._step = min(found.step, float(np.finfo(np.float32).max))
        # Rows fall by tuples, and a warp's share begins at a multiple of what it takes at a time.
        self._hubs = int((tuples > LONG_ROW).sum()) // (QUAD_ROWS * _UNITS[0]) * QUAD_ROWS
        self._hubs *= _UNITS[0]
        heaviest = float(self._out.weights.max()) if self._out.arcs else 0.0
        self._may_overflow = sums_may_overflow(heaviest, self._out.rows, np.dtype(np.float32))

    def _allocate(self) -> None:
        cupy, rows, quads = cuda(), self._out.rows, self._out.quads
        self._parent = cupy.empty(rows, np.uint32)
        self._distance = cupy.empty(quads * QUAD_ROWS, np.uint32)
        self._record = cupy.empty(rows, np.uint64)
        self._marks, self._resolved = (cupy.empty(4 * quads, np.uint32) for _ in range(2))
        self._queue, self._starts = (cupy.empty(rows, np.uint32) for _ in range(2))
        self._stretches = cupy.empty(STRETCH_ROOM, np.uint64)
        self._state = cupy.zeros(_STATE_WORDS, np.uint32)

    def _compile(self) -> None:
        self._blocks, shared = limits(cuda().cuda.Device().id)
        chosen = constants(shared)
        self._search = kernel("sssp.cu", "sssp_search", chosen, cooperative=True)
        self._shared = _BLOCK // 32 * int(chosen["ROOM_BYTES"])
        self._search.max_dynamic_shared_size_bytes = self._shared

    def run(self, root: int) -> SsspTree:
        """Search from internal id ``root``; the answer in host memory, parents as internal ids.

        Raises
        ------
        UsageError
            ``root`` is no internal id.
        InputError
            A shortest distance exceeds float32.
        AssertionError
            The graph's out- and in-arcs contradict each other.
        """
        phase_arcs, elapsed_s = self._run(root, None)
        distance = self._distance[: self._out.rows].get().view(np.float32)
        return SsspTree(self._parent.get(), distance, elapsed_s, phase_arcs)

    def run_on_device(self, root: int) -> DeviceSsspTree:
        """Search from internal id ``root``; the answer stays on the device. Raises as `run`."""
        phase_arcs, elapsed_s = self._run(root, self._original_of)
        distance = self._distance[: self._out.rows].view(np.float32)
        return DeviceSsspTree(self._parent, distance, elapsed_s, phase_arcs)

    def _run(self, root: int, original_of: Any) -> tuple[dict[str, int], float]:
        require_root(root, self._out.rows)
        elapsed_s = seconds_of(self._launch(root, original_of))
        counts = self._state[_COUNTS].get().view(np.uint64)
        if self._may_overflow and self._overflowed():
            raise overflow_error(np.dtype(np.float32))
        if counts[0]:
            raise AssertionError(f"{counts[0]} reached vertices have no parent")
        names = ("push", "pull", "finish", "parents")
        return dict(zip(names, counts[1:].tolist(), strict=True)), elapsed_s

    def _overflowed(self) -> bool:
        rows, lost = self._out, cuda().zeros(1, np.uint32)
        look = kernel("heads.cu", "find_overflow")
        arguments = (np.uint32(rows.rows), rows.offsets, rows.neighbors, self._distance, lost)
        look((blocks_for(rows.rows * 32, 4096),), (THREADS,), arguments)
        return bool(lost[0])

    def _launch(self, root: int, original_of: Any) -> Callable[[], None]:
        """What launches a search, with all arguments ready."""
        out, into, heads = self._out, self._into, self._heads
        arguments = (
            *(np.uint32(out.rows), np.uint32(out.quads), np.uint64(out.arcs)),
            *(out.offsets, out.neighbors, out.weights),
            *(heads.lightest, np.uint32(heads.lightest_shift)),
            *(into.offsets, into.neighbors, into.weights),
            *(heads.head, heads.second, heads.pair, heads.pair2),
            *(np.uint32(heads.longer1), np.uint32(heads.longer3), np.uint32(self._hubs)),
            NULL if original_of is None else original_of,
            *(self._parent, self._distance, self._record, self._marks, self._resolved),
            *(self._queue, self._starts, self._stretches, np.uint32(STRETCH_ROOM), self._state),
            *(np.float32(self._step), np.uint32(self._may_pull), np.uint32(root)),
        )
        grid = (self._blocks,), (_BLOCK,)
        return partial(self._search, *grid, arguments, shared_mem=self._shared)


class _Heads:
    """First arcs of all in-rows in columns, and the lightest weight of each out-row."""

    def __init__(self, out: DeviceRows, into: DeviceRows) -> None:
        cupy, found = cuda(), extents(into, 0, 1)
        self.longer1, self.longer3 = found.longer1, found.longer3
        self.head = cupy.empty(2 * into.rows, np.uint32)
        self.second = cupy.empty(self.longer1, np.uint32)
        self.pair = cupy.empty(4 * self.longer1, np.uint32)
        self.pair2 = cupy.empty(4 * self.longer3, np.uint32)
        fill = kernel("heads.cu", "light_heads")
        sizes = (np.uint32(n) for n in (into.rows, self.longer1, self.longer3))
        held = (into.offsets, into.neighbors, into.weights)
        columns = (self.head, self.second, self.pair, self.pair2)
        fill((blocks_for(into.rows),), (THREADS,), (*sizes, *held, *columns))
        # Undirected: every second word of the heads. No copy.
        self.lightest, self.lightest_shift = self.head[1:], 1
        if out is not into:
            self.lightest, self.lightest_shift = cupy.empty(out.rows, np.uint32), 0
            take = kernel("heads.cu", "first_weights")
            arguments = (np.uint32(out.rows), out.offsets, out.weights, self.lightest)
            take((blocks_for(out.rows),), (THREADS,), arguments)


def _survey(rows: DeviceRows, tuples: Any) -> Survey:
    """`survey` of rows on the device, of which only the looked-at weights are fetched."""
    cupy = cuda()
    sampled = sampled_rows(rows.rows)
    offsets = rows.offsets[: sampled + 1].get().astype(np.int64)
    begin, end = offsets[:-1], offsets[1:]
    begin, end = begin[begin < end], end[begin < end]
    lightest, typical = (
        rows.weights[cupy.asarray(at)].get() if len(at) else np.empty(0, np.float32)
        for at in (begin, (begin + end) // 2)
    )
    held = int(tuples[: first_rows(rows.rows)].sum(dtype=np.uint64))
    return survey_of(held, int(tuples.sum(dtype=np.uint64)), lightest, typical)
