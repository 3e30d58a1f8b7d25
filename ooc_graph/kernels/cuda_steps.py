"""What the steps of ranks on a CUDA device have in common: launches, counts, shared-out arcs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda_held import MOST_ROWS
from ooc_graph.kernels.cuda_modules import THREADS, blocks_for, cuda, kernel
from ooc_graph.types import AnyArray, Dealing, owner_of

LISTED, KEPT, ARCS, EXAMINED, EMITTED, AGAIN, LEAST = range(7)
"""Words of the counts, as ``rank.cuh`` has them."""
_WORDS = 8
_MOST_BLOCKS = 4096
_SHARE_ARCS = 256


class Steps:
    """Kernels of one source, and the counts that they share; all on CuPy's current stream.

    Parameters
    ----------
    source
        File among the sources.
    constants
        What it is compiled with.
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


def require_few(vertices: int) -> None:
    """Refuse graphs whose ids do not fit.

    Raises
    ------
    UsageError
        There are more than `MOST_ROWS` vertices.
    """
    if vertices > MOST_ROWS:
        raise UsageError(
            f"the graph has {vertices:,} vertices; a CUDA device searches {MOST_ROWS:,} at most"
        )


def owned_row(root: int, dealing: Dealing) -> int | None:
    """Row of an internal id in the shard, None if the shard does not own it."""
    at = np.array(root, np.int64)
    mine = owner_of(at, dealing.shards) == dealing.shard
    return int(dealing.local_of(at)) if mine else None


def wait() -> None:
    """Wait for the current stream: other threads, that may have another, go on from here."""
    cuda().cuda.get_current_stream().synchronize()


def uploaded(arrays: list[AnyArray], dtype: np.dtype[Any]) -> Any:
    """One array on the device of all these from host memory, behind each other."""
    return cuda().asarray(np.concatenate(arrays).astype(dtype, copy=False))
