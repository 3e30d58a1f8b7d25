"""Answers on their way from a CUDA device that is made up: who is told of them, and when."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.cuda.many import host as cuda_many_host
from ooc_graph.kernels.cuda.many import pieces as cuda_many_pieces
from ooc_graph.kernels.cuda.many.host import HostAnswers
from ooc_graph.kernels.cuda.runtime import pinned as cuda_pinned

LANES, WIDTH, PITCH = 4, 5, 8
PAGEABLE, PINNED = 0, 1


class Stream:
    """What is to be done there is done when somebody waits for it."""

    ptr = 0

    def __init__(self, **_: Any) -> None:
        self.queued: list[Callable[[], None]] = []

    def record(self) -> Event:
        event = Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        event.synchronize()

    def synchronize(self) -> None:
        while self.queued:
            self.queued.pop(0)()


class Event:
    def __init__(self, **_: Any) -> None:
        self._stream, self._before = Stream(), list[Callable[[], None]]()

    def record(self, stream: Stream) -> None:
        # What is queued by now comes before it.
        self._stream, self._before = stream, [*stream.queued]

    def synchronize(self) -> None:
        while self._before and self._before[-1] in self._stream.queued:
            self._stream.queued.pop(0)()


class Search:
    """Distances of source s are s, s + 1, ...; those of the device's row are beyond."""

    slots, dtype = LANES, np.dtype(np.float32)

    def columns(self) -> Any:
        return SimpleNamespace(count=WIDTH)

    def pitch(self, _: Any) -> int:
        return PITCH

    def search_into(self, out: Any, sources: Any, *_: Any) -> None:
        rows = out.memory[: len(sources) * PITCH].reshape(-1, PITCH)
        rows[:] = -1
        rows[:, :WIDTH] = sources[:, None] + np.arange(WIDTH)


class Buffer:
    """Memory of the device."""

    def __init__(self, elements: int, dtype: Any) -> None:
        self.memory = np.empty(elements, dtype)
        self.data = SimpleNamespace(ptr=self.memory.ctypes.data)


@pytest.fixture(params=[PAGEABLE, PINNED])
def copied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Rows of each copy, when it is done."""
    done: list[int] = []
    streams: list[Stream] = []

    def stream(**given: Any) -> Stream:
        streams.append(Stream(**given))
        return streams[-1]

    def copy(to: int, step: int, from_: int, pitch: int, width: int, rows: int, *_: int) -> None:
        def arrive() -> None:
            for row in range(rows):
                ctypes.memmove(to + row * step, from_ + row * pitch, width)
            done.append(rows)

        streams[-1].queued.append(arrive)

    kind = SimpleNamespace(type=request.param)
    cuda = SimpleNamespace(
        get_current_stream=Stream,
        Stream=stream,
        Event=Event,
        runtime=SimpleNamespace(memcpy2DAsync=copy, pointerGetAttributes=lambda _: kind),
    )
    cupy = SimpleNamespace(cuda=cuda, empty=Buffer)
    for module in (cuda_many_host, cuda_many_pieces, cuda_pinned):
        monkeypatch.setattr(module, "cuda", lambda: cupy)
    monkeypatch.setattr(cuda_many_host, "pinned_buffer", lambda size, **_: np.empty(size, np.uint8))
    # Two batches at a time.
    monkeypatch.setattr(cuda_many_host, "PART_BYTES", 2 * LANES * PITCH * 4)
    yield done
    assert not any(stream.queued for stream in streams)


def right(sources: Any) -> np.ndarray:
    return (sources[:, None] + np.arange(WIDTH)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 8, 9, 16, 30])
def test_parts_are_told_of_once_they_have_arrived(copied: list[int], count: int) -> None:
    sources = np.arange(100, 100 + count)
    answer = np.full((count, WIDTH), np.nan, np.float32)
    reported: list[tuple[int, int]] = []

    def hear(begin: int, end: int) -> None:
        assert np.array_equal(answer[begin:end], right(sources[begin:end]))
        # No other part is searched or on its way, so that a run which is killed does not lose it.
        assert sum(copied) == end
        assert np.isnan(answer[end:]).all()
        reported.append((begin, end))

    answers: Any = HostAnswers(Search(), 2)  # type: ignore[arg-type]
    answers.run(sources, answer, on_done=OnDone(hear))
    assert reported == [(low, min(low + 8, count)) for low in range(0, count, 8)]
    again = np.empty_like(answer)
    answers.run(sources, again)
    assert np.array_equal(again, right(sources))


def test_who_is_told_may_end_the_search(copied: list[int]) -> None:
    sources, reported = np.arange(64), []

    def hear(begin: int, _: int) -> None:
        reported.append(begin)
        if len(reported) == 3:
            raise CancelledError

    answer = np.empty((64, WIDTH), np.float32)
    answers: Any = HostAnswers(Search(), 2)  # type: ignore[arg-type]
    with pytest.raises(CancelledError):
        answers.run(sources, answer, on_done=OnDone(hear))
    assert reported == [0, 8, 16]
    assert sum(copied) == 24


# A row has 20 bytes, and a part 8 rows: of all of them, of three, of one, and of two distances.
PIECE_BYTES = (1 << 20, 3 * WIDTH * 4, WIDTH * 4, 8)


@pytest.mark.parametrize("piece_bytes", PIECE_BYTES)
@pytest.mark.parametrize("pieces", [1, 2, 5])
@pytest.mark.parametrize("count", [1, 7, 30])
def test_answers_pass_few_pieces(
    copied: list[int], count: int, pieces: int, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_many_pieces, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(cuda_many_pieces, "PIECES", pieces)
    sources, reported = np.arange(50, 50 + count), list[int]()
    answers: Any = HostAnswers(Search(), 3)  # type: ignore[arg-type]
    for _ in range(2):
        answer = np.full((count, WIDTH), np.nan, np.float32)

        def hear(begin: int, end: int, answer: np.ndarray = answer) -> None:
            assert np.array_equal(answer[begin:end], right(sources[begin:end]))
            reported.append(begin)

        answers.run(sources, answer, on_done=OnDone(hear))
        assert np.array_equal(answer, right(sources))
    assert reported == 2 * list(range(0, count, 8))
    assert copied
    assert len(answers._staged) <= pieces * piece_bytes


@pytest.mark.parametrize("piece_bytes", PIECE_BYTES)
def test_rows_go_where_they_are_wanted(
    copied: list[int], piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in page-locked memory, where the device would write them one after another."""
    monkeypatch.setattr(cuda_many_pieces, "PIECE_BYTES", piece_bytes)
    sources, answer = np.arange(20), np.full((33, WIDTH), -5, np.float32)
    at = np.sort(np.random.default_rng(1).choice(33, 20, replace=False))
    expected = answer.copy()
    expected[at] = right(sources)
    answers: Any = HostAnswers(Search(), 2)  # type: ignore[arg-type]
    answers.run(sources, answer, at=at)
    assert np.array_equal(answer, expected)
    answers.run(sources[:0], answer, at=at[:0])
    assert np.array_equal(answer, expected)
    assert copied


def test_a_thread_that_is_refused_leaves_nothing_on_its_way(
    copied: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise MemoryError("the system starts no further thread")

    sources, answer = np.arange(30), np.empty((30, WIDTH), np.float32)
    answers: Any = HostAnswers(Search(), 2)  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(cuda_many_host.Threads, "submit", refuse)
        at = np.arange(30)
        with pytest.raises(MemoryError, match="no further thread"):
            answers.run(sources, answer, at=at)
    copied.clear()
    answers.run(sources, answer)
    assert np.array_equal(answer, right(sources))
    assert copied
