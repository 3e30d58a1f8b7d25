"""Batches and units of sources that are recorded together, and the room there is for them."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ooc_graph.answers.reduced import SourceNumbers
from ooc_graph.kernels.common.completion import OnDone, batches_of, counted_from, starts
from ooc_graph.strategies.many import recording as many_recording
from ooc_graph.strategies.many.recording import Recording

WAIT_S = 60.0


def hear(_: int, __: int) -> None:
    pass


def test_batches_where_nobody_records() -> None:
    for on_done in (None, OnDone(hear)):
        assert starts(10, 4, on_done).tolist() == [0, 4, 8, 10]
        assert starts(8, 4, on_done).tolist() == [0, 4, 8]
        assert starts(0, 4, on_done).tolist() == [0]


@pytest.mark.parametrize(
    ("bounds", "each", "most", "threads", "wanted"),
    [
        # Whole units, or some of one.
        ([0, 4, 8, 12], 8, 8, 1, [0, 8, 12]),
        ([0, 4, 8, 12], 7, 7, 1, [0, 4, 8, 12]),
        ([0, 4, 8, 12], 3, 3, 1, [0, 2, 4, 6, 8, 10, 12]),
        # More than is wanted, where a unit then comes to its end.
        ([0, 4, 8, 12], 3, 4, 2, [0, 4, 8, 12]),
        ([0, 2, 4, 6, 8], 3, 4, 2, [0, 4, 8]),
        ([0, 64, 128, 192], 48, 64, 2, [0, 64, 128, 192]),
        ([0, 232, 460, 690, 920], 229, 256, 2, [0, 232, 460, 690, 920]),
        # Fewer units than threads.
        ([0, 61], 31, 64, 2, [0, 31, 61]),
        ([0, 64], 64, 64, 2, [0, 64]),
        # Units without sources.
        ([0, 0, 3, 3, 3, 7], 4, 4, 1, [0, 3, 7]),
        ([0, 3, 6, 6], 6, 6, 1, [0, 6]),
        ([0, 0], 4, 4, 1, [0]),
        # As behind a trial that ended in the middle of one.
        ([2, 6, 10], 4, 4, 1, [0, 2, 6, 10]),
        ([2, 6, 10], 8, 8, 1, [0, 2, 10]),
    ],
)
def test_batches_of_units(
    bounds: list[int], each: int, most: int, threads: int, wanted: list[int]
) -> None:
    on_done = OnDone(hear, np.array(bounds))
    assert starts(bounds[-1], each, on_done, most, threads).tolist() == wanted


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=9),
    st.integers(1, 12),
    st.integers(0, 4),
    st.integers(1, 4),
    st.integers(0, 50),
)
def test_no_batch_has_some_of_a_unit_and_others(
    sizes: list[int], each: int, more: int, threads: int, by: int
) -> None:
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    count = int(bounds[-1])
    by, most = min(by, count), each + more
    on_done = counted_from(OnDone(hear, bounds), by)
    begins = starts(count - by, each, on_done, most, threads)
    assert (begins[0], begins[-1]) == (0, count - by)
    edges = set(bounds.tolist())
    for begin, end in pairwise((by + begins).tolist()):
        assert begin < end <= begin + most
        inside = bounds[(bounds > begin) & (bounds < end)]
        assert {begin, end} <= edges or not len(inside)
        if end < count and {begin, end} <= edges:
            # It has as many as are wanted, or more would be too many.
            after = bounds[bounds > end][0]
            assert end - begin >= each or after - begin > most


def test_who_hears_of_places_that_are_counted_from_another() -> None:
    heard: list[tuple[int, int]] = []
    on_done = OnDone(lambda *part: heard.append(part), np.array([0, 4, 8]), 5)
    later = counted_from(on_done, 4)
    assert later is not None
    later(1, 3)
    assert heard == [(5, 7)]
    assert later.bounds.tolist() == [0, 4]
    assert later.most == 5
    inside = counted_from(on_done, 3)
    assert inside is not None
    assert inside.bounds.tolist() == [1, 5]
    assert counted_from(None, 4) is None


def test_each_stretch_waits_for_room() -> None:
    asked: list[int] = []
    on_done = OnDone(hear, np.array([0, 3, 6]), wait_for=asked.append)
    seen = [(part.start, part.stop, list(asked)) for part in batches_of(8, 4, on_done)]
    assert seen == [(0, 3, [3]), (3, 6, [3, 3]), (6, 8, [3, 3, 2])]


class Written:
    """Stands for who writes a chunk: notes its number, and waits until it may be done."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.threads: set[int] = set()
        self.may_end = threading.Event()
        self.changed = threading.Condition()

    def __call__(self, _: Any, number: int) -> None:
        with self.changed:
            self.begun.append(number)
            self.threads.add(threading.get_ident())
            self.changed.notify_all()
        assert self.may_end.wait(WAIT_S)


def rows_of(sources: int) -> SourceNumbers:
    return SourceNumbers([None] * sources)


def test_a_thread_that_searches_records_what_it_has_found() -> None:
    written, rows = Written(), rows_of(10)
    written.may_end.set()
    with Recording(written, 10, 4, 0) as recording:
        on_done = recording.of(rows, np.arange(10) % 2 == 0)
        # Places among those that are searched from: 0, 2, 4, 6, 8.
        assert on_done.bounds.tolist() == [0, 2, 4, 5]
        on_done.wait_for(100)
        on_done(0, 1)
        assert written.begun == []
        on_done(1, 3)
        assert written.begun == [0]
        on_done(3, 5)
        assert written.begun == [0, 1, 2]
        assert written.threads == {threading.get_ident()}


def test_no_more_are_found_than_may_be_lost() -> None:
    written, rows = Written(), rows_of(20)
    gone_on, is_asked = list[int](), threading.Event()
    with Recording(written, 20, 4, 10) as recording:
        on_done = recording.of(rows, np.ones(20, np.bool_))
        on_done.wait_for(4)
        on_done(0, 4)
        # Four wait to be recorded, and as many are searched from.
        on_done.wait_for(4)
        on_done(4, 8)

        def search() -> None:
            is_asked.set()
            on_done.wait_for(4)
            gone_on.append(len(written.begun))

        searching = threading.Thread(target=search)
        searching.start()
        assert is_asked.wait(WAIT_S)
        searching.join(0.2)
        assert not gone_on
        written.may_end.set()
        searching.join(WAIT_S)
        assert gone_on
        # A stretch that is larger is searched when nothing waits.
        on_done.wait_for(11)
        on_done(8, 20)
    assert sorted(written.begun) == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in written.threads
    assert many_recording._unrecorded._count == 0


@pytest.mark.parametrize("length", [3, 6, 10])
def test_a_chunk_that_is_not_complete_counts(length: int) -> None:
    """Searched one by one: with those that wait no more than there may be, or those of a chunk."""
    written, most, begun = Written(), 10, list[int]()
    with Recording(written, 40, length, most) as recording:
        on_done = recording.of(rows_of(40), np.ones(40, np.bool_))

        def search() -> None:
            for place in range(40):
                on_done.wait_for(1)
                begun.append(place)
                on_done(place, place + 1)

        searching = threading.Thread(target=search)
        searching.start()
        searching.join(0.3)
        assert len(begun) == most // length * length
        written.may_end.set()
        searching.join(WAIT_S)
    assert begun == list(range(40))
    assert sorted(written.begun) == list(range(-(-40 // length)))
    assert many_recording._unrecorded._count == 0


def test_what_cannot_be_written_is_not_waited_for() -> None:
    def write(_: Any, number: int) -> None:
        raise OSError(28, f"no space for {number}")

    def search(most: int) -> None:
        with Recording(write, 8, 4, most) as recording:
            on_done = recording.of(rows_of(8), np.ones(8, np.bool_))
            on_done(4, 8)
            on_done.wait_for(4)
            raise AssertionError("was not told that it is over")

    with pytest.raises(OSError, match="for 1"):
        search(4)
    assert many_recording._unrecorded._count == 0
    # By the thread that searches.
    with pytest.raises(OSError, match="for 1"):
        search(0)
