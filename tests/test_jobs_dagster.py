"""Jobs as assets of Dagster, materialized in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ooc_graph.errors import DiskFullError, InputError
from ooc_graph.jobs import dagster_assets
from ooc_graph.jobs.dagster_assets import job_assets
from tests.job_runs import STEPS, small_job

dagster = pytest.importorskip("dagster", reason="needs dagster")


@pytest.fixture
def instance() -> Iterator[Any]:
    with dagster.DagsterInstance.ephemeral() as found:
        yield found


def materialize(assets: Any, instance: Any, *names: str) -> Any:
    chosen = [dagster.AssetKey(["small", name]) for name in names] or None
    return dagster.materialize([assets], instance=instance, selection=chosen, raise_on_error=False)


def materialized(result: Any) -> list[str]:
    events = result.get_asset_materialization_events()
    return [event.asset_key.path[-1] for event in events]


def test_an_asset_for_each_stage(tmp_path: Path, instance: Any) -> None:
    assets = job_assets(small_job(tmp_path), tmp_path / "run")
    graph = dagster.Definitions([assets]).resolve_asset_graph()
    before = {
        key.path[-1]: {one.path[-1] for one in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    }
    assert before == {
        "build": set(),
        "bfs": {"build"},
        "components": {"build"},
        "validate": {"bfs"},
        "export": {"bfs"},
    }
    result = materialize(assets, instance)
    assert result.success
    assert tuple(materialized(result)) == STEPS
    assert (tmp_path / "run/export/10.csv").is_file()
    figures = result.asset_materializations_for_node("small_job")[1].metadata
    assert (figures["kind"].value, figures["units"].value) == ("bfs", 2)


def test_some_stages_alone(tmp_path: Path, instance: Any) -> None:
    assets = job_assets(small_job(tmp_path), tmp_path / "run")
    assert not materialize(assets, instance, "export").success
    assert not (tmp_path / "run/bfs").exists()
    assert materialized(materialize(assets, instance, "bfs", "build")) == ["build", "bfs"]
    assert not (tmp_path / "run/export").exists()
    assert materialized(materialize(assets, instance, "export")) == ["export"]


@pytest.mark.parametrize("times", [1, 3])
def test_what_may_succeed_later_is_tried_again(
    times: int, tmp_path: Path, instance: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = dagster_assets.run_job, list[str]()

    def full(*arguments: Any, chosen: Any) -> None:
        begun.append(chosen.only)
        if chosen.only == "bfs" and begun.count("bfs") <= times:
            raise DiskFullError("the disk is full")
        real(*arguments, chosen=chosen)

    monkeypatch.setattr(dagster_assets, "run_job", full)
    assets = job_assets(small_job(tmp_path), tmp_path / "run", retries=2, wait_s=0.0)
    result = materialize(assets, instance)
    assert result.success == (times == 1)
    assert begun.count("bfs") == min(times + 1, 3)


def test_what_needs_attention_is_not(tmp_path: Path, instance: Any) -> None:
    path = small_job(tmp_path, edges="10 twenty 4\n")
    result = materialize(job_assets(path, tmp_path / "run"), instance)
    (failed,) = result.get_step_failure_events()
    assert "twenty" in failed.step_failure_data.error.message
    assert not [event for event in result.all_events if event.is_step_up_for_retry]


def test_mistakes_are_said_when_the_job_is_loaded(tmp_path: Path) -> None:
    path = small_job(tmp_path)
    with pytest.raises(InputError, match="unknown key"):
        job_assets(path, tmp_path / "run", ["stage.bfs.root=1"])
