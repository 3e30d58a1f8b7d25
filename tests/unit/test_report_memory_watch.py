"""The memory watch sees an allocation, in this process and in another, and costs little."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from ooc_graph.report.data import MemorySample
from ooc_graph.report.memory_watch import MemoryWatch, process_tree, resident_bytes, thinned

SIZE_BYTES = 200_000_000
SLACK_BYTES = 40_000_000
CHILD = (
    "import sys; print(1, flush=True); sys.stdin.readline();"
    f"held = bytearray(b'x') * {SIZE_BYTES}; print(2, flush=True); sys.stdin.readline()"
)


def test_sees_an_allocation():
    with MemoryWatch([os.getpid()], interval_s=0.01) as watch:
        held = np.ones(SIZE_BYTES, np.uint8)
        time.sleep(0.1)
        del held
    grown = watch.peak_bytes - watch.baseline_bytes
    assert abs(grown - SIZE_BYTES) < SLACK_BYTES
    assert watch.samples[-1].bytes < watch.baseline_bytes + SLACK_BYTES
    times_s = [sample.time_s for sample in watch.samples]
    assert times_s == sorted(times_s)
    assert len(times_s) >= 5


def test_sees_another_process_and_its_end():
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child, MemoryWatch(interval_s=0.01, refresh_s=0.02) as watch:
        child.stdout.readline()
        assert child.pid in process_tree()
        time.sleep(0.1)
        before = watch.samples[-1].bytes
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        time.sleep(0.1)
        assert abs(watch.peak_bytes - before - SIZE_BYTES) < SLACK_BYTES
        child.communicate(b"\n", timeout=20)
        time.sleep(0.1)
        assert watch.samples[-1].bytes < before + SLACK_BYTES
    assert child.pid not in process_tree()
    assert resident_bytes([child.pid]) == 0


def test_shared_libraries_count_once():
    one = resident_bytes([os.getpid()])
    assert one < resident_bytes([os.getpid(), os.getpid()]) < 2 * one


def test_times_count_from_the_origin():
    with MemoryWatch([os.getpid()], origin_s=time.perf_counter() - 100) as watch:
        pass
    assert 100 <= watch.samples[0].time_s < 110


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
