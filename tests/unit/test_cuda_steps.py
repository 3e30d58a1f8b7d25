"""What the steps of ranks on CUDA devices compute without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.bfs.rank import listed_at_once
from ooc_graph.kernels.cuda.pinned.sssp import SsspShare
from ooc_graph.kernels.cuda.runtime.rank_bytes import RankBytes, bfs_bytes, sssp_bytes
from ooc_graph.kernels.cuda.runtime.rows import MOST_ROWS, QUAD_ROWS, require_rows
from ooc_graph.kernels.cuda.runtime.steps import MOST_VERTICES, ids_of, pieces, width
from ooc_graph.kernels.cuda.runtime.table import slots_for, table_bytes
from ooc_graph.kernels.cuda.sssp import shared as cuda_sssp_shared
from ooc_graph.kernels.cuda.sssp.shared import constants, grouped
from ooc_graph.kernels.cuda.store.rank_rows import portions
from ooc_graph.traverse.bfs import FEW_ARCS
from ooc_graph.types import Dealing

NARROW, WIDE = np.dtype(np.uint32), np.dtype(np.uint64)


def test_ids_have_the_width_that_a_graph_needs() -> None:
    assert ids_of((1 << 32) - 1) == NARROW
    assert ids_of(1 << 32) == WIDE
    assert ids_of(MOST_VERTICES) == WIDE
    with pytest.raises(UsageError, match="4,398,046,511,105 vertices"):
        ids_of(MOST_VERTICES + 1)


def test_largest_id_is_not_taken_for_none_nor_its_block_cut() -> None:
    """`rank.cuh` keeps block numbers in 32 bits and takes all ones for none."""
    for vertices in ((1 << 32) - 1, MOST_VERTICES):
        assert vertices - 1 < np.iinfo(ids_of(vertices)).max
        assert (vertices - 1) >> 10 < 1 << 32


def test_code_for_ids_of_32_bits_has_no_new_constant() -> None:
    kept = {"WEIGHT": "float", "DIST": "float"}
    assert width(NARROW) == {}
    assert constants(np.dtype("f4"), np.dtype("f4"), NARROW) == kept
    assert constants(np.dtype("f4"), np.dtype("f4"), WIDE) == {**kept, "VERTEX": "u64"}


def test_rows_of_one_rank_have_numbers_of_32_bits() -> None:
    require_rows(MOST_ROWS)
    with pytest.raises(UsageError, match="4,293,918,721 rows in one piece"):
        require_rows(MOST_ROWS + 1)


def test_strides_beyond_the_last_row_have_numbers_of_32_bits() -> None:
    """All threads of a cooperative grid, on more multiprocessors than a device has, and a quad."""
    threads, multiprocessors = 1024, 1000
    assert MOST_ROWS + threads * multiprocessors + QUAD_ROWS < 1 << 32


def test_a_row_has_its_first_arc_at_hand() -> None:
    """`disk_sssp.cu` reads the last arc of a head to know what may lie beyond."""
    assert SsspShare(1, 63).least == 1
    with pytest.raises(UsageError, match="one arc of each row"):
        SsspShare(0, 63)


@pytest.mark.parametrize(("count", "most"), [(0, 3), (1, 3), (3, 3), (7, 3), (4, 0)])
def test_pieces_make_up_the_whole(count: int, most: int) -> None:
    found = list(pieces(count, most))
    assert [i for piece in found for i in range(piece.start, piece.stop)] == list(range(count))
    assert all(0 < piece.stop - piece.start <= max(most, 1) for piece in found)


def test_payloads_in_groups() -> None:
    payloads = [(np.arange(n), np.zeros(n)) for n in (0, 5, 4, 1, 20, 0, 10, 3, 0)]
    groups = list(grouped(payloads, 10))
    assert [len(p[0]) for group in groups for p in group] == [0, 5, 4, 1, 20, 0, 10, 3, 0]
    sizes = [sum(len(p[0]) for p in group) for group in groups]
    assert sizes == [10, 20, 10, 3]
    assert len(next(grouped(payloads[4:], 10))) == 1


def test_memory_by_the_width_of_ids() -> None:
    """The bytes of `docs/decisions/0012`."""
    f4, i8 = np.dtype(np.float32), np.dtype(np.int64)
    assert bfs_bytes(NARROW) == RankBytes(1, 13, 30)
    assert bfs_bytes(WIDE) == RankBytes(1, 17, 46)
    assert sssp_bytes(NARROW, f4) == RankBytes(17, 21, 24)
    assert sssp_bytes(WIDE, f4) == RankBytes(25, 29, 28)
    assert sssp_bytes(NARROW, i8) == RankBytes(25, 21, 28)
    assert sssp_bytes(WIDE, i8) == RankBytes(33, 29, 32)


def test_a_merge_has_one_group_on_the_device_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    class Upload:
        def __init__(self, parts: list[np.ndarray], dtype: np.dtype) -> None:
            self.entries, self.bytes = sum(map(len, parts)), sum(map(len, parts)) * dtype.itemsize
            now.append(self.bytes)
            held.append(sum(now))

        def __len__(self) -> int:
            return self.entries

        def __del__(self) -> None:
            now.remove(self.bytes)

    now: list[int] = []
    monkeypatch.setattr(cuda_sssp_shared, "uploaded", Upload)
    shared: Any = cuda_sssp_shared.CudaSsspShared.__new__(cuda_sssp_shared.CudaSsspShared)
    shared._steps = SimpleNamespace(
        clear=lambda: None, launch=lambda *_: None, counts=None, fetch=lambda: [0] * 8
    )
    vertices = 1000
    shared._list, shared._ids, shared._marks = range(vertices), WIDE, None
    shared.top, shared.distance = np.array([0], np.int64), None
    payload = (np.zeros(900, WIDE), np.zeros(900, np.int64), np.zeros(1))
    shared._relax([payload] * 4)
    assert len(held) == 8
    assert max(held) <= vertices * (WIDE.itemsize + shared.top.itemsize)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.lists(st.integers(1, 60)))
def test_portions_of_requests_have_every_arc_once(asked: list[int], rooms: list[int]) -> None:
    left, found, given_rooms = iter(rooms), [], []

    def room() -> int:
        given_rooms.append(next(left, 7))
        return given_rooms[-1]

    for first, last, begin, end in portions(np.array(asked), room):
        arcs = [(i, a) for i in range(first, last) for a in range(begin, min(end, asked[i]))]
        assert 0 < len(arcs) <= given_rooms[-1]
        found += arcs
    assert found == [(i, a) for i, count in enumerate(asked) for a in range(count)]


def test_a_table_has_twice_as_many_slots_as_entries() -> None:
    assert [slots_for(entries) for entries in (0, 1, 2, 3, 4, 5, 1 << 20)] == [
        *(2, 2, 4, 8, 8, 16, 1 << 21)
    ]
    assert table_bytes(5, 4, 20) == 16 * 24 + 4 * 5


def test_pushes_list_the_same_number_on_all_ranks() -> None:
    """A power of two, no less than what is pushed ahead, and about half a rank's rows."""
    for vertices, shards in ((1, 1), (5000, 8), (1 << 20, 4), (3_000_000, 2)):
        (listed,) = {listed_at_once(Dealing(vertices, shards, shard)) for shard in range(shards)}
        assert listed & (listed - 1) == 0
        assert FEW_ARCS <= listed <= max(FEW_ARCS, vertices // shards // 2)
