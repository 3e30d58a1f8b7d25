"""A device that has little memory left."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from ooc_graph.errors import MemoryBudgetError


def assert_refused_without_memory(make: Callable[[], object], most: int, words: str) -> None:
    """With little memory left, ``make`` says that it needs more, and leaves nothing behind.

    Tried with every size from nothing to ``most`` bytes in steps that are finer than the larger
    allocations, so that each of those fails once. Afterwards there is memory again.
    """
    import cupy

    pool = cupy.get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    before, limit = pool.used_bytes(), pool.get_limit()
    try:
        for left in range(0, most + 1, most // 16):
            pool.set_limit(max(1, before + left))
            with pytest.raises(MemoryBudgetError, match=words):
                make()
            gc.collect()
            assert pool.used_bytes() == before
            pool.free_all_blocks()
    finally:
        pool.set_limit(limit)
    make()
