"""The commands status and runs, while a run is at it and afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.jobs.status import status_of
from tests.command_line import command
from tests.job_runs import STEPS, Command, small_job


def test_status_while_a_run_is_at_it(
    ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    seen: list[Any] = []
    find = og.bfs

    def watched(graph: Any, roots: list[int], **options: Any) -> Any:
        if roots == [30]:
            seen.append(json.loads(command("status", run, "--json").out))
            seen.append(command("status", run).out)
        return find(graph, roots, **options)

    monkeypatch.setattr(og, "bfs", watched)
    assert ooc("run", job, "--out", run).code == 0
    found, said = seen
    assert (found["state"], found["job"], found["pid"]) == ("running", "small", os.getpid())
    steps = {step["step"]: step for step in found["steps"]}
    assert list(steps) == list(STEPS)
    assert (steps["build"]["state"], steps["components"]["state"]) == ("done", "new")
    assert steps["bfs"].items() >= {"state": "running", "running": ["30"], "total": 2}.items()
    assert steps["bfs"]["done"] == 1
    assert steps["bfs"]["left_s"] == pytest.approx(1 / steps["bfs"]["units_per_s"])
    assert steps["bfs"]["since"] >= found["since"]
    (row,) = [line for line in said.splitlines() if line.startswith("bfs")]
    assert row.split()[:5] == ["bfs", "running", "1", "of", "2"]
    assert " 30 since " in row


def test_status_of_runs_that_ended(ooc: Command, tmp_path: Path) -> None:
    job = small_job(tmp_path)
    for name in ("good", "bad", "gone"):
        word = "stage.bfs.roots=[9]" if name == "bad" else "retries.times=0"
        ooc("run", job, "--out", tmp_path / "runs" / name, "--set", word)
    # As a run that was killed leaves it: its end was never noted.
    path = tmp_path / "runs" / "gone" / "events.jsonl"
    lines = path.read_text().splitlines()
    begun = json.loads(lines[0]) | {"pid": 2**22 + 1}
    path.write_text("\n".join([json.dumps(begun), *lines[1:6], '{"time": "20']))
    states = {name: status_of(tmp_path / "runs" / name) for name in ("good", "bad", "gone")}
    assert {name: one["state"] for name, one in states.items()} == {
        "good": "done",
        "bad": "failed",
        "gone": "stopped",
    }
    assert "vertex 9" in states["bad"]["error"]
    assert [one["state"] for one in states["bad"]["steps"]] == ["done", "failed", *["new"] * 3]
    table = ooc("runs", tmp_path / "runs").out.splitlines()
    assert [row.split()[:3] for row in table] == [
        ["run", "job", "state"],
        ["bad", "small", "failed"],
        ["gone", "small", "stopped"],
        ["good", "small", "done"],
    ]
    assert "5 of 5" in table[-1]
    as_json = json.loads(ooc("runs", tmp_path / "runs", "--json").out)
    assert [one["state"] for one in as_json] == ["failed", "stopped", "done"]
    assert "failed; process" in ooc("status", tmp_path / "runs" / "bad").out
    # Dead, but nobody has asked what became of it: its number is still there.
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        path.write_text(json.dumps(begun | {"pid": child.pid}) + "\n")
        assert status_of(path.parent)["state"] == "stopped"


def test_what_terminals_would_obey_is_not_printed(ooc: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert ooc("run", small_job(tmp_path), "--out", run).code == 0
    begun = json.loads((run / "events.jsonl").read_text().splitlines()[0])
    failed = {**begun, "event": "failed", "seconds": 1.0, "error": "\x1b[2Jgone\nrm"}
    titled = {**begun, "host": "h\x1b]0;x\x07"}
    with (run / "events.jsonl").open("a") as events:
        events.writelines(f"{json.dumps(one)}\n" for one in (titled, failed))
    for said in (ooc("status", run), ooc("runs", tmp_path), ooc("report", run)):
        assert said.code == 0
        assert said.out.replace("\n", "").isprintable()
        assert "\nrm" not in said.out


def test_status_of_a_damaged_run(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "runs" / "bad"
    assert ooc("run", job, "--out", run).code == 0
    (run / "run.json").write_text("{}")
    refused = ooc("status", run)
    assert (refused.code, refused.out) == (1, "")
    found = ooc("status", run, "--json")
    assert (found.code, found.err) == (1, refused.err)
    status = json.loads(found.out)
    assert [status] == json.loads(ooc("runs", run.parent, "--json").out)
    assert status["state"] == "damaged"
    assert refused.err == f"ooc-graph: {status['error']}\n"


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGHUP", 143), ("SIGINT", 130)])
def test_status_of_a_run_that_was_stopped(
    ooc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, code: int
) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        signal.raise_signal(getattr(signal, number))

    # dask-jobqueue, which other tests import, has this process exit instead.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    job, run = small_job(tmp_path), tmp_path / "run"
    monkeypatch.setattr(og, "components", stopped)
    assert ooc("run", job, "--out", run).code == code
    found = status_of(run)
    assert (found["state"], found["error"]) == ("stopped", f"stopped by {number}")
    assert [one["state"] for one in found["steps"]] == ["done", "done", "stopped", "new", "new"]
    (now,) = json.loads(ooc("report", run, "--json").out)
    said = {"stage": "", "text": f"stopped by {number}", "is_worse": False}
    assert (now["state"], now["changes"]) == ("stopped", [said])
