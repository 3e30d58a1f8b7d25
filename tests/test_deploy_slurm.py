"""The script that runs a job on a Slurm allocation, on a Slurm of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.command_line import REPOSITORY, call, command
from tests.job_runs import events, published, small_job
from tests.own_slurm import DEADLINE_S, Slurm, own_slurm, require_slurm

SCRIPT = REPOSITORY / "deploy" / "slurm" / "job.sbatch"
# About 100 s of work on two cores: more than the minute that is the shortest time of a Slurm job.
JOB = """
[source]
kind = "kronecker"
scale = 18

[[stage]]
kind = "bfs"
keys = 64

[[stage]]
kind = "sssp"
keys = 64

[[stage]]
kind = "validate"
name = "bfs-valid"
of = "bfs"
against = "edges"

[[stage]]
kind = "validate"
name = "sssp-valid"
of = "sssp"
against = "edges"
"""


def test_the_script_is_bash() -> None:
    assert subprocess.run(["bash", "-n", SCRIPT], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require_slurm()
    with own_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        python = Path(sys.executable).parent
        slurm.environment["PATH"] = f"{python}:{slurm.environment['PATH']}"
        slurm.environment["PYTHONPATH"] = str(REPOSITORY)
        slurm.environment["DASK_LOGGING__DISTRIBUTED"] = "warning"
        yield slurm


def submit(slurm: Slurm, folder: Path, *words: str) -> str:
    """Submit the job of a folder; its number."""
    (folder / "night.toml").write_text(JOB)
    options = ["--parsable", "--cpus-per-task=2", *words]
    return slurm.call("sbatch", *options, SCRIPT, "night.toml", "--out", "run", cwd=folder)


def wait_for_units(run: Path, attempts: int, count: int = 2) -> None:
    """Wait until the last of so many attempts has done something itself."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = events(run) if (run / "events.jsonl").exists() else []
        begins = [n for n, one in enumerate(found) if one["event"] == "begun" and "run" in one]
        if len(begins) == attempts:
            done = [one for one in found[begins[-1] :] if one["event"] == "done" and "units" in one]
            if len(done) >= count:
                return
        assert time.monotonic() < deadline, found[-3:]
        time.sleep(0.05)


def wait_for_attempt(slurm: Slurm, number: str, attempt: int) -> None:
    """Wait until a job has been requeued, and runs again."""
    restarts = str(attempt - 1)
    job = slurm.wait(
        number,
        lambda job: is_over(job) or (job["JobState"], job["Restarts"]) == ("RUNNING", restarts),
    )
    assert not is_over(job), job


def end_scheduler(folder: Path, number: str) -> None:
    """Kill the Dask scheduler of a job."""
    file = str(folder / f".ooc-graph-{number}" / "scheduler.json")
    lines = {one: one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])}
    (process,) = [one for one, line in lines.items() if file in line and "scheduler" in line]
    process.kill()


def is_over(job: dict[str, str]) -> bool:
    return job["JobState"] in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_job_that_is_stopped_again_and_again_goes_on(slurm: Slurm, tmp_path: Path) -> None:
    number = submit(slurm, tmp_path, "--time=30", "--signal=B:TERM@15")
    run, said = tmp_path / "run", tmp_path / f"slurm-{number}.out"
    wait_for_units(run, 1, 1)  # the graph; searches follow, on the cluster
    end_scheduler(tmp_path, number)
    wait_for_attempt(slurm, number, 2)
    assert "exit code 75: requeued" in said.read_text()
    # This attempt has no more than its time.
    slurm.call("scontrol", "update", f"jobid={number}", "timelimit=1")
    wait_for_attempt(slurm, number, 3)
    assert said.read_text().count("exit code 143: requeued") == 1
    slurm.call("scontrol", "update", f"jobid={number}", "timelimit=30")
    wait_for_units(run, 3)
    slurm.call("scancel", "--signal=TERM", "--batch", number)
    wait_for_attempt(slurm, number, 4)
    assert said.read_text().count("exit code 143: requeued") == 2
    wait_for_units(run, 4)
    # As when it is preempted.
    slurm.call("scontrol", "requeue", number)
    wait_for_attempt(slurm, number, 5)
    job = slurm.wait(number, is_over)
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "4"), said.read_text()
    assert not list(tmp_path.glob(".ooc-graph-*"))
    undisturbed = command("run", tmp_path / "night.toml", "--out", tmp_path / "right", "--quiet")
    assert undisturbed.code == 0, undisturbed
    right = published(tmp_path / "right")
    assert len(right) > 128
    assert published(run) == right


@pytest.mark.slow
def test_a_cancelled_job_is_not_requeued(slurm: Slurm, tmp_path: Path) -> None:
    number = submit(slurm, tmp_path, "--time=30")
    wait_for_units(tmp_path / "run", 1)
    slurm.call("scancel", number)
    job = slurm.wait(number, is_over)
    assert (job["JobState"], job["Restarts"]) == ("CANCELLED", "0")
    deadline = time.monotonic() + DEADLINE_S
    while slurm.call("squeue", "--noheader"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert slurm.job(number)["JobState"] == "CANCELLED"
    assert "requeued" not in (tmp_path / f"slurm-{number}.out").read_text().replace("not re", "")


@pytest.mark.slow
def test_a_job_with_a_mistake_fails_at_once(slurm: Slurm, tmp_path: Path) -> None:
    number = submit(slurm, tmp_path, "--time=30", "--job-name=wrong")
    (tmp_path / "night.toml").write_text(JOB.replace("scale", "scal"))
    job = slurm.wait(number, is_over)
    assert (job["JobState"], job["ExitCode"], job["Restarts"]) == ("FAILED", "2:0", "0")
    assert "did you mean scale?" in (tmp_path / f"slurm-{number}.out").read_text()


WORKERS = """
[cluster]
kind = "slurm"
jobs = 1
cores = 2
memory = "2GiB"
wait_s = 120
"""


@pytest.mark.slow
def test_workers_are_slurm_jobs_of_their_own(
    slurm: Slurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: ooc-graph[slurm]")
    monkeypatch.chdir(tmp_path)
    job, out = small_job(tmp_path), tmp_path / "alone"
    alone = call(monkeypatch, capsys, "run", job, "--out", out, "--quiet")
    assert alone.code == 0, alone
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    small_job(tmp_path, WORKERS)
    done = call(monkeypatch, capsys, "run", job, "--out", tmp_path / "jobs", "--quiet")
    assert done.code == 0, done
    assert published(tmp_path / "jobs") == published(out)
    (said,) = tmp_path.glob("slurm-*.out")
    slurm.wait(said.stem.removeprefix("slurm-"), lambda job: job["JobState"] == "CANCELLED")
    refused = small_job(tmp_path, WORKERS + 'queue = "none"\n')
    done = call(monkeypatch, capsys, "run", refused, "--out", tmp_path / "refused", "--quiet")
    assert done.code == 2
    assert "Slurm refuses a job: sbatch: error: " in done.err
