"""Runs as a file of metrics, read again by Prometheus' own parser."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.jobs.metrics import write_metrics
from ooc_graph.jobs.status import status_of, statuses_in
from tests.job_runs import Command, small_job

parser: Any = pytest.importorskip(
    "prometheus_client.parser", reason="needs prometheus_client, of the extra test"
)


def read(path: Path) -> dict[tuple[str, ...], float]:
    """Values by name, run and the label that follows."""
    found = {}
    for family in parser.text_string_to_metric_families(path.read_text()):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            run, job, *rest = sample.labels.values()
            assert list(sample.labels)[:2] == ["run", "job_name"]
            assert job in ("small", "")
            key = sample.name.removeprefix("ooc_graph_"), run, *rest
            assert key not in found
            found[key] = sample.value
    return found


def test_metrics_of_runs(ooc: Command, tmp_path: Path) -> None:
    job, folder = small_job(tmp_path), tmp_path / "runs"
    strange = 'a "name"\\ of\ntwo lines'
    for name in (strange, "bad", "damaged"):
        word = "stage.bfs.roots=[9]" if name == "bad" else "retries.times=0"
        ooc("run", job, "--out", folder / name, "--set", word)
    (folder / "damaged" / "run.json").write_text("{")
    path = tmp_path / "ooc_graph.prom"
    said = ooc("runs", folder, "--prometheus", path)
    assert (said.code, said.out, said.err) == (0, "", "")
    found = read(path)
    states = {key[1]: key[2] for key in found if key[0] == "run_state" and found[key] == 1}
    assert states == {strange: "done", "bad": "failed", "damaged": "damaged"}
    assert sum(key[0] == "run_state" for key in found) == 3 * 6
    for name in (strange, "bad"):
        status = status_of(folder / name)
        last_s = datetime.fromisoformat(status["last"]).timestamp()
        assert found["run_last_event_timestamp_seconds", name] == last_s
        assert found["run_seconds", name] == status["seconds"] > 0
    assert ("run_seconds", "damaged") not in found
    assert found["stage_units", strange, "bfs"] == found["stage_units_done", strange, "bfs"] == 2
    memory_bytes = status_of(folder / strange)["steps"][1]["tier_bytes"]["memory"]
    assert found["stage_tier_bytes", strange, "bfs", "memory"] == memory_bytes > 0
    manifest = json.loads((folder / strange / "run.json").read_text())
    units = manifest["steps"]["bfs"]["units"].values()
    assert found["stage_seconds", strange, "bfs"] == sum(one["seconds"] for one in units) > 0
    failures = {key[1:]: value for key, value in found.items() if key[0] == "stage_failures"}
    assert failures["bad", "bfs"] == 1
    assert failures["bad", "build"] == failures[strange, "bfs"] == 0
    # Nothing but the file: a partial one would be read, too.
    assert {one.name for one in tmp_path.glob("*.prom*")} == {path.name}


def test_a_file_that_is_being_written_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    replace = Path.replace

    def replacing(partial: Path, path: Path) -> Path:
        seen.append(partial.name)
        return replace(partial, path)

    monkeypatch.setattr(Path, "replace", replacing)
    write_metrics(tmp_path / "ooc.prom", [])
    assert len(seen) == 1
    assert not seen[0].endswith(".prom")


def test_a_file_that_node_exporter_does_not_read_is_refused(ooc: Command, tmp_path: Path) -> None:
    said = ooc("runs", tmp_path, "--prometheus", tmp_path / "metrics.txt")
    assert said.code == 2
    assert "ends in .prom" in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_refused(ooc: Command, tmp_path: Path) -> None:
    (tmp_path / "is.prom").mkdir()
    long = f"{'long' * 70}.prom", "the name is too long"
    for path, why in (("none/ooc.prom", "no such folder"), ("is.prom", "is a folder"), long):
        said = ooc("runs", tmp_path, "--prometheus", tmp_path / path)
        assert said.code == 2
        assert why in said.err


def test_no_runs_no_metrics(ooc: Command, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    path = tmp_path / "ooc_graph.prom"
    path.write_text("old")
    assert ooc("runs", tmp_path / "runs", "--prometheus", path).code == 0
    assert path.read_text() == ""
    assert statuses_in(tmp_path / "runs") == []
    assert ooc("runs", tmp_path / "runs", "--prometheus", path, "--json").code == 2
