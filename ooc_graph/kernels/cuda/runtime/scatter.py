"""Answers on a CUDA device, from the order of internal ids to that of original ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.runtime.modules import cuda, kernel, launch, within_memory
from ooc_graph.kernels.cuda.runtime.rows import NULL, on_device
from ooc_graph.types import INT64_UNREACHED

_UNREACHED: dict[str, int | float] = {
    "uint8": 255,
    "int32": -1,
    "float32": np.inf,
    "float64": np.inf,
    "int64": INT64_UNREACHED,
}
# What the source calls these types; signs and fractions do not matter where a value is only moved.
_WORDS: dict[str, int | str] = {
    "uint8": "u8",
    "uint32": "u32",
    "int32": "u32",
    "float32": "u32",
    "uint64": "u64",
    "float64": "u64",
    "int64": "i64",
}
_IDS = 8192
"""Vertices of a block, as ``scatter.cu`` has it; where one is in a block takes 16 bits."""
PART_VERTICES = 1 << 21
"""Vertices whose internal ids are brought to the device at a time."""
ORDER_ROW_BYTES = 6
"""Device memory of a row in an `OriginalOrder`."""
_KEY_BYTES, _PARENT_BYTES = 8, 4
_MOST_BLOCKS, _THREADS = 1 << 16, 1024


class OriginalOrder:
    """Brings answers into the order of original ids; holds 6 bytes a row on the device.

    ``internal_of``, int32 or int64 (vertices,), is -1 for vertices without a row, which are
    unreached. It is on the device, or is brought there in parts; it is not kept. All happens on
    CuPy's current stream, which is waited for when this is made. If the device's memory is too
    small, that is a `MemoryBudgetError`.

    Of each block of vertices the rows are listed ascending, with where each is in the block: rows
    of one degree are numbered by original id, so that an answer is read in runs.
    """

    def __init__(self, internal_of: Any) -> None:
        cupy = cuda()
        if internal_of.dtype not in (np.int32, np.int64):
            raise UsageError(f"internal ids are int32 or int64, not {internal_of.dtype}")
        self.vertices = len(internal_of)
        self._blocks = -(-self.vertices // _IDS)
        self._kernels: dict[tuple[str, ...], Callable[..., None]] = {}
        ids = {"ID": _WORDS[internal_of.dtype.name]}
        with within_memory("the order of original ids"):
            counts = cupy.zeros(self._blocks + 1, np.uint64)
            count, sort = self._bound("count_rows", ids), self._bound("sort_rows", ids, _KEY_BYTES)
            for block, part in _parts(internal_of):
                count(np.uint64(len(part)), part, counts[1 + block :])
            self._starts = cupy.cumsum(counts, dtype=np.uint64)
            self.rows = int(self._starts[-1])
            self._row, self._within = (cupy.empty(self.rows, t) for t in (np.uint32, np.uint16))
            for block, part in _parts(internal_of):
                starts = self._starts[block:]
                sort(np.uint64(len(part)), part, starts, self._row, self._within)

    def _bound(
        self, name: str, constants: dict[str, int | str], vertex_bytes: int = 0
    ) -> Callable[..., None]:
        """What launches a kernel with a block of threads for each block of vertices.

        It has so many bytes of shared memory for a vertex.
        """
        found, shared_bytes = kernel("scatter.cu", name, constants), _IDS * vertex_bytes
        if shared_bytes:
            found.max_dynamic_shared_size_bytes = shared_bytes
        grid = (max(1, min(self._blocks, _MOST_BLOCKS)),), (_THREADS,)
        return lambda *arguments: found(*grid, arguments, shared_mem=shared_bytes)

    def columns(
        self, parent: Any, measure: Any, into: tuple[Any, Any] | None = None, names: Any = None
    ) -> tuple[Any, Any]:
        """Parents and measures by original id, (vertices,), of the types that are given.

        Both are on the device. ``parent``, uint32 (rows,), are original ids by internal id, all
        ones where unreached. ``measure``, (rows,), are levels, uint8 with 255 for unreached or
        int32 with -1; or distances, float32 or float64 with +inf or int64 with ``INT64_UNREACHED``.
        The columns are written over those of a former answer if ``into`` has such. ``parent`` are
        internal ids if there are ``names``, their original ids: uint32 (rows,), on the device.
        """
        into = into or self._empty(np.dtype(np.uint32), measure.dtype, self.vertices)
        wanted = [(self.vertices,), np.uint32, (self.vertices,), measure.dtype]
        if [into[0].shape, into[0].dtype, into[1].shape, into[1].dtype] != wanted:
            raise UsageError("the columns to write to are not those of an answer of this graph")
        self.ready(parent, measure, into, names)()
        return into

    def wide_columns(self, parent: Any, measure: Any, names: Any = None) -> tuple[Any, Any]:
        """As `columns`, with parents of int64, -1 where unreached, and levels of int32.

        ``names`` may be of int64, too.
        """
        into = self.empty_wide(measure, self.vertices)
        self.ready(parent, measure, into, names)()
        return into

    def empty_wide(self, measure: Any, count: int) -> tuple[Any, Any]:
        """Memory for so many vertices of wide columns."""
        wide = np.dtype(np.int32) if measure.dtype == np.uint8 else measure.dtype
        return self._empty(np.dtype(np.int64), wide, count)

    def _empty(self, parent: Any, measure: Any, count: int) -> tuple[Any, Any]:
        with within_memory("the answer by original ids"):
            return cuda().empty(count, parent), cuda().empty(count, measure)

    def ready(
        self, parent: Any, measure: Any, into: tuple[Any, Any], names: Any = None, first: int = 0
    ) -> Callable[[], None]:
        """What fills columns of vertices from a multiple of 8,192 on, with all arguments ready."""
        if parent.dtype != np.uint32 or measure.dtype.name not in _UNREACHED:
            kinds = f"{parent.dtype} and {measure.dtype}"
            raise UsageError(f"no answer has parents of {kinds} beside them")
        if not len(parent) == len(measure) == self.rows:
            raise UsageError("an answer has one parent and one measure for each internal id")
        ids = "uint32" if names is None else names.dtype.name
        types = measure.dtype.name, into[0].dtype.name, into[1].dtype.name, ids
        if types not in self._kernels:
            given = ("MEASURE", "PARENT", "FOUND", "NAME"), types
            constants = {name: _WORDS[kind] for name, kind in zip(*given, strict=True)}
            vertex_bytes = _PARENT_BYTES + measure.itemsize
            self._kernels[types] = self._bound("to_original", constants, vertex_bytes)
        bits = np.dtype(f"u{measure.itemsize}")
        unreached = np.array([_UNREACHED[types[0]]], measure.dtype).view(bits)[0]
        starts = self._starts[first // _IDS :]
        rows = np.uint64(len(into[0])), starts, self._row, self._within
        answer = parent, measure, unreached, NULL if names is None else names
        return partial(self._kernels[types], *rows, *answer, *into)


def _parts(internal_of: Any) -> Iterator[tuple[int, Any]]:
    """The table on the device, in parts, each with the number of its first block."""
    for first in range(0, len(internal_of), PART_VERTICES):
        yield first // _IDS, on_device(internal_of[first : first + PART_VERTICES])


def reached_tuples(parent: Any, tuples: Any) -> tuple[int, int]:
    """Rows that an answer reaches, and the sum of their ``tuples``; waits.

    Both are on the device: ``parent`` as of `OriginalOrder.columns`, and ``tuples``, uint32 or
    uint64 (rows,).
    """
    sums, rows = cuda().zeros(2, np.uint64), np.uint64(len(parent))
    constants, most = {"ID": _WORDS[tuples.dtype.name]}, 1024
    given = rows, parent, tuples, sums
    launch("scatter.cu", "sum_reached", len(parent), *given, constants=constants, most=most)
    reached, found = sums.tolist()
    return reached, found
