"""Hashes of the files in a store, and the crc32c of a file from those of its blocks.

A digest is a string: the name of its hash function, a colon, and hexadecimal digits. Files are
written with BLAKE3, which is several times as fast as SHA-256; stores of format version 1 have
SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import google_crc32c
import numpy as np
from blake3 import blake3

FUNCTIONS: dict[str, Callable[[], Any]] = {"blake3": blake3, "sha256": hashlib.sha256}
"""Hash functions by name; each works on the thread that calls it."""
NEW = "blake3:"
"""How the digests of new files begin."""


class Hasher:
    """Makes the digest of bytes that come in pieces, by the function of another digest."""

    def __init__(self, like: str = NEW) -> None:
        self._name = like.partition(":")[0]
        self._hash = FUNCTIONS[self._name]()
        self.update = self._hash.update

    def digest(self) -> str:
        """Digest of what was added so far."""
        return f"{self._name}:{self._hash.hexdigest()}"


def digest_of(content: bytes, like: str = NEW) -> str:
    """Digest of bytes, by the function of another digest."""
    hasher = Hasher(like)
    hasher.update(content)
    return hasher.digest()


def crc_of_blocks(blocks: Sequence[int], block_bytes: int, last_bytes: int) -> int:
    """crc32c of consecutive blocks from the crc32c of each.

    All blocks have ``block_bytes``, except for the last one, which has ``last_bytes``. No byte is
    read again: a crc is linear over GF(2), so that of A and B follows from that of A as if zeros
    came after it, and that of B.
    """
    first, second, third, fourth = _after_zeros(block_bytes)
    whole = 0
    for crc in blocks[:-1]:
        whole = (
            first[whole & 255]
            ^ second[whole >> 8 & 255]
            ^ third[whole >> 16 & 255]
            ^ fourth[whole >> 24]
            ^ crc
        )
    if whole:
        zeros = np.zeros(last_bytes, np.uint8)
        whole = google_crc32c.extend(whole, zeros) ^ google_crc32c.value(zeros)
    return whole ^ blocks[-1] if blocks else whole


@cache
def _after_zeros(count: int) -> list[list[int]]:
    """What ``count`` zeros make of each value of each byte of a crc32c, lowest byte first."""
    zeros = np.zeros(count, np.uint8)
    of_none = google_crc32c.value(zeros)
    tables = []
    for byte in range(4):
        table = [0]
        for bit in range(8 * byte, 8 * byte + 8):
            after = google_crc32c.extend(1 << bit, zeros) ^ of_none
            table += [after ^ other for other in table]
        tables.append(table)
    return tables
