"""Files of sorted runs by ranges of rows: what is written is read, in order, and then gone."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.layout import blocks
from ooc_graph.shards import range_runs
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.range_runs import Part, PartWriter, RangeRuns, RunReader, spill_bytes
from ooc_graph.shards.workforce import Workforce

WORDS = [None, np.dtype(np.uint32), np.dtype(np.uint64)]
PAUSE_S = 60


def copy(data: np.ndarray, room: np.ndarray) -> None:
    room[:] = data


def buffers(count: int, size: int = 64) -> list[np.ndarray]:
    return [np.empty(size, np.uint8) for _ in range(count)]


@pytest.fixture
def workforce() -> Iterator[Workforce]:
    with ThreadPoolExecutor(2) as executor:
        yield Workforce(executor, BuildBudget(1 << 30, 1, 2), lambda function: function())


def write_run(runs: RangeRuns, side: str, keys: np.ndarray, words: Any) -> None:
    """As the device's writer does, in this thread."""
    writer = PartWriter(copy, buffers(1))
    cuts = [*np.searchsorted(keys, runs.bounds(side)).tolist(), len(keys)]
    for part, start in runs.new_run(side, cuts):
        span = slice(start, start + part.arcs)
        writer.write(part, keys[span], None if words is None else words[span])


def some_run(rng: np.random.Generator, arcs: int, rows: int, word: Any) -> tuple[Any, Any]:
    keys = np.sort(rng.integers(0, rows, arcs).astype(np.uint64) << np.uint64(32) | np.uint64(7))
    return keys, None if word is None else rng.integers(0, 1 << 31, arcs).astype(word)


@pytest.mark.parametrize("word", WORDS)
def test_ranges_are_read_as_they_were_written(
    word: Any, tmp_path: Path, workforce: Workforce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_runs, "MOST_ARCS", 11)
    monkeypatch.setattr(range_runs, "LEAST_ARCS", 1)
    rng, lows = np.random.default_rng(3), [0, 10, 11, 60]
    runs = RangeRuns(tmp_path, {"out": lows, "in": lows}, word)
    # The second range is a single row; the third run leaves it, and others, without arcs.
    made = {
        side: [some_run(rng, arcs, rows, word) for arcs, rows in ((90, 80), (0, 80), (40, 9))]
        for side in ("out", "in")
    }
    for side, found in made.items():
        for run in found:
            write_run(runs, side, *run)
    assert runs.written_bytes == 2 * spill_bytes(130, word.itemsize if word else 0)
    assert runs.written_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    order = [(side, number) for side in made for number in range(4)]
    reader = RunReader(runs, workforce, order)
    for at, (side, number) in enumerate(order):
        low, high = lows[number], [*lows, 1 << 31][number + 1]
        expected = [
            np.flatnonzero((keys >> np.uint64(32) >= low) & (keys >> np.uint64(32) < high))
            for keys, _ in made[side]
        ]
        assert runs.arcs(side, number) == sum(len(places) for places in expected)
        pieces = list(reader.pieces(side, number))
        assert all(len(keys) <= 11 for keys, _ in pieces)
        for column in range(1 if word is None else 2):
            want = np.concatenate(
                [run[column][places] for run, places in zip(made[side], expected, strict=True)]
            )
            got = np.concatenate([np.empty(0, want.dtype), *(piece[column] for piece in pieces)])
            np.testing.assert_array_equal(got, want)
        left = {path.name.rsplit("-", 1)[0] for path in tmp_path.iterdir()}
        assert left <= {f"{side}-{number:06d}" for side, number in order[at + 1 :]}
    assert list(tmp_path.iterdir()) == []
    assert runs.read_bytes == runs.written_bytes


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    buffer=st.sampled_from([8, 24, 4096]),
    word=st.sampled_from(WORDS),
)
def test_parts_of_any_size(
    sizes: list[int], buffer: int, word: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(len(sizes))
    runs = RangeRuns(folder, {"out": range(len(sizes))}, word)
    writer = PartWriter(copy, buffers(2, buffer))
    keys, words = some_run(rng, sum(sizes), 5, word)
    cuts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for part, start in runs.new_run("out", cuts):
        span = slice(start, start + part.arcs)
        writer.write(part, keys[span], None if words is None else words[span])
        for begin in range(part.arcs):
            got, beside = part.read(begin, part.arcs)
            np.testing.assert_array_equal(got, keys[span][begin:])
            if words is not None:
                np.testing.assert_array_equal(beside, words[span][begin:])
    assert [runs.arcs("out", number) for number in range(len(sizes))] == sizes


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path, workforce: Workforce) -> None:
    runs = RangeRuns(tmp_path, {"out": [0]}, np.dtype(np.uint32))
    write_run(runs, "out", *some_run(np.random.default_rng(1), 50, 9, np.uint32))
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - 1)
    reader = RunReader(runs, workforce, [("out", 0)])
    with pytest.raises(OSError, match="ended early"):
        list(reader.pieces("out", 0))
    reader.stop()
    assert path.exists()


def test_a_reader_that_is_stopped_reads_no_more(
    tmp_path: Path, workforce: Workforce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_runs, "MOST_ARCS", 4)
    monkeypatch.setattr(range_runs, "LEAST_ARCS", 1)
    runs = RangeRuns(tmp_path, {"out": [0]}, None)
    write_run(runs, "out", *some_run(np.random.default_rng(1), 400, 9, None))
    real, reads = Part.read, []

    def noted(*arguments: Any) -> Any:
        reads.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(Part, "read", noted)
    reader = RunReader(runs, workforce, [("out", 0)])
    next(reader.pieces("out", 0))
    reader.stop()
    begun = len(reads)
    assert 1 <= begun <= workforce.budget.slots + 3
    workforce.executor.submit(int).result(PAUSE_S)
    assert len(reads) == begun


def test_a_buffer_comes_back_when_a_write_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, keys = PartWriter(copy, buffers(1)), np.arange(5, dtype=np.uint64)

    def full(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(blocks.os, "write", full)
        with pytest.raises(OSError, match="No space"):
            writer.write(Part(tmp_path / "a.run", 5, None), keys, None)
    done = threading.Thread(
        target=writer.write, args=(Part(tmp_path / "b.run", 5, None), keys, None)
    )
    done.start()
    done.join(PAUSE_S)
    assert not done.is_alive()
    assert (tmp_path / "b.run").read_bytes() == keys.tobytes()
