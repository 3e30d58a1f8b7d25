"""Bytes that are nearly right: seeds, cut, spliced, and with words in them that readers mind."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

from tests.fuzz.targets import json_of

MOST_BYTES = 1 << 14
WORDS = [
    *(str(number).encode() for number in (-1, 0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**40)),
    *(b"1e999", b"-1e-999", b"nan", b"inf", b"0x1p3", b"1_0", b"+1", b"1.5", b"-0.0", b"00001"),
    *(b"#", b"%", b"%%MatrixMarket", b"p sp", b"a ", b"e ", b"c", b",", b";", b"|", b"\t", b'"'),
    *(b"\r", b"\n", b"\r\n", b"\0", b"\x1a", b"\x1b[2J", b"\x1c", b"\x85", b"\xef\xbb\xbf"),
    *(b"\xff\xfe", b"\xed\xa0\x80", "\u0661\u2028".encode(), b"{", b"}", b"[" * 3000),
    *(
        b"null",
        b"true",
        b'"\\ud800"',
        b'"\\n"',
        b"../",
        b"/dev/zero",
        b"[]",
        b"{}",
        b'{"a":' * 3000,
    ),
    *(b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PK\x01\x02", b"PAR1", b"\x93NUMPY"),
    *(b"'descr'", b"'shape'", b"|O", b"<f8", b">i2", b"'<M8[ns]'", b"(1152921504606846976, 2)"),
]


VALUES = [None, True, -1, 0, 3, 2**32, 2**63, 2**70, 1.5, -0.0, 1e308, float("nan"), float("inf")]
VALUES += ["", "x", "a/../b", "/x", "a\nb\x1b", "\ud800", "y" * 300, [], {}, [[]], [None], {"x": 1}]


def mutated(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one change, or a few; of JSON often with other values in it."""
    seed = draw.choice(seeds)
    if draw.random() < 0.5 and (found := other_json(draw, seed)) is not None:
        return found
    data = bytearray(seed)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        size = draw.choice((1, 1, 2, 4, 8, 30, 200))
        change = draw.randrange(9)
        if change == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif change == 1 and at < len(data):
            data[at] = draw.randrange(256)
        elif change == 2:
            del data[at : at + size]
        elif change == 3:
            data[at:at] = draw.choice(WORDS)
        elif change == 4:
            data[at : at + size] = draw.choice(WORDS)
        elif change == 5:
            del data[at:]
        elif change == 6:
            data[at:at] = data[at : at + size] * draw.choice((1, 1, 2, 100))
        elif change == 7:
            other = draw.choice(seeds)
            begin = draw.randrange(len(other) + 1)
            data[at : at + size] = other[begin : begin + size]
        else:
            _other_number(data, draw)
    return bytes(data[:MOST_BYTES])


def _other_number(data: bytearray, draw: random.Random) -> None:
    """Replace a run of digits by another number."""
    digits = [at for at, byte in enumerate(data) if 48 <= byte < 58]
    if not digits:
        return
    begin = end = draw.choice(digits)
    while end < len(data) and 48 <= data[end] < 58:
        end += 1
    data[begin:end] = draw.choice(WORDS[:9])


def other_json(draw: random.Random, data: bytes) -> bytes | None:
    """JSON, or lines of it, with a value or a few changed; None: it is neither."""
    lines = data.splitlines(keepends=True)
    at = draw.randrange(len(lines)) if lines else 0
    for begin, end in ((0, len(lines)), (at, at + 1)):
        found = json_of(b"".join(lines[begin:end]))
        if isinstance(found, dict | list):
            for _ in range(draw.choice((1, 1, 2, 4))):
                _change(found, draw)
            text = json.dumps(found, indent=1 if end - begin > 1 else None).encode()
            return b"".join([*lines[:begin], text, b"\n", *lines[end:]])[:MOST_BYTES]
    return None


def _change(found: Any, draw: random.Random) -> None:
    """Change one value somewhere: nearer to the root more often."""
    while True:
        keys = list(found if isinstance(found, dict) else range(len(found)))
        if not keys:
            return
        key = draw.choice(keys)
        inner = found[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.25:
            break
        found = inner
    change = draw.randrange(4)
    if change == 0:
        del found[key]
    elif change == 1:
        found[key] = copy.deepcopy(found[draw.choice(keys)])
    elif change == 2 and isinstance(found, dict):
        found[str(draw.choice(VALUES))] = found.pop(key)
    else:
        found[key] = copy.deepcopy(draw.choice(VALUES))
