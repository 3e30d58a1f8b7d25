"""The page at which a run can be watched."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from ooc_graph.jobs.live import page_html
from ooc_graph.report.runs_page import runs_template
from tests.command_line import LIMIT_S, running
from tests.job_runs import STEPS, Command, small_job


@pytest.fixture
def run(ooc: Command, tmp_path: Path) -> Path:
    """The folder of a run that failed at its searches."""
    word = "stage.bfs.roots=[9]"
    ooc("run", small_job(tmp_path), "--out", tmp_path / "run", "--set", word)
    return tmp_path / "run"


@pytest.fixture
def served(run: Path) -> Iterator[tuple[Popen[str], int]]:
    """A process that serves the page of the run, and its port."""
    with running(["-m", "ooc_graph", "status", run, "--serve", "0"]) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"http://127\.0\.0\.1:(\d+)/ shows ", line)
        assert found is not None, line
        yield process, int(found[1])
        process.kill()


def answer(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str, Any]:
    """Status, text and headers of what is sent."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    link.request(method, path, headers=headers)
    found = link.getresponse()
    return found.status, found.read().decode(), found.headers


def test_the_page_follows_the_folder(served: tuple[Popen[str], int], run: Path) -> None:
    _, port = served
    status, text, headers = answer(port)
    assert (status, headers["Refresh"]) == (200, "2")
    assert "✗ failed" in text
    assert "vertex 9" in text
    # Nothing is fetched from anywhere.
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert re.findall(r"src=|href=|url\(|@import|<script", text) == []
    events = run / "events.jsonl"
    last = json.loads(events.read_text().splitlines()[-1])
    events.write_text(events.read_text() + json.dumps(last | {"error": "<b>later</b>"}) + "\n")
    assert "&lt;b&gt;later&lt;/b&gt;" in answer(port)[1]
    (run / "run.json").write_text("{")
    assert "✗ damaged" in answer(port)[1]
    (run / "run.json").unlink()
    assert "holds no run of a job" in answer(port)[1]


def test_only_this_machine_by_its_names(served: tuple[Popen[str], int]) -> None:
    _, port = served
    names = {name: answer(port, Host=name)[0] for name in ("localhost", f"127.0.0.1:{port}")}
    # The other end of a tunnel may have another port.
    names["localhost:9"] = answer(port, Host="localhost:9")[0]
    assert set(names.values()) == {200}, names
    for name in (
        "evil.example",
        f"evil.example:{port}",
        "localhost.evil.example",
        "",
        "[",
        "[::1]",
    ):
        status, text, _ = answer(port, Host=name)
        assert (status, "vertex 9" in text) == (421, False), name
    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert b" 421 " in link.recv(1000)
    assert answer(port, "/run.json")[0] == 404
    assert answer(port, "/../run.json")[0] == 404
    assert answer(port, method="POST")[0] == 501
    # Of all addresses, the loopback's alone: another one of this machine is refused.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), LIMIT_S)


def test_a_connection_that_asks_nothing_keeps_nobody_waiting(
    served: tuple[Popen[str], int],
) -> None:
    _, port = served
    with socket.create_connection(("127.0.0.1", port), LIMIT_S):
        assert answer(port)[0] == 200


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it(served: tuple[Popen[str], int], number: int, code: int) -> None:
    process, port = served
    with socket.create_connection(("127.0.0.1", port), LIMIT_S):
        assert answer(port)[0] == 200
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (code, "")
    assert len(err.strip().splitlines()) == 1


def test_a_port_that_is_taken_and_a_folder_without_a_run(
    served: tuple[Popen[str], int], run: Path, ooc: Command, tmp_path: Path
) -> None:
    said = ooc("status", run, "--serve", served[1])
    assert said.code == 2
    assert "give another one, or 0" in said.err
    assert ooc("status", tmp_path, "--serve", 0).code == ooc("status", tmp_path).code
    assert ooc("status", run, "--serve", 65536).code == 2
    assert ooc("status", run, "--serve", 0, "--json").code == 2


def test_a_run_that_is_done(ooc: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert ooc("run", small_job(tmp_path), "--out", run).code == 0
    text = page_html(runs_template("live.html.j2"), run, datetime.now(UTC))
    assert text.count("✓ done") == 2 + len(STEPS)
    assert "5 of 5 stages done" in text
    assert " B of memory<" in text
    assert "left" not in text.partition("<body>")[2]


def test_states_of_stages(run: Path) -> None:
    """Also those that a run is in for moments alone."""
    events = run / "events.jsonl"
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    begun, *_ = (one for one in lines if one.get("stage") == "bfs" and "units" in one)
    done = {"event": "done", "stage": "bfs", "units": ["1", "2"], "seconds": 5.0}
    names = [str(number) for number in range(9)]
    manifest = json.loads((run / "run.json").read_text())
    assert manifest["steps"]["bfs"]["total"] == 1
    # After a retry, with more units than are shown, while another run of the package is at it.
    more = [begun | done, begun | {"units": names}]
    kept = [one | {"pid": 1} if "pid" in one else one for one in lines[:-1]]
    events.write_text("\n".join(map(json.dumps, kept + more)) + "\n")
    text = page_html(runs_template("live.html.j2"), run, datetime.now(UTC))
    assert "… running" in text
    assert "at 0, 1, 2, 3 and 5 more, since " in text
    assert ">failed once<" in text
    assert " left</strong>" in text
