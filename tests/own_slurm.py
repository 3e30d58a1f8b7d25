"""Slurm on this machine alone, for the time of a test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
DEADLINE_S = 180.0
CONFIGURATION = """
ClusterName=own
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mib} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def require_slurm() -> None:
    """Skip the test unless Slurm can be started here."""
    # Debian has the daemons where only root looks for programs.
    missing = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        pytest.skip(f"Slurm is not installed here: no {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("only root can start Slurm's daemons")


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"


class Slurm:
    """Its commands; ``environment`` is what a program needs that calls them itself."""

    def __init__(self, folder: Path) -> None:
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}

    def call(self, *words: Any, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout.strip()

    def job(self, number: str) -> dict[str, str]:
        """What the controller knows of a job."""
        words = self.call("scontrol", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, number: str, until: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """Wait for something about a job; what was requeued begins after seconds, not minutes."""
        deadline, hastened = time.monotonic() + DEADLINE_S, set[str]()
        while not until(job := self.job(number)):
            assert time.monotonic() < deadline, job
            is_delayed = job["JobState"] == "PENDING" and job["Reason"] == "BeginTime"
            if is_delayed and job["Restarts"] not in hastened:
                hastened.add(job["Restarts"])
                # At once it would be refused: the node knows the job as one that was ended.
                self.call("scontrol", "update", f"jobid={number}", "starttime=now+5")
            time.sleep(0.2)
        return job


@contextmanager
def own_slurm(folder: Path) -> Iterator[Slurm]:
    """Slurm with one node, this machine; nothing of it survives the context."""
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = {"controller_port": one.getsockname()[1], "daemon_port": other.getsockname()[1]}
    host, cpus = socket.gethostname().partition(".")[0], os.cpu_count()
    # A node that has less than it should is drained.
    memory_mib = (psutil.virtual_memory().total >> 20) * 9 // 10
    text = CONFIGURATION.format(folder=folder, host=host, cpus=cpus, memory_mib=memory_mib, **ports)
    (folder / "slurm.conf").write_text(text)
    slurm = Slurm(folder)
    names = ("socket", "key-file", "pid-file", "seed-file", "log-file")
    munge = [f"--{name}={folder}/munge/{name.removesuffix('-file')}" for name in names]
    with ExitStack() as stack:
        stack.enter_context(_daemon(slurm, folder, "munged", "--foreground", "--force", *munge))
        stack.enter_context(_daemon(slurm, folder, "slurmctld", "-D"))
        stack.enter_context(_daemon(slurm, folder, "slurmd", "-D"))
        deadline = time.monotonic() + DEADLINE_S
        while not _is_idle(slurm):
            logs = {log.name: log.read_text()[-2000:] for log in folder.glob("*.log")}
            assert time.monotonic() < deadline, logs
            time.sleep(0.2)
        try:
            yield slurm
        finally:
            slurm.call("scancel", "--state=PENDING")
            slurm.call("scancel", "--user=root")
            deadline = time.monotonic() + DEADLINE_S
            while slurm.call("squeue", "--noheader") and time.monotonic() < deadline:
                time.sleep(0.2)


def _is_idle(slurm: Slurm) -> bool:
    words = ["sinfo", "--noheader", "--format=%T"]
    done = subprocess.run(
        words, env=slurm.environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() == "idle"


@contextmanager
def _daemon(slurm: Slurm, folder: Path, *words: str) -> Iterator[None]:
    with (folder / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            words, env=slurm.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
