"""Clusters of Slurm jobs: their scripts, and what is done where Slurm refuses, without Slurm."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from typing import Any

import dask
import pytest

import ooc_graph as og
from ooc_graph.errors import ClusterLostError, UsageError
from ooc_graph.runtime.slurm import scheduler_for, slurm_cluster
from tests.command_line import REPOSITORY, call
from tests.job_runs import published, small_job

OPTIONS = {
    "cores": 4,
    "memory": "4294967296B",
    "walltime": "1:00:00",
    "queue": "night",
    "account": None,
    "job_extra_directives": None,
    "interface": None,
    "local_directory": "$TMPDIR",
}
CLUSTER = """
[cluster]
kind = "slurm"
jobs = 1
cores = 2
memory = "2GiB"
wait_s = 120
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    """Put shell scripts in front of other programs."""
    (folder / "bin").mkdir()
    for name, text in texts.items():
        (folder / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")


def script_of(device: str, **options: Any) -> str:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: ooc-graph[slurm]")
    keys = Path("keys")
    with scheduler_for({**OPTIONS, **options}, device, keys, print) as cluster:
        text: str = cluster.job_script()
        assert (stat.S_IMODE(keys.stat().st_mode), len(list(keys.iterdir()))) == (0o700, 2)
    return text


def test_the_script_of_a_worker(tmp_path: Path) -> None:
    lines = script_of("cpu", job_extra_directives=["--exclusive"]).splitlines()
    for line in ("-p night", "-t 1:00:00", "--cpus-per-task=4", "--mem=4G", "--exclusive"):
        assert f"#SBATCH {line}" in lines
    assert not any("gres" in line for line in lines)
    (worker,) = [line for line in lines if " -m " in line]
    assert worker.startswith(f"{sys.executable} -m distributed.cli.dask_worker tls://")
    for words in (
        "--nthreads 4 --memory-limit 4.00GiB --nanny",
        "--local-directory $TMPDIR --no-dashboard",
        f"--tls-key {tmp_path}/keys/key.pem",
    ):
        assert words in worker
    (inherited,) = [line for line in lines if line.startswith("export DASK_INTERNAL_INHERIT")]
    found = dask.config.deserialize(inherited.partition("=")[2])
    assert {key: dask.config.get(key, config=found) for key in og.dask_config()} == og.dask_config()
    # Keys are there as long as the cluster is.
    assert list(tmp_path.iterdir()) == []


def test_the_script_of_a_worker_with_a_device() -> None:
    text = script_of("cuda")
    assert "#SBATCH --gres=gpu:1\n" in text
    assert f"{sys.executable} -m dask cuda worker tls://" in text
    assert "--device-memory-limit 0 --rmm-async --rmm-release-threshold 16777216" in text
    # A site may call its devices otherwise.
    text = script_of("cuda", job_extra_directives=["--gpus-per-task=a100:1"])
    assert re.findall(r"#SBATCH .*g(?:res|pus).*", text) == ["#SBATCH --gpus-per-task=a100:1"]


def test_what_dasks_configuration_says_of_the_site_stays() -> None:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: ooc-graph[slurm]")
    site = {"job-script-prologue": ["module load python"], "job-extra-directives": ["--qos=low"]}
    with dask.config.set({f"jobqueue.slurm.{key}": value for key, value in site.items()}):
        text = script_of("cpu")
    assert "#SBATCH --qos=low\nmodule load python\nexport DASK_INTERNAL" in text


def started(wait_s: float = 60) -> None:
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: ooc-graph[slurm]")
    with slurm_cluster(2, OPTIONS, "cpu", Path("keys"), wait_s, print):
        raise AssertionError("there is no worker")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: invalid partition specified: night", UsageError),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", ClusterLostError),
    ],
)
def test_a_refused_job_ends_the_wait(
    said: str, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path, monkeypatch, sbatch=f"echo '{said}' >&2; exit 1", scancel="exit 1")
    with pytest.raises(kind, match=re.escape(f"Slurm refuses a job: {said}")):
        started()


def test_jobs_that_do_not_start_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"sbatch": "echo Submitted batch job $$", "scancel": f"echo $1 >> {tmp_path}/cancelled"}
    programs(tmp_path, monkeypatch, **texts)
    with pytest.raises(ClusterLostError, match=r"none of 2 Slurm job\(s\) has joined as a worker"):
        started(wait_s=2)
    assert len((tmp_path / "cancelled").read_text().split()) == 2


def test_where_there_is_no_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no sbatch here"):
        started()


def test_a_missing_package_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    done = call(monkeypatch, capsys, "run", small_job(tmp_path, CLUSTER), "--quiet")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("ooc-graph: a cluster of Slurm jobs needs dask-jobqueue (")
    assert line.endswith("pip install 'ooc-graph[slurm]'")


def test_a_job_runs_on_workers_that_its_scripts_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A made-up sbatch runs the script here, as Slurm would elsewhere."""
    pytest.importorskip("dask_jobqueue", reason="needs dask-jobqueue: ooc-graph[slurm]")
    monkeypatch.setenv("PYTHONPATH", ":".join([str(REPOSITORY), *filter(None, sys.path)]))
    start = f'cp "$1" {tmp_path}/script; setsid bash {tmp_path}/script > {tmp_path}/worker.log 2>&1'
    programs(
        tmp_path,
        monkeypatch,
        sbatch=f"{start} & echo Submitted batch job $!",
        scancel=f"echo $1 >> {tmp_path}/cancelled; kill -- -$1",
    )
    job = small_job(tmp_path)
    alone = call(monkeypatch, capsys, "run", job, "--out", tmp_path / "alone", "--quiet")
    assert alone.code == 0, alone
    job = small_job(tmp_path, CLUSTER)
    done = call(monkeypatch, capsys, "run", job, "--out", tmp_path / "jobs", "--quiet")
    assert done.code == 0, (done, (tmp_path / "worker.log").read_text())
    assert published(tmp_path / "jobs") == published(tmp_path / "alone")
    assert "ooc-graph-" in (tmp_path / "worker.log").read_text()
    assert f"--tls-key {tmp_path}/jobs/run.tls-" in (tmp_path / "script").read_text()
    assert not list((tmp_path / "jobs").glob("run.tls*"))
    assert len((tmp_path / "cancelled").read_text().split()) == 1
