"""The script that runs a cluster of processes under TLS on this machine."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client
from distributed.security import Security

from ooc_graph.exchange.cluster import Cluster
from tests.command_line import REPOSITORY, Ended, script

pytest.importorskip("cryptography", reason="certificates need cryptography: ooc-graph[tls]")

SCRIPT = REPOSITORY / "deploy" / "local" / "cluster.py"


def cluster(action: str, folder: Path, *words: Any) -> Ended:
    return script(SCRIPT, action, "--folder", folder, *words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("deploy") / "cluster"
    started = cluster("start", path, "--workers", 2, "--threads", 1, "--memory-limit", "1GiB")
    try:
        assert started.code == 0, started
        state = json.loads((path / "cluster.json").read_text())
        assert started.out.split() == ["--scheduler", state["address"], "--tls", state["tls"]]
        yield path
    finally:
        stopped = cluster("stop", path)
        assert (stopped.code, stopped.out) == (0, "stopped\n"), stopped


def state_of(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "cluster.json").read_text())
    return state


def family(folder: Path) -> list[psutil.Process]:
    members = [psutil.Process(member["pid"]) for member in state_of(folder)["members"]]
    return [*members, *(child for m in members for child in m.children(recursive=True))]


def security(folder: Path) -> Security:
    ca, cert, key = state_of(folder)["tls"].split(",")
    return Security(
        tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True
    )


def test_workers_answer_under_tls(folder: Path) -> None:
    address = state_of(folder)["address"]
    assert address.startswith("tls://127.0.0.1:")
    with Client(address, security=security(folder), timeout=60) as client:
        workers = Cluster.of(client).look()
        assert len(workers) == 2
        assert all(name.startswith("tls://127.0.0.1:") for name in workers)
        assert {worker.limit_bytes for worker in workers.values()} == {1 << 30}
        pids = set(client.run(os.getpid).values())
        assert len(pids) == 2
        paused = client.run(_pause_at)
        assert set(paused.values()) == {False}


def _pause_at() -> Any:
    import dask

    return dask.config.get("distributed.worker.memory.pause")


def test_nobody_joins_without_the_certificate(folder: Path) -> None:
    address = state_of(folder)["address"].replace("tls://", "tcp://")
    with pytest.raises(OSError, match=r"Timed out|reset|closed"):
        Client(address, timeout=2)


def test_everything_listens_on_loopback_only(folder: Path) -> None:
    heard = []
    for process in family(folder):
        # Python's own helpers come and go.
        with suppress(psutil.NoSuchProcess):
            found = process.net_connections(kind="inet")
            heard += [one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN]
    assert len(heard) >= 4
    assert set(heard) == {"127.0.0.1"}


def test_the_key_is_its_owners_alone(folder: Path) -> None:
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_second_start_is_refused(folder: Path) -> None:
    before = (folder / "cluster.json").read_bytes()
    done = cluster("start", folder)
    assert done.code == 2
    assert "runs in" in done.err
    assert "Traceback" not in done.err
    assert (folder / "cluster.json").read_bytes() == before


def test_status_tells_what_runs(folder: Path, tmp_path: Path) -> None:
    done = cluster("status", folder)
    assert done.code == 0
    said = json.loads(done.out)
    assert said["running"]
    assert said["address"] == state_of(folder)["address"]
    assert set(said["pids"]) == {"scheduler", "workers"}
    nothing = cluster("status", tmp_path / "none")
    assert nothing.code == 1
    assert not json.loads(nothing.out)["running"]
    assert not (tmp_path / "none").exists()


def test_a_killed_worker_is_replaced(folder: Path) -> None:
    with Client(state_of(folder)["address"], security=security(folder), timeout=60) as client:
        before = client.run(os.getpid)
        os.kill(min(before.values()), signal.SIGKILL)
        while True:
            client.wait_for_workers(2, timeout=240)
            pids = set(client.run(os.getpid, on_error="ignore").values())
            if len(pids) == 2 and min(before.values()) not in pids:
                break


def test_stop_ends_all_processes_and_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    assert cluster("start", path, "--workers", 1).code == 0
    processes = family(path)
    # One that does not listen to SIGTERM is killed.
    stuck = next(p for p in processes if p.pid == state_of(path)["members"][0]["pid"])
    stuck.suspend()
    done = cluster("stop", path, "--timeout", 3)
    assert (done.code, done.out) == (0, "stopped\n")
    assert not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not (path / "key.pem").exists()
    again = cluster("stop", path)
    assert (again.code, again.out) == (0, "nothing was running\n")
    assert cluster("status", path).code == 1


def test_a_start_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    done = cluster("start", path, "--workers", 1, "--memory-limit", "nonsense")
    assert done.code == 1
    assert done.err.startswith("cluster.py: the workers ended")
    assert "Traceback" not in done.err
    assert cluster("status", path).code == 1
    assert not (path / "cluster.json").exists()
