"""Bitmaps survive the wire, in the smallest of three forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ooc_graph.exchange.codec import HEADER_BYTES, PLAIN, RUNS, SPARSE, decode, encode


@given(
    arrays(np.uint64, st.integers(0, 200), elements=st.sampled_from([0, 1, 5, 2**63, 2**64 - 1]))
)
def test_round_trip(words):
    data = encode(words)
    assert data.dtype == np.uint8
    assert decode(data).tobytes() == words.tobytes()
    assert len(data) <= HEADER_BYTES + words.nbytes


def kind(words):
    return int(encode(words)[0])


def test_the_smallest_form_is_taken():
    few, some, all_ = np.zeros((3, 1000), np.uint64)
    few[[3, 77, 999]] = [1, 2**40, 2**63]
    some[500:600] = 2**64 - 1
    all_[:] = 2**64 - 1
    assert (kind(few), kind(some), kind(all_)) == (SPARSE, RUNS, PLAIN)
    assert len(encode(few)) == HEADER_BYTES + 3 * 4
    for words in (few, some, all_):
        assert decode(encode(words)).tobytes() == words.tobytes()


@pytest.mark.parametrize("bits", [3, 6400, 64000])
def test_damage_is_refused(bits):
    words = np.zeros(1000, np.uint64)
    words[: bits // 64 + 1] = 2**64 - 1 if bits > 64 else 7
    words = words[:1000]
    data = encode(words)
    with pytest.raises(ValueError, match="bytes"):
        decode(data[:-1])
    wrong = data.copy()
    wrong[0] = 9
    with pytest.raises(ValueError, match="unknown kind"):
        decode(wrong)
    with pytest.raises(ValueError, match="at least"):
        decode(data[:5])


def test_positions_beyond_the_end_are_refused():
    data = encode(np.array([1] + [0] * 9, np.uint64))
    data[HEADER_BYTES : HEADER_BYTES + 4] = np.array([640], "<u4").view(np.uint8)
    with pytest.raises(ValueError, match="beyond the end"):
        decode(data)
