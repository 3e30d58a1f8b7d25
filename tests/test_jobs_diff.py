"""The stage diff: answers of a run held against those of an earlier one."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.jobs.folder import read_manifest
from tests.command_line import listing
from tests.dying import command_of, command_until
from tests.job_runs import CHANGED, Command, done_by, skipped, small_job, summary
from tests.own_process import in_own_process

DIFFS = """
[[stage]]
kind = "diff"
of = "bfs"
against = "yesterday"

[[stage]]
kind = "diff"
name = "parts-diff"
of = "components"
against = "yesterday"
"""
# Of the answers of each stage: their files, and the rows and counts of the second night.
ROWS = {
    "diff/10": ["30,1,2", "40,2,", "50,,3"],
    "diff/30": ["40,1,", "50,,1"],
    "parts-diff/components": ["40,10,", "50,,10"],
}
COUNTS = {"diff/10": (1, 1, 1), "diff/30": (0, 1, 1), "parts-diff/components": (0, 1, 1)}
NOTHING = (None, None, None)


def counts(run: Path) -> dict[str, Any]:
    """How many vertices are changed, new and gone, by file."""
    manifest = read_manifest(run)
    assert manifest is not None
    return {
        f"{name}/{unit}": tuple(facts.get(key) for key in ("changed", "new", "gone"))
        for name, entry in manifest["steps"].items()
        if entry["kind"] == "diff"
        for unit, facts in entry["units"].items()
    }


def rows(run: Path) -> dict[str, list[str]]:
    """Rows of all files."""
    return {name: _rows(run / f"{name}.csv") for name in ROWS}


def _rows(path: Path) -> list[str]:
    head, *lines = path.read_text().splitlines()
    assert head == "vertex,before,after"
    return lines


def two_nights(folder: Path) -> tuple[Path, Path, Path]:
    """A job, a run of it, and where the next one goes; the edges are other ones by then."""
    job = small_job(folder, DIFFS)
    assert command_of(["run", str(job), "--out", str(folder / "first"), "--quiet"]) == 0
    (folder / "yesterday").symlink_to("first")
    small_job(folder, DIFFS, edges=CHANGED)
    return job, folder / "first", folder / "second"


def test_changes_since_the_night_before(ooc: Command, tmp_path: Path) -> None:
    job, first, second = two_nights(tmp_path)
    # On the first night there is nothing to compare with.
    assert counts(first) == dict.fromkeys(ROWS, NOTHING)
    assert rows(first) == {name: [] for name in ROWS}
    figures = summary(first)["diff"]
    assert figures.keys() == {"kind", "units", "seconds", "compared"}
    assert figures["compared"] == 0
    done = ooc("run", job, "--out", second)
    assert done.code == 0, done
    assert (rows(second), counts(second)) == (ROWS, COUNTS)
    found = summary(second)["diff"]
    assert {key: found[key] for key in ("compared", "changed", "new", "gone")} == {
        "compared": 2,
        "changed": 1,
        "new": 2,
        "gone": 2,
    }
    said = json.loads(ooc("report", first, second, "--json").out)
    results = [[stage["result"] for stage in run["stages"][-2:]] for run in said]
    assert results == [
        ["nothing to compare with"] * 2,
        ["1 changed, 2 new, 2 gone", "0 changed, 1 new, 1 gone"],
    ]
    # They follow from both answers.
    assert skipped(ooc("run", job, "--out", second)) == len(done_by(done))
    (tmp_path / "yesterday").unlink()
    again = ooc("run", job, "--out", second)
    assert "diff: against changed, done again\n" in again.out
    assert done_by(again) == ["diff", "parts-diff"]
    assert rows(second) == {name: [] for name in ROWS}
    assert counts(second) == dict.fromkeys(ROWS, NOTHING)


def test_an_answer_that_is_not_there_is_said(ooc: Command, tmp_path: Path) -> None:
    job, first, second = two_nights(tmp_path)
    shutil.rmtree(first / "bfs" / "30.zarr")
    done = ooc("run", job, "--out", second)
    assert done.code == 0, done
    where = tmp_path / "yesterday" / "bfs" / "30.zarr"
    assert f"diff: no earlier answer, {where} is not there\n" in done.err
    assert counts(second) == COUNTS | {"diff/30": NOTHING}
    assert summary(second)["diff"]["compared"] == 1


def test_against_one_answer(ooc: Command, tmp_path: Path) -> None:
    job, first, second = two_nights(tmp_path)
    against = [f"stage.parts-diff.against={first / 'components.zarr'}", "stage.bfs.roots=[10]"]
    against.append(f"stage.diff.against={first / 'bfs' / '10.zarr'}")
    words = [word for one in against for word in ("--set", one)]
    done = ooc("run", job, "--out", second, *words)
    assert done.code == 0, done
    assert counts(second) == {name: COUNTS[name] for name in ROWS if name != "diff/30"}
    words += ["--set", "stage.bfs.roots=[10, 30]"]
    refused = ooc("run", job, "--out", second, *words)
    assert refused.code == 2
    assert "its root is 10, now it is 30; give the folder of an earlier run" in refused.err


def test_against_itself_and_another_root_is_refused(ooc: Command, tmp_path: Path) -> None:
    job, first, second = two_nights(tmp_path)
    itself = ooc("run", job, "--out", second, "--set", f"stage.diff.against={second}")
    assert itself.code == 2
    assert "diff: against is this run itself" in itself.err
    words = ("--set", "stage.bfs.roots=[10]")
    words += ("--set", f"stage.diff.against={first / 'bfs' / '30.zarr'}")
    other = ooc("run", job, "--out", second, *words)
    assert other.code == 2
    assert "its root is 30, now it is 10" in other.err


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ('kind = "diff"\nof = "many"\nagainst = "x"', "cannot be compared"),
        ('kind = "diff"\nof = "validate"\nagainst = "x"', "no earlier stage with answers"),
        ('kind = "diff"\nof = "bfs"', "against"),
    ],
)
def test_mistakes(ooc: Command, tmp_path: Path, stage: str, said: str) -> None:
    many = '[[stage]]\nkind = "many"\nkernel = "multi_source_bfs"\nreduce = "sum"\n'
    refused = ooc("run", small_job(tmp_path, f"{many}[[stage]]\n{stage}\n"), "--dry-run")
    assert refused.code == 2
    assert said in refused.err


def killed_while_comparing(folder: Path, every: int) -> int:
    """Kill a run before some steps of its last stages; after how many it ended undisturbed."""
    job, _, second = two_nights(folder)
    words = ["run", str(job), "--out", str(second), "--quiet"]
    assert command_of([*words, "--set", "stage.parts-diff.of=bfs"]) == 0
    for name in ("diff", "parts-diff"):
        shutil.rmtree(second / name)
    kept = folder / "kept"
    shutil.copytree(second, kept)
    step = 1
    while True:
        shutil.rmtree(second)
        shutil.copytree(kept, second)
        code = command_until(step, second, words)
        if code == 0:
            return step
        assert code == -signal.SIGKILL
        assert command_until(None, second, words) == 0
        assert (rows(second), counts(second)) == (ROWS, COUNTS), step
        assert not [name for name in listing(second) if "partial" in name]
        step += every


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_before_each_step(every: int, tmp_path: Path) -> None:
    # Of each of three files: before it, its name, and two notes of it.
    assert in_own_process(killed_while_comparing, tmp_path, every) > 12
