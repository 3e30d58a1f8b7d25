"""The memory watch sees an allocation, in this process and in another, and costs little."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from ooc_graph.report.data import MemorySample
from ooc_graph.report.memory_watch import MemoryWatch, process_tree, resident_bytes, thinned
from tests.own_process import in_own_process

SIZE_BYTES = 200_000_000
SLACK_BYTES = 40_000_000
CHILD = (
    "import sys; print(1, flush=True); sys.stdin.readline();"
    f"held = bytearray(b'x') * {SIZE_BYTES}; print(2, flush=True); sys.stdin.readline()"
)


def let_sample(watch: MemoryWatch) -> None:
    """Wait until several more samples are taken: all but the first are of what there is now."""
    wanted, begun_s = len(watch.samples) + 5, time.monotonic()
    while len(watch.samples) < wanted:
        assert time.monotonic() - begun_s < 120
        time.sleep(0.01)


def test_sees_an_allocation():
    before, peak, samples = in_own_process(allocate_and_watch)
    assert abs(peak - before - SIZE_BYTES) < SLACK_BYTES
    assert samples[0].bytes == before
    assert samples[-1].bytes < before + SLACK_BYTES
    times_s = [sample.time_s for sample in samples]
    assert times_s == sorted(times_s)
    assert len(times_s) >= 5


def allocate_and_watch() -> tuple[int, int, tuple[MemorySample, ...]]:
    """Memory at first, the peak, and all samples."""
    with MemoryWatch([os.getpid()], interval_s=0.01) as watch:
        held = np.ones(SIZE_BYTES, np.uint8)
        let_sample(watch)
        del held
    return watch.baseline_bytes, watch.peak_bytes, watch.samples


def test_sees_another_process_and_its_end():
    found = in_own_process(watch_a_child)
    assert found["listed"] == [True, False]
    assert abs(found["peak"] - found["before"] - SIZE_BYTES) < SLACK_BYTES
    assert found["after"] < found["before"] + SLACK_BYTES
    assert found["left"] == 0


def watch_a_child() -> dict[str, Any]:
    """Memory before a child allocates, at the peak, and when it has ended; whether it is listed."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    found: dict[str, Any] = {}
    with child, MemoryWatch(interval_s=0.01, refresh_s=0.02) as watch:
        child.stdout.readline()
        found["listed"] = [child.pid in process_tree()]
        let_list(watch)
        found["before"] = watch.samples[-1].bytes
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        let_list(watch)
        found["peak"] = watch.peak_bytes
        child.communicate(b"\n", timeout=120)
        let_list(watch)
        found["after"] = watch.samples[-1].bytes
    found["listed"].append(child.pid in process_tree())
    return found | {"left": resident_bytes([child.pid])}


def let_list(watch: MemoryWatch) -> None:
    """Wait until samples are taken of the processes that there are now."""
    time.sleep(0.03)
    let_sample(watch)


def test_shared_libraries_count_once():
    one = resident_bytes([os.getpid()])
    assert one < resident_bytes([os.getpid(), os.getpid()]) < 2 * one


def test_times_count_from_the_origin():
    with MemoryWatch([os.getpid()], origin_s=time.perf_counter() - 100) as watch:
        pass
    assert 100 <= watch.samples[0].time_s < 220


def test_watches_once():
    watch = MemoryWatch([os.getpid()])
    with watch:
        pass
    with pytest.raises(RuntimeError, match="once"):
        watch.__enter__()


def test_thinned_keeps_the_peak():
    samples = [MemorySample(t / 20, 5 if t != 777 else 9) for t in range(2345)]
    few = thinned(samples, 100)
    assert len(few) == 100
    assert MemorySample(777 / 20, 9) in few
    assert [s.time_s for s in few] == sorted(s.time_s for s in few)
    assert thinned(samples[:50], 100) == tuple(samples[:50])
