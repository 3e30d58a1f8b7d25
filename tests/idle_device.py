"""A CUDA device that finds nothing, in host memory: what its host does for a search, at most.

Its kernels look at no arcs. They say that every row goes on beyond what is at hand, and never that
any is done, so that the host lists all rows and reads all that there is, as long as a search may.
What the device has lies in pages of its own, which `tracemalloc` does not see: what is seen is what
the host allocates, pinned or not.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.kernels.cuda.runtime import steps as cuda_steps
from ooc_graph.kernels.cuda.runtime.steps import ARCS, KEPT, LEAST, LISTED
from ooc_graph.kernels.cuda.store import bfs as cuda_disk_bfs
from ooc_graph.kernels.cuda.store import heads as cuda_disk_heads
from ooc_graph.kernels.cuda.store import rows as cuda_disk_rows
from ooc_graph.kernels.cuda.store import sssp as cuda_disk_sssp
from ooc_graph.kernels.cuda.store import sssp_state as cuda_disk_state
from ooc_graph.kernels.cuda.store import staged as cuda_staged
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards import device_tiers

_PIECE = 4096
# Behind the requests and the columns of neighbours and weights.
_FLAGS = 4
_NEAR = np.float32(0.5)


class DeviceArray(np.ndarray):
    """An array with what CuPy's have besides."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            return np.array(self)
        out[:] = self
        return out

    def set(self, data: np.ndarray) -> None:
        assert (self.shape, self.dtype) == (data.shape, data.dtype)
        self[:] = data


def _zeros(count: int, dtype: Any) -> DeviceArray:
    pages = mmap.mmap(-1, max(count * np.dtype(dtype).itemsize, 1))
    return np.frombuffer(pages, dtype, count).view(DeviceArray)


def _full(count: int, value: Any, dtype: Any) -> DeviceArray:
    made = _zeros(count, dtype)
    made.fill(value)
    return made


def _copy(values: np.ndarray) -> DeviceArray:
    made = _zeros(len(values), values.dtype)
    made[:] = values
    return made


def _cumsum(values: np.ndarray, dtype: Any) -> DeviceArray:
    made = _zeros(len(values), dtype)
    np.cumsum(values, dtype=dtype, out=made)
    return made


def _memcpy(target: int, source: int, size: int, *_: Any) -> None:
    ctypes.memmove(target, source, size)


CUPY = SimpleNamespace(
    empty=_zeros,
    zeros=_zeros,
    full=_full,
    asarray=_copy,
    cumsum=_cumsum,
    searchsorted=lambda *a, **b: np.asarray(np.searchsorted(*a, **b)),
    cuda=SimpleNamespace(
        runtime=SimpleNamespace(memcpyAsync=_memcpy, memcpyHostToDevice=1),
        get_current_stream=lambda: SimpleNamespace(ptr=0, synchronize=lambda: None),
    ),
)


class Pinned:
    """As `ooc_graph.kernels.cuda.runtime.pinned.PinnedArray`, of memory that is seen."""

    def __init__(self, count: int, dtype: Any, *, threads: int) -> None:
        assert threads > 0
        self.host = np.zeros(count, dtype)
        self.device = self.host.view(DeviceArray)


def _all_rows(bits: np.ndarray, rows: int) -> None:
    """Make a set have all rows."""
    words, rest = divmod(rows, 32)
    bits[:] = 0
    bits[:words] = 0xFFFFFFFF
    if rest:
        bits[words] = (1 << rest) - 1


def _leave_all(rows: Any, *arguments: Any) -> None:
    *_, left, counts = arguments
    _all_rows(left, int(rows))
    counts[KEPT] = rows


def _settle(_words: Any, _found: Any, lengths: Any, depth: Any, *rest: Any) -> None:
    """One row, which pushes; then all, which are pulled to; then none."""
    found = {0: 1, 1: len(lengths)}.get(int(depth), 0)
    rest[-1][LISTED] = found
    rest[-1][ARCS] = int(lengths[-found:].sum(dtype=np.int64)) if found else 0


def _go_on(*arguments: Any) -> None:
    *_, distance, _, more, counts = arguments
    if isinstance(more, np.ndarray):
        _all_rows(more, len(distance))
        counts[KEPT] = len(distance)


def _measure(_rows: Any, _words: Any, least: Any, shift: Any, lengths: Any, *rest: Any) -> None:
    counts, longer = rest
    rule = HeadRule(int(least), int(shift))
    for begin in range(0, len(lengths), _PIECE):
        counts[begin : begin + _PIECE] = rule.of(np.asarray(lengths[begin : begin + _PIECE]))
    _all_rows(longer, len(lengths))


def _list_reached(rows: Any, _distance: Any, listed: Any, counts: Any) -> None:
    listed[0], counts[LISTED] = rows - 1, 1


def _beyond(*arguments: Any) -> None:
    arguments[-1][LEAST] = ~np.uint64(_NEAR.view(np.uint32))


def _flag(count: Any, *arguments: Any) -> None:
    arguments[_FLAGS - 1][: int(count)] = 1


KERNELS: dict[str, Callable[..., None]] = {
    "settle_found": _settle,
    **dict.fromkeys(("pull_held", "push_held", "leave_frontier"), _leave_all),
    "measure_heads": _measure,
    "list_reached": _list_reached,
    "least_beyond": _beyond,
    **dict.fromkeys(("push_rows", "pull_rows", "offer_rows", "parent_rows"), _go_on),
    **dict.fromkeys(("hold_arcs", "push_arcs", "pull_arcs", "offer_arcs", "parent_arcs"), _flag),
}
"""What some kernels do; all others do nothing."""


class IdleSteps(cuda_steps.Steps):
    """As `ooc_graph.kernels.cuda.runtime.steps.Steps`."""

    def launch(self, name: str, threads: int, *arguments: Any) -> None:
        if threads > 0 and name in KERNELS:
            KERNELS[name](*arguments)


def stand_in(patch: pytest.MonkeyPatch) -> None:
    """Have searches with arcs in the store go by this device."""
    uses_cupy = cuda_disk_rows, cuda_disk_bfs, cuda_disk_heads, cuda_disk_sssp, cuda_disk_state
    for module in (*uses_cupy, cuda_staged, cuda_steps):
        patch.setattr(module, "cuda", lambda: CUPY)
    for module in (cuda_disk_rows, cuda_disk_bfs):
        patch.setattr(module, "on_device", _copy)
    for module in (cuda_disk_bfs, cuda_disk_heads, cuda_disk_state):
        patch.setattr(module, "Steps", IdleSteps)
    for name in ("bfs", "heads", "sssp"):
        patch.setattr(f"ooc_graph.kernels.cuda.store.{name}.within_memory", lambda _: nullcontext())
    patch.setattr("ooc_graph.shards.cuda_disk_sssp.within_memory", lambda _: nullcontext())
    patch.setattr(device_tiers, "PinnedArray", Pinned)
    patch.setattr(cuda_staged, "pinned_buffer", lambda size, **_: np.zeros(size, np.uint8))
