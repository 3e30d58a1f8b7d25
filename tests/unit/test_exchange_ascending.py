"""Candidates are reduced to the smallest of each id before they are sent, and ids ascend."""

from __future__ import annotations

import numpy as np
import pytest

from ooc_graph.exchange.ascending import FEW_IDS, LONG_PIECES, SPARSE, smallest_of_each


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("piece", [1, 2 * LONG_PIECES])
@pytest.mark.parametrize("count", [FEW_IDS + 1, 600])
@pytest.mark.parametrize("spread", [0.1, SPARSE // 2, 9 * SPARSE])
def test_the_smallest_of_each(
    dtype: str, wide: bool, piece: int, count: int, spread: float
) -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 1 + int(spread * count), count).astype(np.uint64 if wide else np.uint32)
    ids += ids.dtype.type((1 << 63) + 5 if wide else 5)
    for start in range(0, count, piece):
        ids[start : start + piece].sort()
    values = (1000 * rng.random(count)).astype(dtype)
    values[::7] = np.inf if values.dtype.kind == "f" else np.iinfo(np.int64).max
    least: dict[int, float] = {}
    for one, value in zip(ids.tolist(), values.tolist(), strict=True):
        least[one] = min(value, least.get(one, value))
    ascending, smallest = smallest_of_each(ids, values)
    assert (ascending.dtype, smallest.dtype) == (ids.dtype, values.dtype)
    assert ascending.tolist() == sorted(least)
    assert smallest.tolist() == [least[one] for one in sorted(least)]
    again, same = smallest_of_each(ascending, smallest)
    assert again is ascending
    assert same is smallest


@pytest.mark.parametrize("count", [0, 1, FEW_IDS])
def test_few_stay_as_they_are(count: int) -> None:
    ids, values = np.zeros(count, np.uint32), np.ones(count)
    again, same = smallest_of_each(ids, values)
    assert again is ids
    assert same is values
