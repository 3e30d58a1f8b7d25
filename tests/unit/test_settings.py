"""Dask's configuration says what calls on a cluster leave open, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.errors import UsageError
from ooc_graph.exchange import settings
from ooc_graph.model.resources import NO_LIMITS, CudaLimits
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.runtime.workplace import workplace_for

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


def test_this_process_does_not_heed_it() -> None:
    with dask.config.set(GIVEN | {"ooc-graph.device": "cpu"}):
        place = workplace_for(None, None)
    assert isinstance(place, ThisProcess)
    assert (place.wanted, place.cuda_limits, place.is_limited) == ("auto", NO_LIMITS, False)


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
        og.bfs(graph, 1, client=False)


def test_files_and_the_environment_come_before_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("ooc-graph:\n  patience: 5m\n  memory-limit: 4GiB\n")
    environment = os.environ | {"DASK_CONFIG": str(tmp_path), "DASK_OOC_GRAPH__DEVICE": "cpu"}
    code = (
        "from ooc_graph.exchange.settings import setting, patience_s, answer_timeout_s\n"
        "print(patience_s(), answer_timeout_s(), *map(setting, ('device', 'memory-limit', "
        "'host-memory')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["300.0", "10.0", "cpu", "4GiB", "None"]


def test_every_setting_is_described() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "reference", "environment.md").read_text()
    for name in settings._DEFAULTS["ooc-graph"]:
        assert f"| `ooc-graph.{name}` |" in text
