"""Jobs whose run is killed or stopped anywhere: the same command makes the same files."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.jobs.status import status_of
from tests.command_line import LIMIT_S, listing, running, script
from tests.dying import command_of, command_until
from tests.job_runs import CHANGED, EDGES, WHOLE, published, small_job
from tests.own_process import in_own_process

EVERY = 4
# Each in its turn takes minutes.
every = pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])


def finished(run: Path, words: list[str]) -> dict[str, str]:
    """What a run publishes that comes to its end; nothing half written is left."""
    assert command_until(None, run, words) == 0
    assert not list(run.rglob("*.partial*"))
    assert not list(run.rglob("*.lock"))
    # Known again, too, if the run was killed before it was noted.
    figures = json.loads((run / "summary.json").read_text())
    assert list(figures) == list(json.loads((run / "run.json").read_text())["asked"])
    parts = og.ComponentsResult.open(run / "components.zarr")
    assert figures["components"]["components"] == parts.count
    if "pagerank" in figures:
        ranks: Any = og.PagerankResult.open(run / "pagerank.zarr").columns
        assert figures["pagerank"]["iterations"] == ranks.attributes["iterations"]
    return published(run)


def killed(step: int, run: Path, words: list[str]) -> bool:
    """Kill a run before the step of this number; whether it has one."""
    code = command_until(step, run, words)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def killed_from_nothing(folder: Path, first: int, every: int, text: str | None = None) -> int:
    """Kill a run before the first of some steps, and before others; how many there are."""
    job, run = small_job(folder), folder / "run"
    if text is not None:
        job.write_text(text)
    words = ["run", str(job), "--out", str(run), "--quiet"]
    # Here, and not in a child: all of them have what this loads.
    assert command_of(words) == 0
    right, step = published(run), first
    while True:
        shutil.rmtree(run)
        if not killed(step, run, words):
            return step
        if (run / "events.jsonl").exists():
            assert status_of(run)["state"] == "stopped"
        assert finished(run, words) == right, step
        step += every


@every
def test_killed_before_each_step(every: int, tmp_path: Path) -> None:
    # At least two for each unit of each stage, and what it publishes.
    assert in_own_process(killed_from_nothing, tmp_path, 1, every) > 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, EVERY + 1))
def test_a_job_of_all_searches_is_killed_before_each_step(first: int, tmp_path: Path) -> None:
    # Steps are dealt to processes, for one has not the time for all.
    assert in_own_process(killed_from_nothing, tmp_path, first, EVERY, WHOLE) > 100


def killed_with_other_edges(folder: Path, every: int) -> int:
    """Kill a run of a finished folder whose input has changed, before each step."""
    job, run, kept = small_job(folder), folder / "run", folder / "kept"
    words = ["run", str(job), "--out", str(run), "--quiet"]
    assert command_of(words) == 0
    right = {}
    for edges in (CHANGED, EDGES):
        shutil.rmtree(run, ignore_errors=True)
        small_job(folder, edges=edges)
        right[edges] = finished(run, words)
    shutil.copytree(run, kept)
    step, edges = 1, CHANGED
    while True:
        shutil.rmtree(run)
        shutil.copytree(kept, run)
        small_job(folder, edges=CHANGED)
        if not killed(step, run, words):
            return step
        # The edges may also be the former ones again.
        small_job(folder, edges=edges)
        assert finished(run, words) == right[edges], step
        step, edges = step + every, EDGES if edges == CHANGED else CHANGED


@every
def test_killed_before_each_step_of_doing_it_again(every: int, tmp_path: Path) -> None:
    assert in_own_process(killed_with_other_edges, tmp_path, every) > 30


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_stopped_while_building_then_run_again(number: int, tmp_path: Path) -> None:
    job, run = tmp_path / "job.toml", tmp_path / "run"
    job.write_text('[source]\nkind = "kronecker"\nscale = 16\n[[stage]]\nkind = "bfs"\nkeys = 2\n')
    words = ["-m", "ooc_graph", "run", job, "--out", run]
    with running(words) as process:
        while not list(run.glob("graph.zarr.partial-*")):
            assert process.poll() is None, process.communicate()
            # Who sleeps is woken sooner on a busy machine than who runs all the time.
            time.sleep(0.002)
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in err
    assert process.returncode == (143 if number == signal.SIGTERM else -signal.SIGKILL)
    found = status_of(run)
    assert [found["state"], found["steps"][0]["state"]] == ["stopped", "stopped"]
    said = "stopped by SIGTERM" if number == signal.SIGTERM else None
    assert [one.get("error") for one in (found, found["steps"][0])] == [said, said]
    assert not (run / "graph.zarr").exists()
    if number == signal.SIGTERM:
        # What was finished of the graph stays for the next run.
        kept = [name for name in listing(run) if not name.startswith("graph.zarr.partial-")]
        assert kept == ["events.jsonl", "job.toml", "run.json"]
    again = script(*words)
    assert again.code == 0, again
    assert not list(run.glob("*.partial*"))
    assert len(list((run / "bfs").glob("*.zarr"))) == 2
