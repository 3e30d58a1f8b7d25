"""What ranks tell each other comes back as it was, from the smallest form."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.exchange import block_loops
from ooc_graph.exchange.codec import Packed, packed, unpacked
from ooc_graph.exchange.coded import HEADER, Form
from ooc_graph.exchange.coded_bitmap import blocks_of
from ooc_graph.exchange.disjoint import Disjoint
from ooc_graph.types import AnyArray

DENSITIES = [0.0, 1e-5, 1e-3, 1 / 256, 1 / 64, 0.05, 1 / 8, 0.5, 0.9, 0.99, 0.9999, 1.0]


def form_of(coded: AnyArray | None) -> Form | None:
    return None if coded is None else Form(int(coded[0]) & 255)


def back_again(array: AnyArray) -> AnyArray | None:
    """The array coded, if it is, after it was compared with what comes back."""
    coded, is_coded = packed(array)
    if not is_coded:
        assert coded is array
        return None
    assert coded.dtype == np.uint64
    assert coded.nbytes <= array.nbytes - array.nbytes // 8
    back = unpacked(Packed(coded.copy(), is_coded))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    return coded


def bitmap(bits: AnyArray) -> AnyArray:
    return np.packbits(bits, bitorder="little").view(np.uint64)


def flags(words: int, density: float, run: int, seed: int) -> AnyArray:
    """Bits that are set in runs of about so many, sparser towards the end."""
    rng = np.random.default_rng(seed)
    starts = rng.random(-(-64 * words // run)) < density
    fade = rng.random(len(starts)) < np.linspace(1.0, 0.2, len(starts)) if seed % 2 else True
    return np.repeat(starts & fade, run)[: 64 * words]


@settings(deadline=None, max_examples=150)
@given(
    words=st.integers(9, 1500),
    density=st.sampled_from(DENSITIES),
    run=st.sampled_from([1, 3, 50, 256, 5000]),
    seed=st.integers(0, 99),
)
def test_bitmaps_of_every_density(words: int, density: float, run: int, seed: int) -> None:
    bits = flags(words, density, run, seed)
    coded = back_again(bitmap(bits))
    sizes = bitmap_sizes(bits)
    form = form_of(coded)
    if coded is None or form not in (Form.MEMBERS, Form.BLOCKS):
        below = 7 * words if coded is None else coded.nbytes
        assert min(sizes.values()) >= below - 8 * (HEADER + 1)
    else:
        # Filled up to words, with a byte behind it.
        assert sizes[form] == min(sizes.values())
        assert coded.nbytes == 8 * HEADER + (sizes[form] // 8 * 8 + 8 if sizes[form] else 0)


def bitmap_sizes(bits: AnyArray) -> dict[Form, int]:
    """Bytes of the body of a bitmap by its form, counted from its bits."""
    members = np.flatnonzero(bits)
    bits = np.append(bits, np.zeros(-len(bits) % 256, bool)).reshape(-1, 256)
    inside, changes = bits.sum(axis=1), (bits[:, 1:] != bits[:, :-1]).sum(axis=1)
    least = np.minimum(inside, changes)[inside > 0]
    groups = -(-len(bits) // 64)
    sizes = {Form.BLOCKS: 16 * groups + int(np.where(least < 32, 1 + least, 33).sum())}
    if len(members) * 64 <= bits.size:
        steps = np.diff(members, prepend=0).tolist()
        sizes[Form.MEMBERS] = sum(max(1, -(-step.bit_length() // 7)) for step in steps)
    return sizes


@settings(deadline=None, max_examples=150)
@given(
    count=st.integers(1, 3000),
    density=st.sampled_from(DENSITIES[1:]),
    wide=st.booleans(),
    order=st.sampled_from(["ascending", "any", "runs", "again"]),
    seed=st.integers(0, 99),
)
def test_ids_of_every_density(
    count: int, density: float, wide: bool, order: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    dtype = np.uint64 if wide else np.uint32
    ids = np.cumsum(rng.geometric(density, count)).astype(dtype)
    ids += dtype(rng.integers(0, (1 << (63 if wide else 32)) - int(ids[-1])))
    if order == "any":
        ids = rng.permutation(ids)
    elif order == "again":
        ids = np.sort(rng.choice(ids, count))
    elif order == "runs":
        ids = np.repeat(rng.permutation(ids)[: 1 + count // 40], 40)
    coded = back_again(ids)
    if coded is not None and form_of(coded) not in (Form.SET, Form.RUNS):
        # Nobody needs more than bytes as wide as the widest number above the least.
        width = -(-int(ids.max() - ids.min()).bit_length() // 8)
        assert coded.nbytes <= width * len(ids) + 8 * (HEADER + 1)


@settings(deadline=None)
@given(st.lists(st.integers(0, (1 << 64) - 1) | st.sampled_from([0, 1, (1 << 64) - 1]), min_size=9))
def test_any_words(words: list[int]) -> None:
    back_again(np.array(words, np.uint64))
    back_again(np.array([word & 0xFFFFFFFF for word in words] * 2, np.uint32))


SPREAD = np.random.default_rng(5)
CHOSEN: dict[str, tuple[Any, Form | None]] = {
    "no member": (np.zeros(100, np.uint64), Form.MEMBERS),
    "few members": (bitmap(flags(500, 1e-3, 1, 0)), Form.MEMBERS),
    "some members": (bitmap(flags(500, 0.05, 1, 0)), Form.BLOCKS),
    "long runs": (bitmap(flags(500, 0.5, 300, 0)), Form.BLOCKS),
    "half of the bits": (bitmap(flags(500, 0.5, 1, 0)), None),
    "many ids": (np.flatnonzero(flags(500, 0.5, 1, 0)).astype(np.uint32), Form.SET),
    "few ids": (np.flatnonzero(flags(500, 0.01, 1, 0)).astype(np.uint32), Form.RISING),
    "neighbours": (np.tile(np.arange(0, 90_000, 900, dtype=np.uint32), 9), Form.STEPS),
    "parents": (np.repeat(np.array([7, 1 << 30, 9], np.uint32), 99), Form.RUNS),
    "ids in any order": (SPREAD.integers(0, 1 << 24, 999).astype(np.uint32), Form.NARROW),
    "any numbers": (SPREAD.integers(0, 1 << 32, 999).astype(np.uint32), None),
    "few bytes": (np.zeros(8, np.uint64), None),
    "floats": (np.zeros(100, np.float32), None),
    "signed": (np.zeros(100, np.int64), None),
    "a table": (np.zeros((10, 10), np.uint64), None),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_form_follows_from_the_numbers(name: str) -> None:
    array, form = CHOSEN[name]
    assert form_of(back_again(array)) == form
    assert form_of(back_again(np.repeat(array, 2, axis=0)[::2])) == form


def test_groups_are_read_in_any_order_and_at_once() -> None:
    bits = flags(3000, 0.3, 20, 1)
    coded = packed(bitmap(bits)).array
    assert form_of(coded) == Form.BLOCKS
    groups = -(-3000 // block_loops.GROUP_WORDS)
    body = coded[HEADER:].view(np.uint8)
    lying = blocks_of(body, groups, int(coded[2]))
    words = np.zeros(3000, np.uint64)
    with ThreadPoolExecutor(3) as threads:
        for group in np.random.default_rng(2).permutation(groups).tolist():
            threads.submit(block_loops.read_blocks, *lying, group, group + 1, words)
    assert words.tolist() == bitmap(bits).tolist()


def test_a_rehearsal_compiles_all_loops() -> None:
    """So that no search waits for it."""
    program = (
        "from ooc_graph.exchange import block_loops, codec, codec_loops\n"
        "codec.rehearse()\n"
        "both = vars(block_loops) | vars(codec_loops)\n"
        "loops = [loop for loop in both.values() if hasattr(loop, 'signatures')]\n"
        "used = [loop for loop in loops if loop.stats.cache_path]\n"
        "assert used\n"
        "assert all(loop.signatures for loop in used)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@settings(deadline=None)
@given(
    words=st.integers(9, 300),
    levels=st.lists(st.sampled_from([0.0, 1e-3, 0.1, 0.5, 0.97, 1.0]), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_bitmaps_without_a_bit_in_common(words: int, levels: list[float], seed: int) -> None:
    """They come back without the bits that made them smaller."""
    rng = np.random.default_rng(seed)
    sender, receiver = Disjoint(), Disjoint()
    left = np.ones(64 * words, bool)
    for share in levels:
        bits = left & (rng.random(len(left)) < share)
        left &= ~bits
        plain = bitmap(bits)
        sent = packed(sender.filled(plain))
        # At most it takes as much more as is said of groups and blocks.
        assert sent.array.nbytes <= packed(plain).array.nbytes + 24 + words // 4
        np.testing.assert_array_equal(receiver.taken(unpacked(sent)), plain)


def test_what_was_told_before_is_free() -> None:
    """Nearly all rows, half of which were told before, take hardly any bytes."""
    half = flags(400, 0.5, 1, 4)
    sender = Disjoint()
    assert packed(sender.filled(bitmap(half))).array.nbytes == 3200
    assert packed(sender.filled(bitmap(~half))).array.nbytes < 200
