"""Threads that the system does not start."""

from __future__ import annotations

import threading

import pytest

from ooc_graph.threads import Threads
from tests.own_process import in_own_process


def test_a_thread_that_is_refused_is_memory_that_is_refused() -> None:
    in_own_process(refused)


def refused() -> None:
    """Where nobody else starts a thread: a stack of this size has no room in any address space."""
    before = threading.stack_size(1 << 46)
    try:
        with Threads(1) as pool, pytest.raises(MemoryError, match="no further thread"):
            pool.submit(int)
    finally:
        threading.stack_size(before)


def test_other_errors_stay_what_they_are() -> None:
    pool = Threads(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int)
