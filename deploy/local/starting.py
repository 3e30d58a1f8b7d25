"""Start Dask's own commands with certificates, on loopback, and wait until they are there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from certificates import Certificates
from distributed import Client
from distributed.security import Security
from members import Member, alive

_LOOPBACK = "tls://127.0.0.1"

# A worker of ooc_graph keeps its own budget, 90 % of the limit: Dask must not pause it at 80 %.
_ENVIRONMENT = {
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",
}


class StartError(Exception):
    """A part of the cluster did not come up."""


def start_scheduler(folder: Path, files: Certificates) -> Member:
    """Start the scheduler on a free port."""
    said = folder / "scheduler.json"
    said.unlink(missing_ok=True)
    return _start(folder, files, "scheduler", ["--port", "0", "--scheduler-file", str(said)])


def address_of(scheduler: Member, folder: Path, timeout_s: float) -> str:
    """Address that the scheduler says it listens on, so that no port is chosen beforehand."""
    deadline = time.monotonic() + timeout_s
    while (address := _address(folder / "scheduler.json")) is None:
        _expect(scheduler, folder, deadline)
    return address


def _address(said: Path) -> str | None:
    """None until the file is there in full: Dask does not write it in one step."""
    try:
        return str(json.loads(said.read_text())["address"])
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _expect(member: Member, folder: Path, deadline: float) -> None:
    log = folder / f"{member.name}.log"
    if not alive([member]):
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise StartError(f"the {member.name} ended: {' '.join(last)} (see {log})")
    if time.monotonic() > deadline:
        raise StartError(f"the {member.name} took too long to come up (see {log})")
    time.sleep(0.05)


def start_workers(
    folder: Path, files: Certificates, address: str, workers: int, threads: int, memory_limit: str
) -> Member:
    """Start worker processes under one parent, which replaces a worker that dies."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    arguments = [address, "--nworkers", str(workers), "--nthreads", str(threads), "--nanny"]
    arguments += ["--memory-limit", memory_limit, "--local-directory", str(scratch)]
    return _start(folder, files, "workers", arguments)


def _start(folder: Path, files: Certificates, name: str, arguments: Sequence[str]) -> Member:
    tls = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), map(str, files), strict=True)
    line = [sys.executable, "-m", "dask", "scheduler" if name == "scheduler" else "worker"]
    line += [*arguments, "--host", _LOOPBACK, *(word for pair in tls for word in pair)]
    # The HTTP server (health, metrics) has no TLS: off loopback it would be open to all.
    line += ["--dashboard-address", "127.0.0.1:0", "--no-dashboard"]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
    return Member.of(name, process.pid)


def wait_for_workers(
    address: str, files: Certificates, workers: int, members: Sequence[Member], timeout_s: float
) -> None:
    """Wait until the scheduler knows all workers; StartError if that takes too long."""
    ca, cert, key = map(str, files)
    security = Security(
        tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True
    )
    with Client(address, security=security, timeout=timeout_s) as client:
        deadline = time.monotonic() + timeout_s
        while len(client.scheduler_info(n_workers=-1)["workers"]) < workers:
            for member in members:
                _expect(member, files.ca.parent, deadline)
