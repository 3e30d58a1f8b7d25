"""What a dry run says of units, bytes and time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.jobs.driver import Chosen
from ooc_graph.jobs.dry import outlook
from ooc_graph.jobs.folder import encoded, read_manifest
from ooc_graph.jobs.reading import read_job
from ooc_graph.layout.manifest import Manifest
from tests.command_line import listing
from tests.job_runs import CHANGED, EDGES, STEPS, Command, small_job

UNKNOWN = "not known yet"


def rows_of(job: Path, run: Path, *settings: str, **chosen: str) -> dict[str, dict[str, str]]:
    """Rows by step."""
    return {row["step"]: row for row in outlook(read_job(job, settings), run, Chosen(**chosen))}


def take(run: Path, **seconds: float) -> None:
    """Have units of stages of a finished run have taken so long."""
    manifest: Any = read_manifest(run)
    for name, each in seconds.items():
        for facts in manifest["steps"][name]["units"].values():
            facts["seconds"] = each
    (run / "run.json").write_text(encoded(manifest))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return small_job(tmp_path)


def test_a_first_run_has_no_rates(job: Path, tmp_path: Path) -> None:
    rows = rows_of(job, tmp_path / "runs" / "first")
    assert list(rows) == [*STEPS, "in all"]
    assert {row["time"] for row in rows.values()} == {UNKNOWN}
    assert [row["units"] for row in rows.values()] == ["1", "2", "1", "2", "2", ""]
    assert rows["build"]["bytes"] == f"{len(EDGES)} to read"
    assert rows["bfs"]["bytes"] == ""


def test_units_that_are_left_take_what_others_took(job: Path, tmp_path: Path, ooc: Command) -> None:
    run = tmp_path / "runs" / "small"
    assert ooc("run", job, "--out", run).code == 0
    assert {row["time"] for row in rows_of(job, run).values()} == {""}
    assert "in all" not in rows_of(job, run)
    take(run, bfs=40.0, validate=10.0, export=0.5)
    before = listing(tmp_path)
    rows = rows_of(job, run, "stage.bfs.roots=[10,20,40]")
    assert listing(tmp_path) == before
    # Root 10 is done, 30 was not asked for; the mean of both answers is what each takes.
    sizes = [
        sum(entry.size for entry in Manifest.load(store).files.values())
        for store in (run / "bfs").glob("*.zarr")
    ]
    assert rows["bfs"].items() >= {"units": "2", "time": "80 s"}.items()
    assert rows["bfs"]["bytes"] == f"{sum(sizes):,} to write"
    assert rows["validate"].items() >= {"units": "2", "time": "20 s", "bytes": ""}.items()
    files = sum(file.stat().st_size for file in (run / "export").iterdir())
    assert rows["export"].items() >= {"time": "1 s", "bytes": f"{files:,} to write"}.items()
    assert rows["build"].items() >= {"units": "", "time": "", "bytes": ""}.items()
    assert rows["in all"]["time"] == "2 min"
    only = rows_of(job, run, "stage.bfs.roots=[10,20,40]", only="bfs")
    assert only["in all"]["time"] == "80 s"
    assert only["validate"]["time"] == ""


def test_rates_of_the_run_before(job: Path, tmp_path: Path, ooc: Command) -> None:
    runs = tmp_path / "runs"
    for day, seconds in (("monday", 100.0), ("tuesday", 20.0)):
        assert ooc("run", job, "--out", runs / day).code == 0
        take(runs / day, build=seconds, bfs=seconds / 10)
    # The latest counts, whatever it is called.
    for place, day in enumerate(("tuesday", "monday")):
        os.utime(runs / day / "run.json", (place, place))
    rows = rows_of(job, runs / "wednesday")
    assert rows["build"]["time"] == "2 min, as in monday"
    assert rows["bfs"]["time"] == "20 s, as in monday"
    (tmp_path / "edges.txt").write_text(CHANGED)
    rows = rows_of(job, runs / "wednesday")
    assert rows["build"]["time"].endswith(", as in monday, with other edges.txt")
    assert rows["bfs"]["time"] == "20 s, as in monday, with other build"
    assert rows["build"]["bytes"].startswith(f"{len(CHANGED)} to read, ")
    # What it has not done, another one has; what cannot be read is left out.
    manifest: Any = read_manifest(runs / "monday")
    del manifest["steps"]["bfs"]
    (runs / "monday" / "run.json").write_text(encoded(manifest))
    rows = rows_of(job, runs / "wednesday")
    assert rows["bfs"]["time"].startswith("4 s, as in tuesday")
    (runs / "tuesday" / "run.json").write_text("{")
    rows = rows_of(job, runs / "wednesday")
    assert (rows["bfs"]["time"], rows["in all"]["time"]) == (UNKNOWN, UNKNOWN)
    assert rows["build"]["time"] != UNKNOWN


def test_runs_of_other_jobs_say_nothing(job: Path, tmp_path: Path, ooc: Command) -> None:
    runs = tmp_path / "runs"
    assert ooc("run", job, "--out", runs / "other", "--set", 'name="other"').code == 0
    assert rows_of(job, runs / "small")["build"]["time"] == UNKNOWN


def test_units_that_a_file_or_graph500_names(tmp_path: Path, ooc: Command) -> None:
    (tmp_path / "roots.txt").write_text("10\n30\n40\n")
    more = f'[[stage]]\nkind = "bfs"\nname = "far"\nroots_file = "{tmp_path}/roots.txt"\n'
    rows = rows_of(small_job(tmp_path, more), tmp_path / "run")
    assert rows["far"]["units"] == "3"
    made = tmp_path / "made.toml"
    made.write_text('[source]\nkind = "kronecker"\nscale = 5\n[[stage]]\nkind = "bfs"\nkeys = 9\n')
    run = tmp_path / "made"
    rows = rows_of(made, run)
    assert (rows["bfs"]["units"], rows["build"]["bytes"]) == ("9", "")
    assert ooc("run", made, "--out", run, "--set", "stage.bfs.keys=2").code == 0
    assert rows_of(made, run)["bfs"]["units"] == "7"


def test_memory_of_pagerank_is_that_of_its_kernel(tmp_path: Path, ooc: Command) -> None:
    job, run = small_job(tmp_path, '[[stage]]\nkind = "pagerank"\n'), tmp_path / "run"
    assert ooc("run", job, "--out", run, "--only", "build").code == 0
    for counts, kernel in (("true", "weighted_pagerank"), ("false", "pagerank")):
        memory = rows_of(job, run, f"stage.pagerank.weight={counts}")["pagerank"]["memory"]
        planned = og.plan(run / "graph.zarr", kernel)  # type: ignore[arg-type]
        assert memory == f"{planned['tier']}, {planned['bytes: in all']:,} bytes: in all"


def test_the_table(job: Path, tmp_path: Path, ooc: Command) -> None:
    said = ooc("run", job, "--out", tmp_path / "run", "--dry-run")
    columns, *rows = said.out.splitlines()
    assert columns.split() == ["step", "kind", "state", "units", "bytes", "time", "memory"]
    assert rows[-1].split() == ["in", "all", "not", "known", "yet"]
    assert rows[0].split()[3:] == ["1", "32", "to", "read", *UNKNOWN.split()]
