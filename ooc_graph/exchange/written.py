"""Parcels in memory that another process maps too, and the message that says where they are."""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ooc_graph.exchange.parcel import Parcel
from ooc_graph.types import AnyArray

SMALL_BYTES = 4 << 10
"""Smaller arrays travel in the message."""
MESSAGE_BYTES = 32 << 10
"""A longer message is written into memory itself. A socket has space for several."""

_ALIGNED = 64
_SPAN = struct.Struct("<QQ")
_MORE, _IN_MEMORY = 1, 2  # flags in a message's first byte


class Layout:
    """Where in a round's memory its arrays come, one behind the other."""

    def __init__(self) -> None:
        self.size = 0
        self._writes: list[tuple[int, memoryview]] = []

    def message(self, parcels: Sequence[Parcel], *, more: bool) -> bytes:
        """What says where some parcels are, and whether their sender has more for anybody."""
        spans: list[tuple[int, int]] = []

        def keep(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes > SMALL_BYTES:
                spans.append(self._put(raw))
            return raw.nbytes <= SMALL_BYTES

        inner = pickle.dumps(parcels, protocol=5, buffer_callback=keep)
        body = pickle.dumps((spans, inner), protocol=5)
        flags = _MORE if more else 0
        if len(body) <= MESSAGE_BYTES:
            return bytes([flags]) + body
        return bytes([flags | _IN_MEMORY]) + _SPAN.pack(*self._put(memoryview(body)))

    def _put(self, raw: memoryview) -> tuple[int, int]:
        start = self.size
        self._writes.append((start, raw))
        self.size += -(-raw.nbytes // _ALIGNED) * _ALIGNED
        return start, raw.nbytes

    def write(self, memory: AnyArray) -> None:
        """Write all."""
        for start, raw in self._writes:
            # Other threads run meanwhile, as they would not with a memoryview.
            memory[start : start + raw.nbytes] = np.frombuffer(raw, np.uint8)


def has_more(message: bytes) -> bool:
    """Whether its sender has more for anybody."""
    return bool(message[0] & _MORE)


def read(message: bytes, memory: AnyArray, *, copied: bool) -> list[Parcel]:
    """Undo `Layout.message`; arrays are views of the memory unless they are to be copied."""
    body: Any = message[1:]
    if message[0] & _IN_MEMORY:
        start, size = _SPAN.unpack(body)
        body = memory[start : start + size]
    # As Dask itself does with what workers of its cluster send.
    spans, inner = pickle.loads(body)  # noqa: S301
    views = (memory[start : start + size] for start, size in spans)
    buffers = [view.copy() if copied else view for view in views]
    parcels: list[Parcel] = pickle.loads(inner, buffers=buffers)  # noqa: S301
    return parcels


def nothing() -> AnyArray:
    """No memory."""
    return np.empty(0, np.uint8)


def mapped(descriptor: int) -> AnyArray:
    """Memory of a descriptor, as bytes; kernels are compiled for arrays that can be written to."""
    return np.frombuffer(mmap.mmap(descriptor, os.fstat(descriptor).st_size), np.uint8)
