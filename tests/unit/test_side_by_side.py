"""Work that threads do side by side."""

from __future__ import annotations

import signal
import threading

import pytest

from ooc_graph.kernels.cpu.many.choice import side_by_side

WAIT_S = 120.0


@pytest.mark.parametrize("threads", [1, 3])
def test_every_place_is_done_once(threads):
    done = []
    side_by_side(threads, 20, lambda thread, place: done.append((place, thread)))
    assert sorted(place for place, _ in done) == list(range(20))
    assert {thread for _, thread in done} <= set(range(threads))


def test_places_are_taken_by_who_is_free():
    done, are_over = [], threading.Event()

    def do(_, place):
        if place == 0:
            assert are_over.wait(WAIT_S)
        done.append(place)
        if place == 19:
            are_over.set()

    side_by_side(2, 20, do)
    assert done == [*range(1, 20), 0]


class Odd(BaseException):
    pass


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, Odd])
def test_an_error_ends_all_threads_after_the_calls_that_they_are_in(error, failing):
    done, is_begun = [], threading.Event()

    def do(thread, place):
        if thread == failing:
            assert is_begun.wait(WAIT_S)
            raise error("at the first place")
        is_begun.set()
        done.append(place)
        # Slow, so that the other thread's error arrives meanwhile.
        threading.Event().wait(0.02)

    with pytest.raises(error, match="at the first place"):
        side_by_side(2, 2000, do)
    assert 1 <= len(done) < 900


def test_an_interrupt_of_the_thread_that_waits_ends_all():
    done, is_begun, is_seen = [], threading.Event(), threading.Event()
    waiting = threading.main_thread().ident

    def see(number, frame):
        is_seen.set()
        raise KeyboardInterrupt

    def interrupt():
        assert is_begun.wait(WAIT_S)
        # To the thread that waits, as Ctrl-C is: a signal that another thread gets does not end its
        # wait. Again, should it have come just before the wait began.
        signal.pthread_kill(waiting, signal.SIGINT)
        while not is_seen.wait(1.0):
            signal.pthread_kill(waiting, signal.SIGINT)

    def do(_, place):
        is_begun.set()
        done.append(place)
        threading.Event().wait(0.02)

    before = signal.signal(signal.SIGINT, see)
    try:
        timer = threading.Thread(target=interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            side_by_side(2, 20_000, do)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) < 18_000
