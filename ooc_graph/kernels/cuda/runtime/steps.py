"""What the steps of ranks on a CUDA device have in common: launches, counts, shared-out arcs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.runtime.modules import THREADS, blocks_for, cuda, kernel
from ooc_graph.kernels.cuda.runtime.rows import NARROW
from ooc_graph.layout.names import id_dtype
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing, owner_of

LISTED, KEPT, ARCS, EXAMINED, EMITTED, AGAIN, LEAST = range(7)
"""Words of the counts, as ``rank.cuh`` has them."""
MOST_VERTICES = DEAL_BLOCK << 32
"""The kernels number blocks of ids in 32 bits."""
_WORDS = 8
_MOST_BLOCKS = 4096
_SHARE_ARCS = 256
_PIECE = 1 << 21


class Steps:
    """Kernels of one source file, compiled with constants, and the counts that they share.

    All happens on CuPy's current stream.
    """

    def __init__(self, source: str, constants: dict[str, int | str] | None = None) -> None:
        self._source, self._constants = source, constants
        self._kernels: dict[str, Any] = {}
        self.counts = cuda().zeros(_WORDS, np.uint64)

    def launch(self, name: str, threads: int, *arguments: Any) -> None:
        """Launch a kernel with about so many threads; not at all for none."""
        if threads <= 0:
            return
        if name not in self._kernels:
            self._kernels[name] = kernel(self._source, name, self._constants)
        self._kernels[name]((blocks_for(threads, _MOST_BLOCKS),), (THREADS,), arguments)

    def clear(self) -> None:
        """Begin to count at zero."""
        self.counts.fill(0)

    def zero(self, word: int) -> None:
        """Begin to count one of them at zero."""
        self.counts[word : word + 1].fill(0)

    def fetch(self) -> list[int]:
        """The counts, once everything launched before is done."""
        found: list[int] = self.counts.get().tolist()
        return found


def least(counts: list[int], top: Any) -> Any:
    """Smallest value that the steps kept (word `LEAST`, complemented); ``top`` if there is none."""
    if not counts[LEAST]:
        return top
    bits = ~np.array([counts[LEAST]], np.uint64)
    return bits.astype(f"u{top.dtype.itemsize}").view(top.dtype)[0]


def starts_of(arcs: Any) -> Any:
    """Arcs before each entry of a list, and of all: uint64 (entries + 1,), from (entries,)."""
    cupy = cuda()
    starts = cupy.zeros(len(arcs) + 1, np.uint64)
    if len(arcs):
        cupy.cumsum(arcs, out=starts[1:])
    return starts


def threads_for(arcs: int) -> int:
    """Threads that share out so many arcs."""
    return -(-arcs // _SHARE_ARCS) * 32


def dealt(dealing: Dealing) -> tuple[np.uint32, np.uint32]:
    """Shards and shard as arguments of a kernel."""
    return np.uint32(dealing.shards), np.uint32(dealing.shard)


def ids_of(vertices: int) -> np.dtype[Any]:
    """Type of a graph's ids, uint32 or uint64; at most `MOST_VERTICES` vertices (`UsageError`)."""
    if vertices > MOST_VERTICES:
        raise UsageError(
            f"the graph has {vertices:,} vertices; ranks on CUDA devices search "
            f"{MOST_VERTICES:,} at most"
        )
    return id_dtype(vertices)


def width(ids: np.dtype[Any]) -> dict[str, int | str]:
    """What sources are compiled with for ids of this type."""
    return {} if ids == NARROW else {"VERTEX": "u64"}


def owned_row(root: int, dealing: Dealing) -> int | None:
    """Row of an internal id in the shard, None if the shard does not own it."""
    at = np.array(root, np.int64)
    mine = owner_of(at, dealing.shards) == dealing.shard
    return int(dealing.local_of(at)) if mine else None


def wait() -> None:
    """Wait for the current stream: other threads, that may have another, go on from here."""
    cuda().cuda.get_current_stream().synchronize()


def values_at(values: Any, positions: Any) -> AnyArray:
    """Values at these places of an array on the device, in host memory; piece by piece."""
    found = np.empty(len(positions), values.dtype)
    for piece in pieces(len(positions), _PIECE):
        # CuPy looks up places as signed numbers, which ids of 64 bits are small enough for.
        at = positions[piece]
        found[piece] = values[at.view(np.int64) if at.itemsize == 8 else at].get()
    return found


def pieces(count: int, most: int) -> Iterator[slice]:
    """Slices of at most so many that make up ``count``."""
    for low in range(0, count, max(most, 1)):
        yield slice(low, min(low + max(most, 1), count))


def uploaded(arrays: list[AnyArray], dtype: np.dtype[Any]) -> Any:
    """One array on the device of all these from host memory, behind each other."""
    return cuda().asarray(np.concatenate(arrays).astype(dtype, copy=False))
