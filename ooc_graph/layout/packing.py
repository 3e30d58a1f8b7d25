"""Numbers in as many bits as they need: how they lie, and what becomes of them.

Numbers are packed by blocks of as many as take 64 KiB unpacked, so that each block lies where its
number says and can be read, checked and unpacked alone. Within a block they are cut into 64 *slots*
of equally many lanes; the bits of each lane's 64 numbers follow one another, the first number's
lowest, over as many words of 64 bits as a number has bits. The words of one position of all lanes
lie side by side: whoever unpacks works on whole slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.layout import names
from ooc_graph.types import AnyArray

SLOTS = 64
"""Numbers of a lane: as many as a word has bits, so that whole words come out."""
_WORD = np.dtype("<u8")


@dataclass(frozen=True)
class Packing:
    """How the numbers of an array are packed: 1 to 64 bits each, less ``base``, their least."""

    bits: int
    base: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64:
            raise ValueError(f"numbers of {self.bits} bits are not packed")

    @classmethod
    def of_range(cls, least: int, most: int, dtype: np.dtype[Any]) -> Packing | None:
        """Fewest bits for integers between two, None if that saves nothing."""
        bits = max(1, (most - least).bit_length())
        return cls(bits, least) if bits < 8 * dtype.itemsize else None

    def block_bytes(self, dtype: np.dtype[Any]) -> int:
        """Bytes of a packed block."""
        return self._bytes_of_part(block_length(dtype))

    def bytes_of(self, length: int, dtype: np.dtype[Any]) -> int:
        """Bytes of so many packed numbers from a block's beginning on."""
        blocks, rest = divmod(length, block_length(dtype))
        return blocks * self.block_bytes(dtype) + self._bytes_of_part(rest)

    def _bytes_of_part(self, length: int) -> int:
        return self.bits * _WORD.itemsize * _lanes(length)

    def pack(self, values: AnyArray) -> AnyArray:
        """Pack contiguous integers of at most one block: uint8, `bytes_of` the length.

        ValueError if one of them does not fit.
        """
        from ooc_graph.layout.packed_loops import pack  # noqa: PLC0415 - imports numba

        if len(values) > block_length(values.dtype):
            raise ValueError(f"{len(values)} numbers are more than a block")
        lanes = _lanes(len(values))
        slots = np.full(SLOTS * lanes, self.base, values.dtype)
        slots[: len(values)] = values
        words = np.empty((1, self.bits, lanes), np.uint64)
        mask = np.uint64((1 << 8 * slots.itemsize) - 1)
        every = int(pack(_unsigned(slots).reshape(1, SLOTS, lanes), self._base, mask, words))
        if every >> self.bits:
            raise ValueError(f"a number takes more than {self.bits} bits above {self.base}")
        return words.astype(_WORD, copy=False).reshape(-1).view(np.uint8)

    def unpack(self, packed: AnyArray, length: int, out: AnyArray) -> None:
        """Fill ``out`` with the first of ``length`` packed numbers, from a block on.

        Any bytes give numbers; whoever read them checks whether they are the right ones. ``packed``
        are contiguous uint8, beginning at a multiple of 8 bytes.
        """
        if len(packed) != self.bytes_of(length, out.dtype):
            raise ValueError(f"{len(packed)} bytes are not {length} numbers of {self.bits} bits")
        block = block_length(out.dtype)
        blocks = len(out) // block
        whole, at = blocks * self.block_bytes(out.dtype), blocks * block
        self._unpack(packed[:whole], blocks, _unsigned(out[:at]))
        if at < len(out):
            # The last block wanted: all of its lanes, whatever is wanted of it.
            rest = np.empty(SLOTS * _lanes(min(block, length - at)), out.dtype)
            last = packed[whole : whole + self._bytes_of_part(min(block, length - at))]
            self._unpack(last, 1, _unsigned(rest))
            out[at:] = rest[: len(out) - at]

    def _unpack(self, packed: AnyArray, blocks: int, values: AnyArray) -> None:
        from ooc_graph.layout.packed_loops import unpack  # noqa: PLC0415 - imports numba

        if not blocks:
            return
        lanes = len(values) // (blocks * SLOTS)
        words = packed.view(_WORD).astype(np.uint64, copy=False)
        mask = np.uint64((1 << self.bits) - 1)
        shape = blocks, self.bits, lanes
        unpack(words.reshape(shape), self._base, mask, values.reshape(blocks, SLOTS, lanes))

    @property
    def _base(self) -> np.uint64:
        return np.uint64(self.base % (1 << 64))


def block_length(dtype: np.dtype[Any]) -> int:
    """Numbers of a block."""
    return names.SIDECAR_BYTES // dtype.itemsize


def _lanes(length: int) -> int:
    return -(-length // SLOTS)


def _unsigned(values: AnyArray) -> AnyArray:
    return values.view(f"u{values.dtype.itemsize}")
