"""What the device's validator says without a device."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from ooc_graph.errors import DeviceError, MemoryBudgetError, UsageError
from ooc_graph.validate.cuda_loader import bytes_per_answer, largest_batch
from ooc_graph.validate.cuda_validator import CudaBfsValidator, CudaSsspValidator


def test_sizes_of_batches() -> None:
    assert bytes_per_answer(1 << 28, "bfs") == 5 << 28
    assert bytes_per_answer(1 << 28, "sssp") == 8 << 28
    assert bytes_per_answer(100, "bfs", np.dtype(np.int32)) == 800
    assert bytes_per_answer(100, "sssp", np.dtype(np.int64)) == 1200
    assert largest_batch(1000, "bfs", free=4000 + 64 * 5000) == 64
    assert largest_batch(1000, "bfs", free=4000 + 64 * 5000 - 1) == 60
    assert largest_batch(1000, "bfs", free=10**9) == 64
    assert largest_batch(1000, "sssp", free=4000 + 4 * 8000) == 4
    assert largest_batch(1000, "sssp", free=4000 + 7 * 8000 + 10, beside=10) == 4
    assert largest_batch(1000, "sssp", free=4000 + 4 * 8000 - 1) == 1
    with pytest.raises(MemoryBudgetError, match=r"1,000 vertices wants 8,000 bytes.*7,999 are"):
        largest_batch(1000, "sssp", free=4000 + 8000 - 1)


@pytest.mark.parametrize("kind", [CudaBfsValidator, CudaSsspValidator])
def test_batches_that_cannot_be(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    for vertices in (-1, 1 << 32):
        with pytest.raises(UsageError, match="takes 4,294,967,295 at most"):
            kind(vertices, 1)
    for answers in (0, 65):
        with pytest.raises(UsageError, match="1 to 64 answers"):
            kind(5, answers)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match="needs CuPy"):
        kind(5, 1)
