"""Threads of a team meet at barriers, and none is left spinning when one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.team import (
    Team,
    atomic_add,
    atomic_or,
    atomic_umin,
    barrier,
    new_control,
)
from ooc_graph.threads import Members


@kernel
def _meet(thread, threads, control, out, rounds):
    for number in range(rounds):
        atomic_add(out, 0, 1)
        if not barrier(control, threads):
            return
        if out[0] != (number + 1) * threads:
            atomic_add(out, 1, 1)
        if not barrier(control, threads):
            return


@kernel
def _gather(thread, threads, control, low, bits):
    for value in range(1000):
        atomic_umin(low, value % 7, 10_000 - value - thread)
        atomic_or(bits, 0, 1 << (value % 5 + 5 * thread))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nobody_passes_a_barrier_early(threads):
    out = np.zeros(2, np.int64)
    Team(threads).launch(_meet, new_control(), out, 200)
    assert out.tolist() == [200 * threads, 0]


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_atomics(dtype):
    low, bits = np.full(7, -1, np.int64).astype(dtype), np.zeros(1, dtype)
    Team(2).launch(_gather, new_control(), low, bits)
    assert low.tolist() == [10_000 - max(range(k, 1000, 7)) - 1 for k in range(7)]
    assert bits[0] == 2**10 - 1


class Odd(BaseException):
    pass


@pytest.mark.parametrize("culprit", [0, 1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Odd])
def test_a_failing_thread_frees_the_others(culprit, error):
    team, left = Team(3), []

    def run(thread, threads, control):
        if thread == culprit:
            time.sleep(0.01)
            raise error("stop")
        left.append(barrier(control, threads))

    with pytest.raises(error):
        team.launch(run, new_control())
    assert left == [False, False]
    out = np.zeros(2, np.int64)
    team.launch(_meet, new_control(), out, 3)
    assert out.tolist() == [9, 0]
    team.close()


def test_an_interrupt_after_the_start_frees_the_others(monkeypatch):
    team, left, start = Team(3), [], Team._start

    def run(thread, threads, control):
        left.append(barrier(control, threads))

    def interrupted(self, *args):
        start(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(Team, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        team.launch(run, new_control())
    assert left == [False, False]
    team.close()


def test_a_thread_that_was_begun_as_an_interrupt_came_is_waited_for(monkeypatch):
    team, left, give = Team(3), [], Members.give

    def run(thread, threads, control):
        time.sleep(0.1)
        left.append(barrier(control, threads))

    def interrupted(self, *args):
        give(self, *args)
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Members, "give", interrupted)
    with pytest.raises(KeyboardInterrupt):
        team.launch(run, new_control())
    assert left == [False]
    out = np.zeros(2, np.int64)
    team.launch(_meet, new_control(), out, 3)
    assert out.tolist() == [9, 0]
    team.close()


def test_interrupts_while_waiting_do_not_leave_a_thread_at_work():
    team, ended, main = Team(2), threading.Event(), threading.main_thread().ident

    def run(thread, threads, control):
        if thread == 0:
            return
        for _ in range(2):
            time.sleep(0.1)
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.2)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        team.launch(run, new_control())
    assert ended.is_set()
    team.close()


def test_launches_from_two_threads_take_turns():
    team, out = Team(3), np.zeros((2, 2), np.int64)
    callers = [
        threading.Thread(target=team.launch, args=(_meet, new_control(), out[k], 50))
        for k in range(2)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert out.tolist() == [[150, 0], [150, 0]]


def test_a_team_has_a_thread():
    with pytest.raises(ValueError, match="at least 1"):
        Team(0)


def test_a_second_process_compiles_nothing(tmp_path):
    code = (
        "import numpy as np\n"
        "from ooc_graph.kernels.common import team\n"
        "c = team.new_control()\n"
        "assert team.barrier(c, 1)\n"
        "s = team.barrier.stats\n"
        "print(sum(s.cache_hits.values()), sum(s.cache_misses.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert said == [["0", "1"], ["1", "0"]]
