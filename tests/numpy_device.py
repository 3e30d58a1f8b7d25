"""NumPy in the place of CuPy and of a build's kernels: what surrounds them, without a GPU.

Each function does what the kernel of its name in ``store.cu`` says it does, on whole arrays. That
the kernels do so too is for the tests on a device to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.kernels.cuda.build import gather as cuda_gather
from ooc_graph.kernels.cuda.build import store_rows as cuda_store
from ooc_graph.kernels.cuda.runtime import rows as cuda_held
from ooc_graph.shards import (
    cuda_edges,
    cuda_process,
    cuda_runs,
    cuda_sides,
    cuda_stages,
)

DEVICE_BYTES = 1 << 34
NONE = 0xFFFFFFFF
ROW = np.uint64(32)
UNSIGNED = {"u32": np.uint32, "u64": np.uint64}


class DeviceArray(np.ndarray):
    """An array with the two methods of CuPy's that NumPy's has not."""

    def get(self, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            return np.array(self)
        out[:] = self
        return out

    def set(self, data: np.ndarray) -> None:
        assert (self.shape, self.dtype) == (data.shape, data.dtype)
        self[:] = data


def _made(function: Callable[..., np.ndarray]) -> Callable[..., DeviceArray]:
    return lambda *a, **b: function(*a, **b).view(DeviceArray)


CUPY = SimpleNamespace(
    **{
        name: _made(getattr(np, name))
        for name in ("empty", "zeros", "full", "arange", "cumsum", "diff", "argsort")
    },
    random=np.random,
    asarray=_made(np.array),
    searchsorted=lambda *a: np.asarray(np.searchsorted(*a)).view(DeviceArray),
    count_nonzero=np.count_nonzero,
    cuda=SimpleNamespace(
        Device=lambda _=0: type("Device", (nullcontext,), {"id": 0})(),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
    ),
)


def count_tuples(constants, edges, vertices, source, target, degree, totals):
    strange = (source >= vertices) | (target >= vertices)
    loops = ~strange & (source == target)
    totals += np.array([loops.sum(), strange.sum()], np.uint64)
    for column in (source, target):
        np.add.at(degree, column[~strange & ~loops], 1)


def degree_keys(constants, vertices, degree, keys):
    keys[:] = (~degree).astype(np.uint64) << ROW | np.arange(int(vertices), dtype=np.uint64)


def number_vertices(constants, rows, keys, degree, order, internal_of, tuples):
    order[:] = keys[: int(rows)].astype(np.uint32)
    internal_of[order] = np.arange(int(rows))
    tuples[:] = degree[order]


def store_row(vertex, shift, starts):
    block = vertex >> 10
    return starts[block & ((1 << shift) - 1)] + (block >> shift << 10) + (vertex & 1023)


def deal_tuples(constants, rows, shift, starts, tuples, dealt):
    dealt[store_row(np.arange(int(rows)), int(shift), starts)] = tuples


def internal_id(ids, vertices, internal_of, originals):
    if not isinstance(originals, np.ndarray):
        places, there = ids, ids < vertices
    else:
        places = np.searchsorted(originals, ids)
        there = originals[np.minimum(places, int(vertices) - 1)] == ids
    return np.where(there, internal_of[np.where(there, places, 0).astype(np.int64)], NONE)


def word_of(weight, word):
    sign = word(1) << word(8 * word().itemsize - 1)
    if weight.dtype.kind == "i":
        return weight.astype(word) ^ sign
    bits = (weight + weight.dtype.type(0)).view(word)
    return np.where(bits & sign, ~bits, bits | sign)


def take_dealt(constants, edges, source, target, weight, vertices, internal_of, originals, *rest):
    shift, starts, ends, low, high, most, totals, keys, words = rest
    inside = source != target
    a, b = (internal_id(e[inside], vertices, internal_of, originals) for e in (source, target))
    known = (a != NONE) & (b != NONE)
    totals[1] += np.uint64((~known).sum())
    found = np.empty(0, np.uint64), np.empty(0, np.int64)
    for end, vertex, neighbor in ((1, a[known], b[known]), (2, b[known], a[known])):
        row = store_row(vertex, int(shift), starts).astype(np.int64)
        mine = (row >= low) & (row < high) if ends & end else np.zeros(len(row), bool)
        arcs = (row[mine] - int(low)).astype(np.uint64) << ROW | neighbor[mine].astype(np.uint64)
        of = np.flatnonzero(inside)[known][mine]
        found = np.concatenate([found[0], arcs]), np.concatenate([found[1], of])
    at = int(totals[0])
    room = max(0, min(len(found[0]), int(most) - at))
    keys[at : at + room] = found[0][:room]
    if isinstance(words, np.ndarray):
        word = UNSIGNED[constants["WORD"]]
        words[at : at + room] = word_of(np.asarray(weight)[found[1][:room]], word)
    totals[0] += np.uint64(len(found[0]))


def mark_runs(constants, count, keys, mark):
    mark[:1] = 1
    mark[1:] = keys[1:] != keys[:-1]


def row_begins(constants, count, keys, place, rows, offsets):
    low = np.searchsorted(keys >> ROW, np.arange(int(rows) + 1, dtype=np.uint64))
    offsets[:] = np.where(low > 0, place[low - 1], 0)


def keep_lightest(constants, count, keys, place, order, words, neighbors, kept_rows, kept):
    at = place - 1
    neighbors[at] = keys.astype(np.uint32)
    if isinstance(words, np.ndarray):
        np.minimum.at(kept, at, words[order])
        kept_rows[at] = (keys >> ROW).astype(np.uint32)


def light_keys(constants, count, rows, kept, light):
    light[:] = rows.astype(np.uint64) << ROW | kept


def order_light(constants, count, order, neighbors, kept, integral, reordered, weights):
    word, words = UNSIGNED[constants["WORD"]], kept[order]
    sign = word(1) << word(8 * word().itemsize - 1)
    reordered[:] = neighbors[order]
    weights[:] = np.where(integral | (words & sign) > 0, words ^ sign, ~words)


def kernel(_: str, function: str, constants: Mapping[str, int | str] | None = None) -> Any:
    """As `ooc_graph.kernels.cuda.runtime.modules.kernel`."""
    return lambda _, __, arguments: globals()[function](constants or {}, *arguments)


def seconds_of(launch: Callable[[], None]) -> float:
    """As `ooc_graph.kernels.cuda.runtime.rows.seconds_of`."""
    begun = perf_counter()
    launch()
    return perf_counter() - begun


def stand_in(patch: pytest.MonkeyPatch) -> None:
    """Have builds on a device run here, by threads and files as ever."""
    for module in (
        cuda_gather,
        cuda_held,
        cuda_store,
        cuda_edges,
        cuda_process,
        cuda_runs,
        cuda_sides,
    ):
        patch.setattr(module, "cuda", lambda: CUPY)
    for module in (cuda_gather, cuda_store):
        patch.setattr(module, "kernel", kernel)
    for module in (cuda_stages, cuda_runs):
        patch.setattr(module, "pinned_buffer", lambda count: np.empty(count, np.uint8))
    patch.setattr(cuda_edges, "seconds_of", seconds_of)
    for module in (cuda_process, cuda_stages):
        patch.setattr(module, "device_bytes", lambda: (DEVICE_BYTES, DEVICE_BYTES))
    patch.setattr(cuda_process, "free_unused", lambda: None)
    patch.setattr(cuda_process, "is_plain_pool", lambda: True)
    patch.setattr(cuda_process, "pool_within", lambda _: None)
    patch.setattr(cuda_process, "within_memory", lambda _: nullcontext())
