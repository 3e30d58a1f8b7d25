"""The allocator with a limit, over memory that only counts."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from ooc_graph.kernels.cuda.runtime import pool as cuda_pool
from ooc_graph.kernels.cuda.runtime.pool import GRANULE_BYTES, PAGE_BYTES, PAGES_LIMIT, WholePieces


class OutOfMemory(MemoryError):
    """As ``cupy.cuda.memory.OutOfMemoryError``."""


class RuntimeRefused(Exception):
    """As ``cupy.cuda.runtime.CUDARuntimeError``."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Machine:
    """A device that gives so many bytes, as CuPy has it."""

    def __init__(self, total: int) -> None:
        self.total, self.taken, self.made, self.stream, self.status = total, 0, 0, 7, 2
        machine = self

        class Memory:
            def __init__(self, size: int) -> None:
                self.size = 0
                if machine.taken + size > machine.total:
                    raise RuntimeRefused(machine.status)
                machine.taken += size
                machine.made += 1
                self.size, self.ptr = size, id(self)

            def __del__(self) -> None:
                machine.taken -= self.size

        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                Memory=Memory,
                MemoryPointer=lambda memory, offset: memory,
                UnownedMemory=lambda ptr, size, owner, device: owner,
                Device=lambda: SimpleNamespace(id=0),
                get_current_stream=lambda: SimpleNamespace(ptr=machine.stream),
                memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
                runtime=SimpleNamespace(CUDARuntimeError=RuntimeRefused),
            ),
            get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=self.free_all_blocks),
        )

    def free_all_blocks(self) -> None:
        """What the pool that everybody shares keeps, none here."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine(1 << 30)
    monkeypatch.setattr(cuda_pool, "cuda", lambda: made.cupy)
    yield made
    gc.collect()  # An error that was expected holds what its frames held.
    assert made.taken == 0


def test_what_was_freed_serves_the_same_size_and_goes_back_for_another(machine: Machine) -> None:
    pool = WholePieces(10 * GRANULE_BYTES)
    large = pool.malloc(8 * GRANULE_BYTES)
    address = large.ptr
    del large
    assert machine.taken == pool.used_bytes == 8 * GRANULE_BYTES
    again = pool.malloc(8 * GRANULE_BYTES - 1)
    assert (again.ptr, machine.made) == (address, 1)
    del again
    # CuPy's pool would cut the large piece for the small one, and could not give six.
    small = pool.malloc(4 * GRANULE_BYTES)
    assert machine.taken == 4 * GRANULE_BYTES
    larger = pool.malloc(6 * GRANULE_BYTES)
    assert machine.taken == pool.used_bytes == pool.most_bytes == 10 * GRANULE_BYTES
    with pytest.raises(OutOfMemory) as refused:
        pool.malloc(1)
    assert refused.value.args == (GRANULE_BYTES, 10 * GRANULE_BYTES, 10 * GRANULE_BYTES)
    del small, larger


def test_what_was_freed_first_goes_back_first(machine: Machine) -> None:
    pool = WholePieces(6 * GRANULE_BYTES)
    for units in (1, 2, 3):
        pool.malloc(units * GRANULE_BYTES)
    assert machine.taken == 6 * GRANULE_BYTES
    other = pool.malloc(GRANULE_BYTES // 2 + 3 * GRANULE_BYTES)
    # The two that were freed first made room; the third one did so too, as they were too small.
    assert (machine.taken, machine.made) == (4 * GRANULE_BYTES, 4)
    del other
    other = pool.malloc(2 * GRANULE_BYTES)
    assert (machine.taken, machine.made) == (6 * GRANULE_BYTES, 5)
    del other


def test_streams_have_pieces_of_their_own(machine: Machine) -> None:
    pool = WholePieces(4 * GRANULE_BYTES)
    pool.malloc(GRANULE_BYTES)
    machine.stream = 8
    held = pool.malloc(GRANULE_BYTES)
    assert machine.made == 2
    machine.stream = 7
    also = pool.malloc(GRANULE_BYTES)
    assert machine.made == 2
    del held, also


def test_a_device_that_has_less_than_the_limit(machine: Machine) -> None:
    pool = WholePieces(1 << 30)
    machine.total = 4 * GRANULE_BYTES
    pool.malloc(3 * GRANULE_BYTES)
    held = pool.malloc(2 * GRANULE_BYTES)
    assert machine.taken == pool.used_bytes == 2 * GRANULE_BYTES
    with pytest.raises(OutOfMemory):
        pool.malloc(3 * GRANULE_BYTES)
    assert pool.used_bytes == 2 * GRANULE_BYTES
    machine.status = 999
    with pytest.raises(RuntimeRefused):
        pool.malloc(3 * GRANULE_BYTES)
    del held


def test_large_limits_count_whole_pages(machine: Machine) -> None:
    machine.total = 1 << 40
    pool = WholePieces(PAGES_LIMIT)
    half = pool.malloc(PAGE_BYTES // 2 - 1)
    assert machine.taken == pool.used_bytes == PAGE_BYTES // 2
    larger = pool.malloc(PAGE_BYTES + 1)
    assert machine.taken == pool.used_bytes == PAGE_BYTES // 2 + 2 * PAGE_BYTES
    with pytest.raises(OutOfMemory):
        pool.malloc(PAGES_LIMIT - 3 * PAGE_BYTES + 1)
    del half, larger
    pool = WholePieces(PAGES_LIMIT - 1)
    held = pool.malloc(PAGE_BYTES + 1)
    assert pool.used_bytes == PAGE_BYTES + GRANULE_BYTES
    del held


def test_nothing_takes_nothing(machine: Machine) -> None:
    pool = WholePieces(0)
    pool.malloc(0)
    with pytest.raises(OutOfMemory):
        pool.malloc(1)


def test_what_is_in_a_cycle_is_found_before_memory_is_refused(machine: Machine) -> None:
    pool = WholePieces(4 * GRANULE_BYTES)
    knot: list[Any] = [pool.malloc(3 * GRANULE_BYTES)]
    knot.append(knot)
    del knot
    held = pool.malloc(2 * GRANULE_BYTES)
    assert machine.taken == pool.used_bytes == 2 * GRANULE_BYTES
    del held


def test_what_the_shared_pool_keeps_goes_back_before_memory_is_refused(machine: Machine) -> None:
    pool = WholePieces(1 << 30)
    kept = [machine.cupy.cuda.Memory(machine.total - GRANULE_BYTES)]
    machine.free_all_blocks = kept.clear  # type: ignore[method-assign]
    held = pool.malloc(2 * GRANULE_BYTES)
    assert (machine.taken, machine.made) == (2 * GRANULE_BYTES, 2)
    del held


def test_it_gives_all_that_its_limit_leaves(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However arrays come and go."""
    monkeypatch.setattr(cuda_pool.gc, "collect", lambda: 0)  # it would take all the time
    choose, limit = random.Random(1), 1000
    pool, held = WholePieces(limit * GRANULE_BYTES), list[Any]()
    for _ in range(5000):
        units = choose.randint(1, 400)
        live = sum(size for _, size in held)
        if live + units <= limit:
            held.append((pool.malloc(units * GRANULE_BYTES), units))
        else:
            with pytest.raises(OutOfMemory):
                pool.malloc(units * GRANULE_BYTES)
            held.pop(choose.randrange(len(held)))
        assert machine.taken == pool.used_bytes <= limit * GRANULE_BYTES
    assert pool.most_bytes > 0.9 * limit * GRANULE_BYTES
    held.clear()


def test_what_is_kept_is_free_for_others(machine: Machine) -> None:
    pool = WholePieces(10 * GRANULE_BYTES)
    first, second = pool.malloc(6 * GRANULE_BYTES), pool.malloc(3 * GRANULE_BYTES)
    free = machine.total - machine.taken
    assert pool.free_within(free) == GRANULE_BYTES
    assert pool.free_within(100) == 100
    del first
    assert pool.used_bytes == 9 * GRANULE_BYTES
    assert pool.free_within(free) == 7 * GRANULE_BYTES
    # Of a device that others have filled, what is kept.
    assert pool.free_within(0) == 6 * GRANULE_BYTES
    again = pool.malloc(7 * GRANULE_BYTES)
    assert pool.free_within(free) == 0
    del second, again


def test_a_limited_build_has_what_others_have_given_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shared pool keeps counts as free, but is of no use to another pool."""
    given: list[Any] = []
    monkeypatch.setattr(machine, "free_all_blocks", lambda: given.append("all"))
    monkeypatch.setattr(
        machine.cupy.cuda,
        "using_allocator",
        lambda malloc: nullcontext(given.append(malloc)),
        raising=False,
    )
    monkeypatch.setattr(cuda_pool, "is_plain_pool", lambda: True)
    with cuda_pool.allocating(cuda_pool.pool_within(7000)):
        everything, malloc = given
        assert everything == "all"
        piece = malloc(3000)
        with pytest.raises(OutOfMemory):
            malloc(4000)
        assert given.pop() == "all"
        del piece
    with cuda_pool.allocating(cuda_pool.pool_within(None)):
        pass
    # Another allocator, or a limit that somebody has set, stays.
    monkeypatch.setattr(cuda_pool, "is_plain_pool", lambda: False)
    with cuda_pool.allocating(cuda_pool.pool_within(7000)):
        pass
    assert len(given) == 2
    given.clear()
    del malloc
