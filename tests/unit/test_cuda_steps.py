"""What the steps of ranks on CUDA devices compute without one."""

from __future__ import annotations

import numpy as np
import pytest

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda_held import MOST_ROWS, require_rows
from ooc_graph.kernels.cuda_rank_bytes import bfs_bytes, sssp_bytes
from ooc_graph.kernels.cuda_sssp_shared import constants, grouped
from ooc_graph.kernels.cuda_steps import MOST_VERTICES, ids_of, pieces, width

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
    with pytest.raises(UsageError, match="4,294,967,295 rows in one piece"):
        require_rows(MOST_ROWS + 1)


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
    assert (bfs_bytes(NARROW).vertex, bfs_bytes(NARROW).row) == (9, 29)
    assert (bfs_bytes(WIDE).vertex, bfs_bytes(WIDE).row) == (17, 33)
    assert (sssp_bytes(NARROW, f4).vertex, sssp_bytes(NARROW, f4).row) == (17, 45)
    assert (sssp_bytes(WIDE, f4).vertex, sssp_bytes(WIDE, f4).row) == (25, 57)
    assert (sssp_bytes(NARROW, i8).vertex, sssp_bytes(NARROW, i8).row) == (25, 49)
    assert (sssp_bytes(WIDE, i8).vertex, sssp_bytes(WIDE, i8).row) == (33, 61)
