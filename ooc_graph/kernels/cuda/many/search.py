"""Distances from many sources on a CUDA device: one launch for all batches (`many.cu`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.kernels.common.sssp.distances import unreached
from ooc_graph.kernels.common.tuning import PRUNED_FROM
from ooc_graph.kernels.cuda.many import floyd_warshall as cuda_floyd
from ooc_graph.kernels.cuda.many import search_plan as plan
from ooc_graph.kernels.cuda.many.core import NONE, Columns, Core, core_of
from ooc_graph.kernels.cuda.many.prune import LANDMARKS, Pruning
from ooc_graph.kernels.cuda.runtime.modules import (
    SHARED_RESERVE,
    cuda,
    device_bytes,
    kernel,
    limits,
)
from ooc_graph.kernels.cuda.runtime.rows import NULL, DeviceRows, on_device
from ooc_graph.types import AnyArray, IntArray

_WARP = 32


class CudaManySearch:
    """Searches of one graph from any number of sources, on CuPy's current device and stream.

    Rows are on the device (the same object when undirected), with weights float32, float64 or
    int64, not negative, and sums that fit. ``potential`` (rows,), on the device, is what the
    weights were reweighted by: distances are given without it.
    """

    def __init__(
        self, out: DeviceRows, into: DeviceRows, *, is_sorted: bool = True, potential: Any = None
    ) -> None:
        self._out, self._into, self._is_sorted = out, into, is_sorted
        self._potential = potential
        self._core: Core | None = None
        self._is_pruned = False
        self._landmarks: tuple[Any, Any] | None = None
        self._matrix: Any = None  # distances of all pairs, as of `floyd_warshall.close`
        self._is_too_long = False
        self.dtype: np.dtype[Any] = into.weights.dtype
        self._buffers: dict[str, Any] = {}

    @property
    def vertices(self) -> int:
        """Rows of the graph."""
        return self._into.rows

    @property
    def core(self) -> Core:
        """What is searched."""
        if self._core is None:
            self._core = core_of(self._into)
        return self._core

    @property
    def has_matrix(self) -> bool:
        """Whether all pairs were found at once, by Floyd-Warshall."""
        return self._matrix is not None

    def expect(self, sources: int, matrix_sources: int = 0) -> None:
        """Find all pairs at once, or drop arcs that nobody needs, if it pays for so many sources.

        ``matrix_sources`` of them are searched from here if a matrix of all pairs may be kept;
        else it is 0.
        """
        if sources < PRUNED_FROM or not self._into.arcs or self.has_matrix:
            return
        may_close = self.dtype.kind == "i" and cuda_floyd.is_most(matrix_sources, self.vertices)
        if may_close and cuda_floyd.is_sure(self.vertices) and self._close():
            return
        if not self._is_pruned:
            self._is_pruned = True
            self._prune()
        if may_close and cuda_floyd.pays(self.core):
            self._close()

    def _close(self) -> bool:
        """Find all pairs at once; whether that could be done."""
        if not self._is_too_long:
            self._matrix = cuda_floyd.close(self.core)
            self._is_too_long = self._matrix is None
        return self.has_matrix

    def _prune(self) -> None:
        pruning = Pruning(self._out, self._into, is_sorted=self._is_sorted)
        lengths = pruning.lengths()
        if lengths is None:
            return
        self._core = core_of(pruning.pruned(lengths))
        to, away = (table.view(np.float32).reshape(-1, LANDMARKS) for table in lengths)
        self._landmarks = to, away[self._core.of]

    def columns(
        self, positions: AnyArray | None = None, most: Any = None, *, restored: bool = True
    ) -> Columns:
        """Columns of these internal ids, -1 for vertices without a row; None: of all rows.

        ``most`` is the largest distance that counts as reached (None: any), and distances are
        ``restored`` from the reweighting.
        """
        cupy, core = cuda(), self.core
        limit = unreached(self.dtype)[0] if most is None else self.dtype.type(most)
        by = self._potential if restored else None
        if positions is None:
            return Columns(core.entry_row, core.entry_add, by, limit)
        at = on_device(positions)
        has_row = at >= 0
        at = cupy.where(has_row, at, 0)
        potential = None if by is None else by[at]
        row = cupy.where(has_row, core.entry_row[at], NONE).astype(np.uint32)
        return Columns(row, core.entry_add[at], potential, limit)

    def search_into(self, out: Any, sources: IntArray, columns: Columns, own: Any = None) -> None:
        """Distances from internal ids, int64 (sources,), as rows of `pitch` each; does not wait.

        ``own``, uint32 (sources,), is the column of each source, `NONE` if it has none; None: its
        row.
        """
        self._search(sources, own, columns, out, self.pitch(columns))

    def pitch(self, columns: Columns) -> int:
        """Distances from one source's answer to the next."""
        per_store = plan.STORED_BYTES // self.dtype.itemsize
        return -(-max(len(columns.row), 1) // per_store) * per_store

    @property
    def slots(self) -> int:
        """Sources of a batch."""
        return _WARP * plan.VEC[self.dtype.str[1:]]

    def reduce(
        self, sources: IntArray, columns: Columns | None = None, own: Any = None
    ) -> AnyArray:
        """Reductions of the searches: (sources,) of `part_dtype`; parameters as `search_into`."""
        chosen = columns or self.columns()
        kind = plan.part_dtype(self.dtype)
        out = cuda().zeros(len(sources) * kind.itemsize, np.uint8)
        if len(chosen.row):
            self._search(sources, own, chosen, out, 0)
        found: AnyArray = out.get().view(kind)
        return found

    def _search(self, sources: IntArray, own: Any, columns: Columns, out: Any, pitch: int) -> None:
        if not len(sources) or not self.vertices:
            return
        cupy, core, matrix = cuda(), self.core, self._matrix
        defined, slots = plan.constants(self.dtype), self.slots
        at = cupy.asarray(sources)
        owned = at.astype(np.uint32) if own is None else cupy.asarray(own)
        groups = self._block_groups(slots, -(-len(sources) // slots))
        reduced = slots * -(-len(columns.row) // plan.REDUCED) if not pitch else 0
        buffers = self._allocate(groups, slots, reduced)
        potential = NULL if self._potential is None else self._potential[at]
        asked = (
            *(np.uint32(len(sources)), core.start_row[at], core.start_add[at], owned, potential),
            *(np.uint32(len(columns.row)), columns.row, columns.add),
            *(NULL if columns.potential is None else columns.potential, columns.most),
        )
        parts = np.uint64(reduced), buffers["parts"] if reduced else NULL
        grid = groups.blocks * groups.groups
        if matrix is not None:
            launch = kernel("floyd_answer.cu", "floyd_answers", defined, cooperative=True)
            found = np.uint32(core.rows), matrix, np.uint64(len(matrix))
            waits = np.uint32(groups.blocks), buffers["state"], buffers["distances"]
            launch((grid,), (plan.BLOCK,), (*found, *asked, *waits, *parts, np.uint64(pitch), out))
            return
        shared, is_kept = self._shared_bytes(slots)
        landmarks = NULL, NULL
        if self._landmarks is not None:
            landmarks = self._landmarks[0][at], self._landmarks[1]
        arguments = (
            *(np.uint32(core.rows), np.uint32(len(core.tile) - 1)),
            *(core.tile, core.neighbor, core.row, core.weight),
            *asked,
            *landmarks,
            *(np.uint32(groups.blocks), np.uint32(is_kept), buffers["state"]),
            *(buffers[name] for name in ("distances", "reaches", "maps", "lows")),
            *(*parts, np.uint64(pitch), out),
        )
        launch = kernel("many.cu", "many_search", defined, cooperative=True)
        launch.max_dynamic_shared_size_bytes = shared
        launch((grid,), (plan.BLOCK,), arguments, shared_mem=shared)

    def _block_groups(self, slots: int, batches: int) -> plan.BlockGroups:
        """Groups that keep all blocks busy, and whose batches fit cache and memory."""
        processors, _ = limits(cuda().cuda.Device().id)
        blocks = processors * plan.BLOCKS_A_PROCESSOR
        tiles_a_block = plan.TILES_A_WARP * (plan.BLOCK // _WARP)
        size = min(blocks // plan.BLOCK_GROUPS, -(-(len(self.core.tile) - 1) // tiles_a_block))
        size = max(size, blocks // batches, 1)
        state_bytes = self.core.rows * slots * self.dtype.itemsize
        # What the launch before this one left is there for this one.
        own_bytes = sum(buffer.nbytes for buffer in self._buffers.values())
        most = max(1, ((device_bytes()[0] + own_bytes) // 2) // max(state_bytes, 1))
        size = min(blocks, max(size, -(-blocks // most)))
        return plan.BlockGroups(size, min(blocks // size, batches))

    def _shared_bytes(self, slots: int) -> tuple[int, bool]:
        """Shared memory of a block, and whether the bitmap of who improved fits it."""
        _, most = limits(cuda().cuda.Device().id)
        table = 4 * LANDMARKS * slots
        bitmap = -(-self.core.rows // _WARP) * 4 + 16
        fits = 4 * slots + bitmap + SHARED_RESERVE <= most // plan.BLOCKS_A_PROCESSOR
        return 4 * slots + max(table, bitmap if fits else 0), fits

    def _allocate(self, groups: plan.BlockGroups, slots: int, parts: int) -> dict[str, Any]:
        """Buffers for so many groups, kept from launch to launch."""
        cupy, buffers, rows = cuda(), self._buffers, self.core.rows
        wanted: dict[str, tuple[int, Any]] = {
            "distances": (groups.groups * rows * slots, self.dtype),
            "reaches": (groups.groups * rows, np.float32),
            "maps": (groups.groups * 3 * -(-rows // _WARP), np.uint32),
            "lows": (groups.groups * 3 * rows, np.uint32),
            "parts": (groups.groups * parts * plan.part_dtype(self.dtype).itemsize, np.uint8),
            "state": (2 * groups.groups, np.uint32),
        }
        for name, (count, dtype) in wanted.items():
            if name not in buffers or len(buffers[name]) < count:
                buffers.pop(name, None)
                buffers[name] = cupy.zeros(max(count, 1), dtype)
        buffers["state"].fill(0)
        return buffers
