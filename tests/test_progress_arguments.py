"""What `progress=` takes: True, functions, tqdm, rich, and objects of the protocol."""

from __future__ import annotations

import io
import logging
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress as RichProgress

import ooc_graph as og
from ooc_graph.errors import UsageError
from ooc_graph.report.adapters import Step, reporter_of
from tests.said import Said

EDGES = np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([1, 1, 1])


def work(progress: object) -> None:
    with reporter_of(progress).stage("counting", 4, "edges") as stage:
        for _ in range(4):
            stage.advance(1)


def test_a_function_gets_a_record_of_each_move() -> None:
    found: list[Step] = []
    work(found.append)
    assert found == [Step("counting", done, 4, "edges") for done in range(5)]
    assert found[0].total == 4


def test_all_public_functions_take_a_function(tmp_path: Path) -> None:
    found: list[Step] = []
    where = {"client": False, "progress": found.append}
    graph = og.build(EDGES, tmp_path / "g.zarr", directed=False, device="cpu", **where)
    stages = [{step.stage for step in found}]
    for call in (og.bfs, og.sssp, og.johnson, og.multi_source_bfs, og.shortest_paths):
        found.clear()
        call(graph, [0] if call is og.shortest_paths else 0 if call in (og.bfs, og.sssp) else None,
             device="cpu", **where)  # fmt: skip
        stages.append({step.stage for step in found})
    found.clear()
    og.components(graph, **where)
    stages.append({step.stage for step in found})
    found.clear()
    og.validate(graph, og.bfs(graph, 0, client=False), **where)
    stages.append({step.stage for step in found})
    assert all(stages)


def test_true_shows_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    work(True)
    said = capsys.readouterr()
    assert said.err.startswith("counting ...\ncounting: done in ")
    assert said.out == ""


@pytest.mark.parametrize("nothing", [None, False])
def test_nothing_is_shown(nothing: object, capsys: pytest.CaptureFixture[str]) -> None:
    work(nothing)
    assert capsys.readouterr() == ("", "")


def test_tqdm_and_a_partial_of_it() -> None:
    tqdm = pytest.importorskip("tqdm", reason="bars of tqdm are made by tqdm")
    made = []

    class Kept(tqdm.tqdm):
        def close(self) -> None:
            made.append((self.desc, self.n, self.total, self.unit))
            super().close()

    work(partial(Kept, file=io.StringIO()))
    assert made[0] == ("counting", 4, 4, " edges")
    work(tqdm.auto.tqdm if hasattr(tqdm, "auto") else tqdm.tqdm)


def test_rich_gets_a_task_for_each_stage() -> None:
    with RichProgress(console=Console(file=io.StringIO())) as bars:
        work(bars)
        (task,) = bars.tasks
    assert (task.description, task.completed, task.total) == ("counting", 4, 4)
    assert task.stop_time is not None


def test_objects_with_stages_and_notes_are_used_as_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ooc_graph")
    said = Said()
    work(said)
    reporter_of(said).note("a note")
    assert said.stages["counting"].amounts == [1, 1, 1, 1]
    assert said.notes == ["a note"]
    assert "a note" in caplog.messages


@pytest.mark.parametrize("wrong", [3, "yes", object(), dict])
def test_anything_else_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="progress: give True"):
        og.bfs(og.from_edges([0], [1]), 0, progress=wrong)


def test_what_the_function_raises_is_named() -> None:
    def cancel(_: object) -> None:
        raise ValueError("enough")

    with pytest.raises(UsageError, match="progress= raised ValueError: enough"):
        og.bfs(og.from_edges([(0, 1)]), sources=[0], progress=cancel)
