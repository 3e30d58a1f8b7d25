"""Dask's configuration says what calls leave open, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph import settings
from ooc_graph.errors import UsageError
from ooc_graph.model.resources import NO_LIMITS, CudaLimits
from ooc_graph.remote.copies import CACHE, cache_folder
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.runtime.workplace import workplace_for
from tests.command_line import call

GIVEN = {
    "ooc-graph.memory-limit": "64MiB",
    "ooc-graph.device-memory": "2GiB",
    "ooc-graph.host-memory": 0,
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        yield client


def test_what_a_call_leaves_open_is_configured(client: Client) -> None:
    with dask.config.set(GIVEN):
        place = workplace_for(client, None)
    assert place.limit_bytes == 64 << 20
    assert place.cuda_limits == CudaLimits(2 << 30, 0)
    assert place.wanted == "auto"


def test_a_call_has_the_last_word(client: Client) -> None:
    with dask.config.set(GIVEN | {"ooc-graph.device": "cpu"}):
        place = workplace_for(client, 32 << 20, "auto", CudaLimits(1 << 30, 1 << 20))
    assert place.limit_bytes == 32 << 20
    assert place.cuda_limits == CudaLimits(1 << 30, 1 << 20)
    assert place.wanted == "auto"


@pytest.mark.parametrize("wanted", ["auto", "cpu"])
def test_the_cpu_has_no_limits_of_devices(client: Client, wanted: str) -> None:
    device = {"ooc-graph.device": "cpu" if wanted == "auto" else "auto"}
    with dask.config.set(GIVEN | device):
        place = workplace_for(client, None, wanted)
    assert (place.wanted, place.cuda_limits) == ("cpu", NO_LIMITS)


def test_this_process_heeds_it(tmp_path: Path) -> None:
    with dask.config.set(GIVEN | {"ooc-graph.device": "cpu"}):
        place = workplace_for(None, None)
        assert isinstance(place, ThisProcess)
        assert (place.wanted, place.cuda_limits, place.limit_bytes) == ("cpu", NO_LIMITS, 64 << 20)
        assert workplace_for(None, 32 << 20).limit_bytes == 32 << 20
        graph = og.build(og.Kronecker(8), tmp_path / "g.zarr", client=False)
    with dask.config.set({"ooc-graph.memory-limit": "1kB"}):
        with pytest.raises(og.errors.MemoryBudgetError):
            og.plan(graph)
        with pytest.raises(og.errors.MemoryBudgetError):
            og.bfs(graph, 1)
        og.bfs(graph, 1, memory_limit="64MiB")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("device", "cuda", r"ooc-graph\.device is 'cuda' in Dask's configuration: choose auto"),
        ("memory-limit", "much", "ooc-graph.memory-limit 'much': give bytes or a size"),
        ("device-memory", 0, "ooc-graph.device-memory 0: give more than nothing"),
    ],
)
def test_what_is_no_setting_is_refused(client: Client, name: str, value: Any, said: str) -> None:
    with dask.config.set({f"ooc-graph.{name}": value}), pytest.raises(UsageError, match=said):
        workplace_for(client, None)


def test_a_search_keeps_within_what_is_configured(client: Client, tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(8), tmp_path / "g.zarr", client=False)
    with dask.config.set({"ooc-graph.memory-limit": "1kB"}):
        with pytest.raises(og.errors.MemoryBudgetError):
            og.bfs(graph, 1, client=client)
        og.bfs(graph, 1, client=client, memory_limit="64MiB")


def test_files_and_the_environment_come_before_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("ooc-graph:\n  patience: 5m\n  memory-limit: 4GiB\n")
    environment = os.environ | {"DASK_CONFIG": str(tmp_path), "DASK_OOC_GRAPH__DEVICE": "cpu"}
    code = (
        "from ooc_graph.settings import setting, patience_s, answer_timeout_s\n"
        "print(patience_s(), answer_timeout_s(), *map(setting, ('device', 'memory-limit', "
        "'host-memory')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["300.0", "10.0", "cpu", "4GiB", "None"]


def alone(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python in an environment without settings, except for those that are given."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("DASK_")}
    line = [sys.executable, "-c", code]
    given = bare | environment
    return subprocess.run(line, env=given, check=True, capture_output=True, text=True)


def test_dask_is_imported_only_for_settings_of_ours(tmp_path: Path) -> None:
    code = (
        "import sys; from ooc_graph.settings import setting, folders; found = setting('device'); "
        "print(found, 'dask' in sys.modules); import dask, pathlib; "
        "assert folders() == list(map(pathlib.Path, dask.config.paths))"
    )
    home = {"HOME": str(tmp_path), "DASK_ROOT_CONFIG": str(tmp_path / "etc")}
    assert alone(code, **home).stdout == "auto False\n"
    assert alone(code, **home, DASK_OOC_GRAPH__DEVICE="cpu").stdout == "cpu True\n"
    folder = tmp_path / ".config" / "dask"
    folder.mkdir(parents=True)
    (folder / "other.yaml").write_text("distributed:\n  comm: {}\n")
    assert alone(code, **home).stdout == "auto False\n"
    (folder / "site.YAML").write_text("ooc_graph:\n  device: cpu\n")
    assert alone(code, **home).stdout == "cpu True\n"
    assert alone(code, **home, DASK_CONFIG=str(folder / "site.YAML")).stdout == "cpu True\n"


def test_a_setting_that_there_is_not_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    given = {"ooc-graph.memory_limitt": "4GiB", "ooc-graph.colour": "red"}
    with dask.config.set(given):
        for _ in range(2):
            assert settings.setting("memory-limit") is None
    said = sorted(caplog.messages)
    assert len(said) == 2
    assert said[0].startswith("ooc-graph.colour in Dask's configuration is no setting: it is ign")
    assert "did you mean ooc-graph.memory-limit?" in said[1]
    with dask.config.set({"ooc-graph": 4}), pytest.raises(UsageError, match="give settings by nam"):
        settings.setting("device")


def test_the_command_lists_settings_and_their_origins(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("ooc-graph:\n  patience: 5m\n  device: cpu\n")
    environment = {"DASK_CONFIG": str(tmp_path), "DASK_OOC_GRAPH__DEVICE": "auto"}
    line = [sys.executable, "-m", "ooc_graph", "config"]
    run = partial(subprocess.run, capture_output=True, text=True, check=True)
    done = run([*line, "--json"], env=os.environ | environment)
    rows = {row["setting"].removeprefix("ooc-graph."): row for row in json.loads(done.stdout)}
    assert list(rows) == list(settings.SETTINGS)
    assert (rows["patience"]["value"], rows["patience"]["default"]) == ("5m", "60s")
    assert rows["patience"]["from"] == str(tmp_path / "site.yaml")
    assert rows["device"]["from"] == "DASK_OOC_GRAPH__DEVICE"
    assert rows["memory-limit"]["from"] == "default"
    table = run(line, env=os.environ | environment).stdout.splitlines()
    assert len(table) == 1 + len(rows)
    assert table[0].split() == ["setting", "value", "default", "from", "meaning"]


def test_the_command_heeds_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = og.build(og.Kronecker(8), tmp_path / "g.zarr", client=False)
    words = ("bfs", graph.path, "--source", 1, "--out", tmp_path / "r.zarr", "--overwrite")
    with dask.config.set({"ooc-graph.progress": False}):
        assert call(monkeypatch, capsys, *words).err == ""
        assert "done in" in call(monkeypatch, capsys, *words, "--progress").err
    with dask.config.set({"ooc-graph.progress": "perhaps"}):
        done = call(monkeypatch, capsys, *words)
        assert (done.code, "give true or false" in done.err) == (2, True)
    with dask.config.set({"ooc-graph.memory-limit": "1kB"}):
        assert call(monkeypatch, capsys, *words).code == 2
        assert call(monkeypatch, capsys, *words, "--memory-limit", "64MiB").code == 0


def test_copies_of_files_at_urls_are_where_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CACHE, raising=False)
    with dask.config.set({"ooc-graph.cache-folder": str(tmp_path / "set")}):
        assert cache_folder() == tmp_path / "set"
        monkeypatch.setenv(CACHE, str(tmp_path / "variable"))
        assert cache_folder() == tmp_path / "variable"


def test_every_setting_is_described() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "reference", "environment.md").read_text()
    for name in settings.SETTINGS:
        assert f"| `ooc-graph.{name}` |" in text


def test_a_section_without_settings_is_none() -> None:
    with dask.config.set({"ooc-graph": None}):
        assert settings.setting("patience") == "60s"
