"""Hashes of files by name, and crc32c of files from those of their blocks."""

from __future__ import annotations

import hashlib

import google_crc32c
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.layout.digests import Hasher, crc_of_blocks, digest_of


@given(data=st.binary(max_size=300), block=st.integers(1, 80))
@settings(deadline=None, max_examples=300)
def test_crc_of_blocks_of_any_length(data: bytes, block: int) -> None:
    check(data, block)


@given(data=st.binary(min_size=1, max_size=50), times=st.integers(1, 9000), block=st.integers(1, 9))
@settings(deadline=None, max_examples=30)
def test_crc_of_blocks_of_chunks(data: bytes, times: int, block: int) -> None:
    check(data * times, block << 13)


def check(data: bytes, block: int) -> None:
    blocks = [data[begin : begin + block] for begin in range(0, len(data), block)]
    crcs = [google_crc32c.value(one) for one in blocks]
    last = len(blocks[-1]) if blocks else block
    assert crc_of_blocks(crcs, block, last) == google_crc32c.value(data)


def test_digests_are_those_of_the_functions() -> None:
    # From the test vectors of BLAKE3 and of FIPS 180-4.
    assert digest_of(b"") == (
        "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    )
    assert digest_of(b"abc", "sha256:") == (
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


@pytest.mark.parametrize(("like", "function"), [("blake3:", blake3), ("sha256:", hashlib.sha256)])
def test_digest_of_pieces(like: str, function: object) -> None:
    hasher = Hasher(like)
    hasher.update(b"ab")
    hasher.update(memoryview(bytearray(b"c" * 5000)))
    whole = b"ab" + b"c" * 5000
    assert hasher.digest() == like + function(whole).hexdigest()  # type: ignore[operator]
    assert digest_of(whole, hasher.digest()) == hasher.digest() != digest_of(whole[1:], like)
