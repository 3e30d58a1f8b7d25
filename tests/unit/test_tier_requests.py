"""Lists of rows behind heads that follow a rule, requests as words, and flags that come back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.kernels.common.bitmap import pack_bits, whole_set
from ooc_graph.kernels.common.store.rows import TierRows, Window, new_window
from ooc_graph.kernels.common.store.scans import (
    arcs_beyond,
    heaviest_ends,
    keep_flagged,
    pack_requests,
    request_words,
)
from ooc_graph.kernels.common.store.windows import LoadedArcs, list_tails
from ooc_graph.memory.heads import HeadRule
from ooc_graph.shards.tiny_tiers import bind_rows
from ooc_graph.types import Rows

ALL = 1 << 32
RULES = [(1, 63), (1, 0), (2, 3), (5, 1), (7, 63), (ALL, 63)]
LENGTHS = st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 9, 40, 1000, 70_000]), min_size=1)


def by_rule(lengths: np.ndarray, rule: tuple[int, int]) -> LoadedArcs:
    return LoadedArcs(lengths, lengths[:0], *rule)


def listed(bits: np.ndarray, loaded: LoadedArcs, window: Window) -> list:
    found, word = [], 0
    while word < len(bits):
        count, after = list_tails(bits, loaded, window, word)
        assert after > word
        word = after
        pairs = zip(window.row[:count], window.cursor[:count], strict=True)
        found += [(int(row), int(cursor)) for row, cursor in pairs]
    return found


@given(LENGTHS, st.sampled_from(RULES), st.integers(0, 2**64 - 1), st.sampled_from([64, 192]))
def test_rows_behind_their_heads(
    lengths: list[int], rule: tuple[int, int], chosen: int, room: int
) -> None:
    some = np.array([chosen >> (row % 64) & 1 for row in range(len(lengths))], np.bool_)
    of_rows = np.array(lengths, np.uint32)
    heads = HeadRule(*rule).of(of_rows)
    wanted = [
        (row, int(heads[row]))
        for row in range(len(lengths))
        if some[row] and heads[row] < of_rows[row]
    ]
    bits = pack_bits(some)
    starts = np.concatenate([[0], np.cumsum(heads)])
    for loaded in (by_rule(of_rows, rule), LoadedArcs(of_rows, starts, 0, 0)):
        assert listed(bits, loaded, new_window(1, room)) == wanted
        beyond = sum(lengths[row] - head for row, head in wanted)
        assert arcs_beyond(bits, loaded) == beyond


def test_windows_are_filled_word_by_word() -> None:
    lengths = np.full(1000, 9, np.uint32)
    found = listed(whole_set(1000), by_rule(lengths, (4, 63)), new_window(2, 128))
    assert found == [(row, 4) for row in range(1000)]


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128])
def test_the_set_of_all_rows(count: int) -> None:
    assert whole_set(count).tobytes() == pack_bits(np.ones(count, np.bool_)).tobytes()


def some_window(columns: int) -> Window:
    window, random = new_window(columns, 64), np.random.default_rng(1)
    for part in window:
        part[...] = random.integers(1, 1 << 31, part.shape)
    return window


@pytest.mark.parametrize("columns", [1, 2])
def test_requests_stand_word_by_word(columns: int) -> None:
    window, packed = some_window(columns), np.zeros(request_words(columns) * 64, np.uint32)
    pack_requests(window, 3, 10, packed)
    words = packed[: 7 * request_words(columns)].reshape(-1, 7)
    wanted = [window.row, window.cursor, window.asked, *window.offset]
    assert words.tolist() == [part[3:10].tolist() for part in wanted]
    assert not packed[7 * request_words(columns) :].any()


def test_flagged_rows_go_on_if_they_have_more() -> None:
    limits = np.array([10, 10, 10, 10], np.uint32)
    window = new_window(2, 64)
    window.row[:4], window.cursor[:4], window.asked[:4] = [0, 1, 2, 3], [0, 2, 6, 5], [4, 4, 4, 4]
    flags = np.array([1, 1, 0], np.uint8)
    kept = keep_flagged(limits, window, 1, 4, 1, flags)
    # Row 0 was kept before; row 2 has no more arcs, and row 3 wants none.
    assert kept == 2
    assert (window.row[:2].tolist(), window.cursor[:2].tolist()) == ([0, 1], [0, 6])


def test_the_heaviest_arc_ends_a_row() -> None:
    lengths = np.array([4, 9, 2, 0], np.uint32)
    window = new_window(2, 64)
    window.row[:3], window.cursor[:3], window.asked[:3] = [0, 1, 2], [2, 0, 0], [2, 4, 2]
    window.offset[1, :3] = [0, 2, 6]
    weights = np.array([1, 5, 7, 7, 7, 9, 3, 4], np.float32)
    heaviest = np.array([2], np.float32)
    heaviest_ends(lengths, window, 0, 3, weights, heaviest)
    assert heaviest.tolist() == [5]
    heaviest_ends(lengths, window, 2, 3, np.full(8, 6, np.float32), heaviest)
    assert heaviest.tolist() == [6]


def a_row(arcs: int) -> TierRows:
    """One row with weights, of which the first arc is in memory, and batches of eight arcs."""
    neighbors, weights = np.zeros(arcs, np.uint32), np.ones(arcs, np.float64)
    rows = Rows(np.array([0, arcs], np.uint64), neighbors, weights)
    return bind_rows(rows, HeadRule(1), block_bytes=16, batch_blocks=2)


def scan_whole(rows: TierRows) -> None:
    for waiting in rows.tails(whole_set(1)):
        rows.scan(waiting, lambda *part: int(part[4]), 1 << 20)


def test_a_request_larger_than_a_batch_is_refused() -> None:
    rows = a_row(100)
    scan_whole(rows)
    rows.most_look = 100
    with pytest.raises(AssertionError, match="99 arcs do not fit a batch"):
        scan_whole(rows)


def test_a_column_without_room_for_a_batch_is_refused() -> None:
    rows = a_row(8)
    for room in rows._numbers:
        room[1] = room[1][:1]
    with pytest.raises(AssertionError, match="column 1 has no room"):
        scan_whole(rows)
