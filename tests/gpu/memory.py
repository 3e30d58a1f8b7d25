"""A device that has little memory left."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from ooc_graph.errors import MemoryBudgetError


def assert_refused_without_memory(make: Callable[[], object], left_bytes: int, words: str) -> None:
    """With so much memory left, ``make`` says that it needs more, and leaves nothing behind."""
    import cupy

    pool = cupy.get_default_memory_pool()
    gc.collect()
    pool.free_all_blocks()
    before, limit = pool.used_bytes(), pool.get_limit()
    pool.set_limit(before + left_bytes)
    try:
        with pytest.raises(MemoryBudgetError, match=words):
            make()
    finally:
        pool.set_limit(limit)
    gc.collect()
    assert pool.used_bytes() == before
    make()
