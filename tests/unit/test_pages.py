"""Pages that are asked for before they are written to."""

from __future__ import annotations

import os
import threading
import time
from itertools import pairwise
from typing import Any

import numpy as np
import psutil
import pytest

from ooc_graph.kernels import pages
from ooc_graph.kernels.pages import LEAST_BYTES, populated_ahead

ARRAY_BYTES = 2 * LEAST_BYTES
LIMIT_S = 60


def test_new_memory_has_its_pages_and_keeps_what_is_written() -> None:
    if tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (5, 14):
        pytest.skip("the system knows no MADV_POPULATE_WRITE")
    process, ends = psutil.Process(), time.monotonic() + LIMIT_S
    array = np.empty(ARRAY_BYTES, np.uint8)
    before = process.memory_info().rss
    with populated_ahead(array, 2):
        array[::4097] = 7
        # All but what does not fill a huge page at both ends.
        while process.memory_info().rss - before < ARRAY_BYTES - (8 << 20):
            assert time.monotonic() < ends
            time.sleep(0.01)
    assert (array[::4097] == 7).all()


@pytest.mark.parametrize("answer", [True, False])
def test_pieces_are_asked_for_once_and_no_more_after_a_refusal(
    answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    done, most = threading.Event(), 4 if answer else 1

    def populate(at: int, count: int) -> bool:
        asked.append((at, count))
        if len(asked) == most:
            done.set()
        return answer

    monkeypatch.setattr(pages, "_populate", lambda: populate)
    array = np.empty(ARRAY_BYTES, np.uint8)
    with populated_ahead(array, 1):
        assert done.wait(LIMIT_S)
    if not answer:
        assert len(asked) == 1
        return
    begin = array.ctypes.data
    assert asked == sorted(set(asked))
    assert begin <= asked[0][0] < begin + (2 << 20)
    assert all(sum(one) == after for one, (after, _) in pairwise(asked))
    assert begin + ARRAY_BYTES - (2 << 20) < sum(asked[-1]) <= begin + ARRAY_BYTES


def test_threads_that_are_refused_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise MemoryError("no further thread")

    monkeypatch.setattr(pages.Threads, "submit", refuse)
    array = np.zeros(ARRAY_BYTES, np.uint8)
    with populated_ahead(array, 2):
        array[0] = 1


def test_small_arrays_and_systems_without_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "Threads", None)
    with populated_ahead(np.empty(LEAST_BYTES - 1, np.uint8), 2):
        pass
    monkeypatch.setattr(pages, "_populate", lambda: None)
    with populated_ahead(np.empty(ARRAY_BYTES, np.uint8), 2):
        pass
