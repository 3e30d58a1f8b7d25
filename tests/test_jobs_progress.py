"""What is seen of a job while it runs: bars, bytes by tier, and events that are logged."""

from __future__ import annotations

import io
import json
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.jobs.driver import run_job
from ooc_graph.jobs.events import logged_as_json
from ooc_graph.jobs.reading import read_job
from ooc_graph.jobs.status import status_of
from ooc_graph.jobs.tiers import tier_bytes, tier_text
from ooc_graph.report import bars
from ooc_graph.report.progress import Progress
from ooc_graph.strategies.cpu import on_disk
from tests.job_runs import Command, events, small_job


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_of_a_stage_beside_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(bars, "BAR_AFTER_S", 0.0)
    stream, find = Terminal(), og.bfs
    seen: list[str] = []

    def watched(graph: Any, roots: list[int], **options: Any) -> Any:
        found = find(graph, roots, **options)
        if roots == [30]:
            with options["progress"].stage("of the call", 10, "edges") as call:
                wait_for(stream, "stage bfs", "50 %", "answers/s", "464 B of memory", "of the call")
                call.advance(4)
            seen.append(stream.getvalue())
        return found

    monkeypatch.setattr(og, "bfs", watched)
    with Progress(stream=stream) as progress:
        run_job(read_job(small_job(tmp_path), ()), tmp_path / "run", progress, str)
    assert len(seen) == 1
    # A single call for all units has its own bar, and no other one.
    stages = re.findall(r"^.*(stage \w+): done in", stream.getvalue(), re.MULTILINE)
    assert stages == ["stage bfs", "stage export"]


def wait_for(stream: io.StringIO, *words: str) -> None:
    """Until the terminal has been shown all of these on its last screen."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        screen = stream.getvalue()[-2000:]
        if all(word in screen for word in words):
            return
        time.sleep(0.02)
    raise AssertionError(f"{words} not in {screen!r}")


def test_lines_elsewhere_have_the_rate_of_a_stage(ooc: Command, tmp_path: Path) -> None:
    job = small_job(tmp_path)
    said = ooc("run", job, "--out", tmp_path / "run")
    assert re.search(r"^stage bfs: done in .* answers/s\)$", said.err, re.MULTILINE)
    assert re.search(r"^stage export: done in .* files/s\)$", said.err, re.MULTILINE)
    assert "stage " not in said.out
    assert ooc("run", job, "--out", tmp_path / "quiet", "--quiet").err == ""


def test_bytes_in_memory(ooc: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = ooc("run", small_job(tmp_path), "--out", run)
    planned = og.plan(run / "graph.zarr")["bytes: in all"]
    steps = {step["step"]: step for step in status_of(run)["steps"]}
    assert steps["bfs"]["tier_bytes"] == {"memory": planned}
    assert steps["components"]["tier_bytes"].keys() == {"memory"}
    assert "tier_bytes" not in steps["build"]
    assert f"bfs: {planned} B of memory" in said.err.splitlines()


@pytest.mark.parametrize("workers", [None, 1])
def test_bytes_read_of_the_store(ooc: Command, tmp_path: Path, workers: int | None) -> None:
    graph = og.build(og.Kronecker(17), tmp_path / "g.zarr")
    limit = on_disk.least_within(graph, "bfs")
    assert limit is not None
    roots = graph.original_ids()[:2].tolist()
    job, run = tmp_path / "disk.toml", tmp_path / "run"
    job.write_text(
        f"""
[source]
kind = "store"
path = "g.zarr"
[[stage]]
kind = "bfs"
roots = {roots}
[resources]
device = "cpu"
memory_limit = {limit}
"""
        + ("" if workers is None else f'[cluster]\nkind = "local"\nworkers = {workers}\n')
    )
    said = ooc("run", job, "--out", run)
    assert said.code == 0, said
    stream = io.StringIO()
    with Progress(stream=stream) as progress:
        given: Any = {"device": "cpu", "memory_limit": limit, "progress": progress}
        answers = [og.bfs(graph, one, out=tmp_path / f"{one}.zarr", **given) for one in roots]
    read = [
        int(one.replace(",", ""))
        for one in re.findall(r"read ([\d,]+) bytes of", stream.getvalue())
    ]
    assert [answer.tier_bytes["read"] for answer in answers] == read
    found = status_of(run)["steps"][0]["tier_bytes"]
    # What is kept in memory of blocks that were read depends on the order of searches.
    assert found["memory"] == answers[0].tier_bytes["memory"] == limit
    assert 0 < found["read"] <= sum(read)
    assert og.Result.open(run / "bfs" / f"{roots[0]}.zarr").tier_bytes == {}


def test_bytes_of_units_are_put_together() -> None:
    units = [
        {"tier_bytes": {"memory": 5, "device": 7_000, "read": 100}},
        {"seconds": None},
        {"tier_bytes": {"memory": 9, "pinned": 2_500_000, "read": 1}},
    ]
    found = tier_bytes(units)
    assert found == {"memory": 9, "pinned": 2_500_000, "device": 7_000, "read": 101}
    said = "9 B of memory, 2.5 MB of pinned memory, 7 kB of device memory, 101 B read of the store"
    assert tier_text(found) == said
    assert tier_text(tier_bytes([])) == ""


def records(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def test_events_as_lines_of_json(ooc: Command, tmp_path: Path) -> None:
    job, run = small_job(tmp_path), tmp_path / "run"
    said = ooc("run", job, "--out", run, "--log-json")
    assert said.code == 0, said
    found = [one for one in records(said.err) if "event" in one]
    # The same as in the folder, and which job it is.
    added = ("level", "message", "job")
    assert [{key: one[key] for key in one if key not in added} for one in found] == events(run)
    assert {(one["level"], one["job"]) for one in found} == {("info", "small")}
    assert found[0]["message"] == "small: begun"
    assert found[1]["message"] == "small: build: begun"
    assert found[2]["message"] == "small: build: begun: units build"
    assert logging.getLogger("ooc_graph").level == logging.NOTSET
    assert ooc("run", job, "--out", run).err == ""


def test_a_failure_is_an_error_in_the_log(ooc: Command, tmp_path: Path) -> None:
    job = small_job(tmp_path)
    said = ooc("run", job, "--out", tmp_path / "run", "--log-json", "--set", "stage.bfs.roots=[9]")
    *lines, last = said.err.splitlines()
    errors = [one for one in records("\n".join(lines)) if one["level"] == "error"]
    assert [(one["event"], one.get("stage")) for one in errors] == [
        ("failed", "bfs"),
        ("failed", None),
    ]
    assert last.startswith("ooc-graph: ")
    # As with all commands, the last line says why it ended.
    assert errors[1]["message"] == f"small: failed: {errors[1]['error']}"
    assert last == f"ooc-graph: {errors[1]['error']}"


def test_notes_are_logged_too(ooc: Command, tmp_path: Path) -> None:
    more = '[[stage]]\nkind = "diff"\nof = "bfs"\nagainst = "yesterday"\n'
    said = ooc("run", small_job(tmp_path, more), "--out", tmp_path / "run", "--log-json")
    notes = [one for one in records(said.err) if "event" not in one]
    assert any("diff: no earlier answer" in one["message"] for one in notes)
    assert {frozenset(one) for one in notes} == {frozenset(("time", "level", "message"))}


def test_an_application_collects_events(
    ooc: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ooc_graph.jobs")
    job = small_job(tmp_path)
    ooc("run", job, "--out", tmp_path / "run", "--set", "stage.bfs.roots=[9]")
    levels = {one.event["event"]: one.levelname for one in caplog.records}  # type: ignore[attr-defined]
    assert levels == {"begun": "INFO", "done": "INFO", "failed": "ERROR"}


def test_a_traceback_stays_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logged_as_json():
        try:
            raise ValueError("of two\nlines")
        except ValueError:
            logging.getLogger("ooc_graph").warning("a state was not written", exc_info=True)
    (found,) = records(capsys.readouterr().err)
    assert found["level"] == "warning"
    assert found["traceback"].endswith("ValueError: of two\nlines")
