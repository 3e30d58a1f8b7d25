"""A device that has little memory left."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules


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


def used_bytes() -> int:
    """Bytes that CuPy's pool has given out, without what only waits to be collected."""
    gc.collect()
    return int(cuda_modules.cuda().get_default_memory_pool().used_bytes())


class Refusing:
    """CuPy's pool as an allocator that refuses one allocation, counted from 1; or none, 0."""

    def __init__(self, pool: Any, refused: int = 0) -> None:
        self._pool, self.made, self.refused = pool, 0, refused

    def __call__(self, size: int) -> Any:
        from cupy.cuda.memory import OutOfMemoryError

        self.made += 1
        if self.made == self.refused:
            raise OutOfMemoryError(size, 0)
        return self._pool.malloc(size)


def refuse_each_allocation(make: Callable[[], object], at_least: int, *, every: int = 1) -> None:
    """With one allocation refused, ``make`` says that memory ran out, and leaves nothing behind.

    Its allocations, of which there are so many at least, are refused one in each run of ``make``:
    all of them in turn, or one in ``every`` of them.
    """
    import cupy

    pool = cupy.get_default_memory_pool()
    make()
    gc.collect()
    before, allocator = pool.used_bytes(), Refusing(pool)
    with cupy.cuda.using_allocator(allocator):
        make()
        count = allocator.made
        assert count >= at_least
        for refused in range(1, count + 1, every):
            allocator.made, allocator.refused = 0, refused
            said = ""
            try:
                make()
            except MemoryBudgetError as error:
                said = str(error)
            assert "does not fit the device" in said, f"allocation {refused} of {count}: {said}"
            assert "bytes are free" in said
            if pool.used_bytes() != before:
                gc.collect()
            assert pool.used_bytes() == before
    make()
