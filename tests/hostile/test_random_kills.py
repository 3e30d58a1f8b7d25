"""Jobs whose driver is killed at random moments: the same command makes the same files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.command_line import LIMIT_S, running, script
from tests.job_runs import WHOLE, published

CLUSTER = '[cluster]\nkind = "local"\nworkers = 2\n'
WORKERS = 2
MOST_IN_A_ROW = 3
# Workers see the end of their nanny, and a nanny that of its parent.
ENDED_S = 60

# `tests.test_jobs_killed` kills before some steps in each run.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]
kills = pytest.mark.parametrize("kills", [2, 100])
ways = pytest.mark.parametrize("more", ["", CLUSTER], ids=["one-process", "cluster"])


def standing(run: Path) -> dict[Path, tuple[int, int]]:
    """What is published in a run, whole, and which file or folder it is."""
    found = [*run.rglob("*.csv"), *run.rglob("*.zarr")]
    states = {path: path.stat() for path in found if ".partial-" not in path.name}
    return {path: (state.st_ino, state.st_mtime_ns) for path, state in states.items()}


def session_of(pid: int) -> list[int]:
    """Processes of a session that are still there."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getsid(process.pid) == pid and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found


def killed_after(seconds: float, words: list[object]) -> bool:
    """Kill the driver of a run after some seconds; whether it was still at work."""
    with running(words) as process:
        try:
            # Not to wait for its output keeps the moment exact; a few lines fit into the pipe.
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=LIMIT_S)
            deadline = time.monotonic() + ENDED_S
            while left := session_of(process.pid):
                assert time.monotonic() < deadline, f"processes outlive the driver: {left}"
                time.sleep(0.05)
            return True
        assert process.returncode == 0, process.communicate()
        return False


@ways
@kills
def test_killed_at_random_moments(kills: int, more: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    job = tmp_path / "whole.toml"
    job.write_text(more + WHOLE)
    words = ["-m", "ooc_graph", "run", job, "--quiet", "--out"]
    first = script(*words, tmp_path / "compiled")
    assert first.code == 0, first
    begun = time.monotonic()
    undisturbed = script(*words, tmp_path / "undisturbed")
    seconds = time.monotonic() - begun
    assert undisturbed.code == 0, undisturbed
    right = published(tmp_path / "undisturbed")
    assert right == published(tmp_path / "compiled")

    done, folders, twice = 0, 0, 0
    while done < kills:
        folders += 1
        run = tmp_path / f"run-{folders}"
        for _ in range(min(MOST_IN_A_ROW, kills - done)):
            before = standing(run)
            if not killed_after(chance.uniform(0, seconds), [*words, run]):
                break
            done += 1
            after = standing(run)
            twice += sum(after.get(path) != state for path, state in before.items())
        before = standing(run)
        again = script(*words, run)
        assert again.code == 0, (seed, folders, again)
        after = standing(run)
        twice += sum(after.get(path) != state for path, state in before.items())
        assert published(run) == right, (seed, folders)
        assert not list(run.rglob("*.partial*")), (seed, folders)
    print(f"{done} kills in {folders} folders; {twice} units done twice")
    # A worker may have found an answer that nobody took up any more.
    assert twice <= (WORKERS * done if more else 0)
