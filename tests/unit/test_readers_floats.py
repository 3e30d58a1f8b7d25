"""Weights are rounded as Python's float rounds them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ooc_graph.edges import open_source
from ooc_graph.kernels.cpu.build import decimals, doubles


def bits_of(text: str) -> int:
    """Bits of the double that the kernel finds, or SLOW_BITS."""
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    status, _, _, bits = decimals.read_weight(raw, 0, len(raw), decimals.WEIGHT_FLOAT)
    assert status == decimals.OK
    return int(bits)


def check(text: str) -> bool:
    """Compare with Python; whether the kernel decided by itself."""
    bits = bits_of(text)
    if bits == int(doubles.SLOW_BITS):
        return False
    assert bits == struct.unpack("<Q", struct.pack("<d", float(text)))[0], text
    return True


@settings(max_examples=2000, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
@example(0.0)
@example(-0.0)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
def test_shortest_spellings(value: float) -> None:
    check(repr(value))


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 10**25), st.integers(-340, 310))
@example(9007199254740993, 0)
@example(9007199254740993, 1)
@example(2**64 - 1, 0)
@example(10**19, 0)
def test_digits_and_exponents(digits: int, power: int) -> None:
    check(f"{digits}e{power}")
    text = str(digits)
    check(f"-{text[:3]}.{text[3:]}E{power:+d}")


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**11), st.integers(2**52, 2**53 - 1), st.integers(-1, 1))
def test_halfway_between_two_doubles(shift: int, mantissa: int, off: int) -> None:
    exponent = shift % 11
    check(str(((2 * mantissa + 1) << exponent) + off))
    check(f"{(2 * mantissa + 1) * 5**3 + off}e-3")


def test_most_numbers_need_no_help() -> None:
    rng = np.random.default_rng(1)
    spelled = [repr(value) for value in rng.random(2000).tolist()]
    assert all(check(text) for text in spelled)


def test_columns_of_random_doubles(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    raw = rng.integers(0, 2**64, 40_000, dtype=np.uint64).view(np.float64)
    values = raw[np.isfinite(raw)].tolist()
    spelled = [f"{v:.{d}e}" for v, d in zip(values, rng.integers(0, 30, len(values)), strict=True)]
    spelled = [text for text in spelled if abs(float(text)) < float("inf")]
    path = tmp_path / "g.wel"
    path.write_text("".join(f"1 2 {text}\n" for text in spelled))
    source = open_source(path)
    found = np.concatenate([b.weight for u in source.units(5000) for b in source.read(u, 999)])
    expected = np.array([float(text) for text in spelled])
    np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


@pytest.mark.parametrize("text", ["1e", "e5", ".", "-", "+", "1.2.3", "1_0", "0x1p3", "1e+", "--1"])
def test_what_is_no_number(text: str) -> None:
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    status = decimals.read_weight(raw, 0, len(raw), decimals.WEIGHT_FLOAT)[0]
    assert status == decimals.BAD_WEIGHT


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-Inf", "+infinity", "NAN(7)"])
def test_what_is_not_finite(text: str) -> None:
    raw = np.frombuffer(text.encode(), dtype=np.uint8)
    status = decimals.read_weight(raw, 0, len(raw), decimals.WEIGHT_EITHER)[0]
    assert status == decimals.NOT_FINITE
