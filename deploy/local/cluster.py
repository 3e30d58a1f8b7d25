"""Start, stop and look at a Dask cluster of separate processes on this machine, under TLS.

    python deploy/local/cluster.py start  --folder cluster --workers 2
    python deploy/local/cluster.py status --folder cluster
    python deploy/local/cluster.py stop   --folder cluster

Everything listens on the loopback interface only. Whoever may read the folder may use the cluster,
so the folder is the owner's alone.

Exit codes: 0 done (``status``: it runs), 1 failed (``status``: it does not run), 2 refused
(a cluster runs already, bad options), 75 worth retrying (another start or stop is at work),
143 stopped by SIGTERM.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from certificates import write_certificates
from members import Member, alive, stop_members
from starting import StartError, address_of, start_scheduler, start_workers, wait_for_workers

STATE = "cluster.json"


@click.group(help=__doc__.split("\n", maxsplit=1)[0])
def command() -> None:
    """See the module."""


def _folder_option(function: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
        default=Path("cluster"),
        show_default=True,
        help="Certificates, state, logs and scratch space of the cluster.",
    )(function)


@command.command()
@_folder_option
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), help="A worker [cores / workers].")
@click.option("--memory-limit", metavar="SIZE", default="auto", show_default=True, help="A worker.")
@click.option("--timeout", "timeout_s", default=120.0, show_default=True, help="Seconds to wait.")
def start(
    folder: Path, workers: int, threads: int | None, memory_limit: str, timeout_s: float
) -> None:
    """Start a scheduler and workers, and say how to join them."""
    with _alone(folder):
        if running := alive(_members(folder)):
            names = ", ".join(f"{member.name} (pid {member.pid})" for member in running)
            raise click.UsageError(f"a cluster runs in {folder} already: {names}; stop it first")
        files = write_certificates(folder)
        members: list[Member] = []
        try:
            members.append(start_scheduler(folder, files))
            _write_state(folder, members)
            address = address_of(members[0], folder, timeout_s)
            threads = threads or max(1, len(os.sched_getaffinity(0)) // workers)
            members.append(start_workers(folder, files, address, workers, threads, memory_limit))
            tls = ",".join(map(str, files))
            _write_state(folder, members, address=address, tls=tls, workers=workers)
            wait_for_workers(address, files, workers, members, timeout_s)
        except BaseException:
            stop_members(members, 10)
            _state(folder).unlink(missing_ok=True)
            raise
    click.echo(shlex.join(["--scheduler", address, "--tls", tls]))


@command.command()
@_folder_option
@click.option("--timeout", "timeout_s", default=30.0, show_default=True, help="Then SIGKILL.")
def stop(folder: Path, timeout_s: float) -> None:
    """Stop all of it: SIGTERM, and SIGKILL for what does not listen."""
    with _alone(folder):
        running = alive(_members(folder))
        stop_members(running, timeout_s)
        for left in (_state(folder), folder / "scheduler.json", folder / "key.pem"):
            left.unlink(missing_ok=True)
    click.echo("stopped" if running else "nothing was running")


@command.command()
@_folder_option
def status(folder: Path) -> None:
    """Print the state as JSON; exit code 1 unless all of it runs."""
    state = _read_state(folder)
    members = _members(folder)
    running = alive(members)
    pids = {member.name: member.pid for member in running}
    up = bool(members) and len(running) == len(members) and "address" in state
    kept = {key: state[key] for key in ("address", "tls", "workers") if key in state}
    click.echo(json.dumps({"running": up, **kept, "pids": pids}))
    sys.exit(0 if up else 1)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One start or stop at a time in a folder; the folder is made for its owner alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            click.echo(f"{folder}: another start or stop is at work", err=True)
            sys.exit(75)
        yield


def _state(folder: Path) -> Path:
    return folder / STATE


def _read_state(folder: Path) -> dict[str, object]:
    try:
        state: dict[str, object] = json.loads(_state(folder).read_text())
    except FileNotFoundError:
        return {}
    return state


def _members(folder: Path) -> list[Member]:
    found = _read_state(folder).get("members", [])
    return [Member(**fields) for fields in found] if isinstance(found, list) else []


def _write_state(folder: Path, members: list[Member], **facts: object) -> None:
    """Replaced in one step: a reader sees all of it or none."""
    partial = _state(folder).with_suffix(".partial")
    partial.write_text(json.dumps({**facts, "members": [m.__dict__ for m in members]}, indent=1))
    partial.replace(_state(folder))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        command()
    except StartError as error:
        click.echo(f"cluster.py: {error}", err=True)
        sys.exit(1)
