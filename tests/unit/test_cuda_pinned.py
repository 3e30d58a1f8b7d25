"""Memory is pinned as long as somebody holds it, and refusals say what would help; no device."""

from __future__ import annotations

import gc
import mmap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import pinned as cuda_pinned


class Runtime:
    """The calls that pin memory."""

    class CUDARuntimeError(Exception):
        """As CuPy's."""

    def __init__(self) -> None:
        self.pinned: dict[int, int] = {}
        self.most = 1 << 40

    def hostRegister(self, begin: int, size: int, flags: int) -> None:
        if size > self.most:
            raise self.CUDARuntimeError("out of memory")
        self.pinned[begin] = size

    def hostUnregister(self, begin: int) -> None:
        del self.pinned[begin]

    def pointerGetAttributes(self, begin: int) -> Any:
        return SimpleNamespace(devicePointer=begin)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    made = Runtime()
    monkeypatch.setattr(
        cuda_pinned, "cuda", lambda: SimpleNamespace(cuda=SimpleNamespace(runtime=made))
    )
    return made


def test_memory_is_pinned_as_long_as_it_is_held(runtime: Runtime) -> None:
    one, other = cuda_pinned._Pinned(10_000, 2), cuda_pinned._Pinned(20, 2)
    assert runtime.pinned == {one.address: 10_000, other.address: 20}
    assert bytes(one.pages) == bytes(10_000)
    left = other.address
    del one
    gc.collect()
    assert list(runtime.pinned) == [left]
    del other
    gc.collect()
    assert not runtime.pinned


def test_refusals_say_what_would_help(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.most = 1000
    with pytest.raises(MemoryBudgetError, match=r"1,001 bytes .* of locked memory \(ulimit -l\)"):
        cuda_pinned._Pinned(1001, 2)

    def refuse(*_: object, **__: object) -> None:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(MemoryBudgetError, match=r"Cannot allocate memory.*: free some") as refused:
        cuda_pinned._Pinned(1000, 2)
    assert "ulimit" not in str(refused.value)
    assert not runtime.pinned


class Allocator:
    """CuPy's memory that is pinned, and its pool, which rounds up."""

    def __init__(self) -> None:
        self.runtime, self.is_refused = Runtime(), False
        self.asked: list[tuple[str, int]] = []

    def alloc_pinned_memory(self, size: int) -> bytearray:
        self.asked.append(("pool", size))
        return bytearray(1 << size.bit_length())

    def PinnedMemory(self, size: int) -> bytearray:
        if self.is_refused:
            raise self.runtime.CUDARuntimeError("out of memory")
        self.asked.append(("system", size))
        return bytearray(size)

    def PinnedMemoryPointer(self, memory: bytearray, offset: int) -> memoryview:
        return memoryview(memory)[offset:]


def test_buffers_are_from_the_pool_or_no_larger_than_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Allocator()
    monkeypatch.setattr(cuda_pinned, "cuda", lambda: SimpleNamespace(cuda=made))
    for pooled in (True, False):
        buffer = cuda_pinned.pinned_buffer(1000, pooled=pooled)
        assert (len(buffer), buffer.dtype) == (1000, np.uint8)
    assert made.asked == [("pool", 1000), ("system", 1000)]
    assert isinstance(buffer.base, memoryview)
    made.is_refused = True
    # Ordinary memory, which nobody else has.
    assert cuda_pinned.pinned_buffer(1000, pooled=False).base is None
