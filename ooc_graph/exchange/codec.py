"""Bitmaps for the wire: words of uint64, written in whichever of three ways is smallest.

- sparse: the positions of the set bits, for the first and last levels of a search;
- runs: the words that are not zero, with one bit per word that tells which those are;
- plain: the words as they are.

Loss-free for any uint64 array, so an exchange may use it on every payload of that dtype.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PLAIN, SPARSE, RUNS = 0, 1, 2
HEADER_BYTES = 16
WORD_BITS = 64

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def encode(words: Words) -> Bytes:
    """Encode words (n,) as bytes: kind and n, then what the kind needs."""
    bits = int(np.bitwise_count(words).sum())
    filled = words != 0
    position = np.uint32 if len(words) * WORD_BITS <= 2**32 else np.uint64
    sizes = {
        PLAIN: words.nbytes,
        SPARSE: bits * np.dtype(position).itemsize,
        RUNS: (len(words) + 7) // 8 + 8 * int(filled.sum()),
    }
    kind = min(sizes, key=lambda k: sizes[k])
    if kind == PLAIN:
        parts: list[NDArray[np.generic]] = [words]
    elif kind == SPARSE:
        parts = [_positions(words).astype(position)]
    else:
        parts = [np.packbits(filled, bitorder="little"), words[filled]]
    header = np.array([kind, len(words)], "<u8")
    return np.concatenate([_raw(part) for part in (header, *parts)])


def decode(data: Bytes) -> Words:
    """Words (n,) from what `encode` wrote.

    Raises
    ------
    ValueError
        The bytes are not an encoded bitmap: unknown kind, or too few or too many of them.
    """
    if len(data) < HEADER_BYTES:
        raise ValueError(f"an encoded bitmap has at least {HEADER_BYTES} bytes, not {len(data)}")
    kind, count = (int(value) for value in data[:HEADER_BYTES].copy().view("<u8"))
    body = data[HEADER_BYTES:]
    if kind == PLAIN:
        return _exactly(body, count * 8).view("<u8").astype(np.uint64, copy=False)
    if kind == SPARSE:
        return _from_positions(body, count)
    if kind == RUNS:
        return _from_runs(body, count)
    raise ValueError(f"unknown kind of bitmap {kind}")


def _raw(array: NDArray[np.generic]) -> Bytes:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).view(np.uint8)


def _exactly(body: Bytes, size: int) -> Bytes:
    if len(body) != size:
        raise ValueError(f"an encoded bitmap of {size} bytes arrived with {len(body)}")
    return body.copy()


def _positions(words: Words) -> NDArray[np.int64]:
    index = np.flatnonzero(words)
    little = words[index].astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    bits = np.unpackbits(little, axis=1, bitorder="little")
    row, bit = np.nonzero(bits)
    return index[row] * WORD_BITS + bit


def _from_positions(body: Bytes, count: int) -> Words:
    width = 4 if count * WORD_BITS <= 2**32 else 8
    if len(body) % width:
        raise ValueError(f"{len(body)} bytes are no list of {width}-byte positions")
    position = body.copy().view(f"<u{width}").astype(np.int64)
    if len(position) and not 0 <= position.min() <= position.max() < count * WORD_BITS:
        raise ValueError("a set bit lies beyond the end of its bitmap")
    words = np.zeros(count, np.uint64)
    bits = np.uint64(1) << (position & (WORD_BITS - 1)).astype(np.uint64)
    np.bitwise_or.at(words, position >> 6, bits)
    return words


def _from_runs(body: Bytes, count: int) -> Words:
    flags_bytes = (count + 7) // 8
    flags = np.unpackbits(body[:flags_bytes], bitorder="little", count=min(count, len(body) * 8))
    filled = flags.astype(np.bool_)
    values = _exactly(body[flags_bytes:], 8 * int(filled.sum()))
    words = np.zeros(count, np.uint64)
    words[filled] = values.view("<u8")
    return words
