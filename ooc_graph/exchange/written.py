"""Parcels in memory that another process maps too, and the message that says where they are."""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ooc_graph.exchange.parcel import Kind, Parcel
from ooc_graph.types import AnyArray

SMALL_BYTES = 4 << 10
"""Smaller arrays travel in the message."""
MESSAGE_BYTES = 32 << 10
"""A longer message is written into memory itself. A socket has space for several."""

_ALIGNED = 64
_SPAN = struct.Struct("<QQ")
_MORE, _IN_MEMORY = 1, 2  # flags in a message's first byte
_KINDS = {kind.value: kind for kind in Kind}
_dtype = cache(np.dtype)

Letters = list[tuple[list[Parcel], list[int]]]
"""Parcels that are still to be sent, and members who get them."""


def taken_from(letters: Letters, space: int) -> Letters:
    """Take what goes out in a round: as many of each letter's parcels as there is space for."""
    taken, free = [], space
    for parcels, receivers in letters:
        count = 0
        while count < len(parcels) and (parcels[count].array_bytes <= free or free == space):
            free -= parcels[count].array_bytes
            count += 1
        taken.append((parcels[:count], receivers))
        del parcels[:count]
    return taken


class Layout:
    """Where in a round's memory its arrays come, one behind the other."""

    def __init__(self) -> None:
        self.size = 0
        self._writes: list[tuple[int, AnyArray]] = []

    def message(self, parcels: Sequence[Parcel], *, more: bool) -> bytes:
        """What says where some parcels are, and whether their sender has more for anybody."""
        # Plain values: objects would take several times as long.
        plain = [
            (*address, kind.value, header, [self._lain(array) for array in arrays])
            for *address, kind, header, arrays in parcels
        ]
        body = pickle.dumps(plain, protocol=5)
        flags = _MORE if more else 0
        if len(body) <= MESSAGE_BYTES:
            return bytes([flags]) + body
        return bytes([flags | _IN_MEMORY]) + _SPAN.pack(self._put(body), len(body))

    def _lain(self, array: AnyArray) -> tuple[str, tuple[int, ...], bytearray | int]:
        """Dtype and shape of an array, and its bytes, or where in the memory they are."""
        is_small = array.nbytes <= SMALL_BYTES
        return array.dtype.str, array.shape, bytearray(array.data) if is_small else self._put(array)

    def _put(self, buffer: AnyArray | bytes) -> int:
        start, raw = self.size, np.frombuffer(buffer, np.uint8)
        self._writes.append((start, raw))
        self.size += -(-raw.nbytes // _ALIGNED) * _ALIGNED
        return start

    def write(self, memory: AnyArray) -> None:
        """Write all."""
        for start, raw in self._writes:
            memory[start : start + raw.nbytes] = raw


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
    plain = pickle.loads(body)  # noqa: S301
    return [
        Parcel._make(
            (*address, _KINDS[kind], header, tuple([_read(a, memory, copied) for a in arrays]))
        )
        for *address, kind, header, arrays in plain
    ]


def _read(
    lain: tuple[str, tuple[int, ...], bytearray | int], memory: AnyArray, copied: bool
) -> AnyArray:
    """Undo `Layout._lain`."""
    name, shape, where = lain
    if isinstance(where, bytearray):
        return np.ndarray(shape, _dtype(name), where)
    view: AnyArray = np.ndarray(shape, _dtype(name), memory, where)
    return view.copy() if copied else view


def nothing() -> AnyArray:
    """No memory."""
    return np.empty(0, np.uint8)


def mapped(descriptor: int) -> AnyArray:
    """Memory of a descriptor, as bytes; kernels are compiled for arrays that can be written to."""
    return np.frombuffer(mmap.mmap(descriptor, os.fstat(descriptor).st_size), np.uint8)


def new_memory(size: int) -> tuple[AnyArray, int]:
    """Make ``size`` zero bytes of memory; return it, and the descriptor for others to map it."""
    descriptor = os.memfd_create("ooc-graph")
    try:
        os.ftruncate(descriptor, size)
        return mapped(descriptor), descriptor
    except BaseException:
        os.close(descriptor)
        raise
