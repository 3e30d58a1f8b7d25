"""Blocks of a tier that a CUDA device scans: a batch and its requests go there, flags come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ooc_graph.kernels.common.store.rows import TierRows, until
from ooc_graph.kernels.common.store.scans import keep_flagged, pack_requests, request_words
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pinned import pinned_buffer
from ooc_graph.types import AnyArray, IntArray

Launch = Callable[[IntArray, tuple[Any, ...]], None]
"""Called with the arcs of each request, in host memory, and what their kernel is given first: how
many requests there are, these (uint32, as `pack_requests` has them), the columns, and flags (uint8,
to be set)."""


class Staged:
    """Room on the device for a batch of blocks, and for what is asked of it; allocated once.

    All happens on CuPy's current stream, for one side at a time. What goes and comes passes through
    host memory that is pinned if the system pins it, 21 bytes a row of a window at most.
    """

    def __init__(self, *sides: TierRows, pins: bool = True) -> None:
        cupy = cuda()
        dtypes = sides[0].dtypes
        window = max(len(side.window.row) for side in sides)
        words = request_words(len(dtypes)) * window
        self._columns = [
            cupy.empty(max(side.staged[column] for side in sides), dtype)
            for column, dtype in enumerate(dtypes)
        ]
        self._requests = cupy.empty(words, np.uint32)
        self._flags = cupy.empty(window, np.uint8)
        self._packed = host_buffer(4 * words, pins=pins).view(np.uint32)
        self._returned = host_buffer(window, pins=pins)

    def scan(
        self,
        rows: TierRows,
        waiting: int,
        launch: Launch,
        *,
        note: Callable[[Any, int, int, tuple[AnyArray, ...]], None] | None = None,
        look: int | None = None,
        is_done: Callable[[], bool] | None = None,
    ) -> bool:
        """Fetch and scan arcs of a window's ``waiting`` rows by a kernel, as `TierRows.scan`.

        A flag that the launched kernel sets means that the row wants more. ``note`` is called with
        window, begin, end and columns in host memory, before these are gone. Nothing more is
        fetched once it ``is_done``, which is asked after each batch.
        """

        def scan(
            limits: AnyArray, window: Any, begin: int, end: int, kept: int, *columns: AnyArray
        ) -> int:
            count = end - begin
            launch(window.asked[begin:end], self._upload(window, begin, end, columns))
            if note is not None:
                note(window, begin, end, columns)
            # Waits for the device: then the staged blocks may be written over.
            self._flags[:count].get(out=self._returned[:count])
            return int(keep_flagged(limits, window, begin, end, kept, self._returned))

        return rows.scan(waiting, scan if is_done is None else until(is_done, scan), look)

    def _upload(
        self, window: Any, begin: int, end: int, columns: tuple[AnyArray, ...]
    ) -> tuple[Any, ...]:
        count = end - begin
        words = request_words(len(columns)) * count
        pack_requests(window, begin, end, self._packed)
        self._requests[:words].set(self._packed[:words])
        for there, column in zip(self._columns, columns, strict=True):
            there[: len(column)].set(column)
        return np.uint32(count), self._requests, *self._columns, self._flags


def host_buffer(size_bytes: int, *, pins: bool) -> AnyArray:
    """Host memory, uint8, pinned where that is wanted and the system does it."""
    # Not from the pool: a plan counts what is asked for.
    return pinned_buffer(size_bytes, pooled=False) if pins else np.empty(size_bytes, np.uint8)
