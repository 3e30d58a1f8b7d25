"""What is seen of a job while it runs: bars."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.jobs.driver import run_job
from ooc_graph.jobs.reading import read_job
from ooc_graph.report import bars
from ooc_graph.report.progress import Progress
from tests.job_runs import Command, small_job


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
                wait_for(stream, "stage bfs", "50 %", "answers/s", "of the call")
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
