"""Dask's configuration for workers of this package: as Python and as YAML."""

from __future__ import annotations

import math
import os
import re
import shlex
from pathlib import Path
from typing import Any

import dask
import pytest

import ooc_graph as og
from tests.command_line import REPOSITORY, script

IS_SEEN = (
    "import dask, distributed, ooc_graph as og; config = og.dask_config();"
    "print({key: dask.config.get(key) for key in config} == config)"
)


def seen() -> dict[str, Any]:
    return {key: dask.config.get(key) for key in og.dask_config()}


def test_each_call_gives_values_of_its_own() -> None:
    og.dask_config()["distributed.nanny.pre-spawn-environ"].clear()
    assert og.dask_config()["distributed.nanny.pre-spawn-environ"]["OMP_NUM_THREADS"] == 1
    assert math.isinf(og.dask_config()["distributed.scheduler.worker-saturation"])


def test_workers_of_a_local_cluster_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # The environment goes before the configuration, and Dask leaves that of the last cluster in it.
    for name in og.dask_config()["distributed.nanny.pre-spawn-environ"]:
        monkeypatch.delenv(name, raising=False)
    with og.local_cluster(1) as client:
        (found,) = client.run(seen).values()
        (environment,) = client.run(lambda: dict(os.environ)).values()
    assert found == og.dask_config()
    for name, value in og.dask_config()["distributed.nanny.pre-spawn-environ"].items():
        assert environment[name] == str(value)


def test_the_yaml_of_the_documentation_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "clusters.md").read_text()
    (line,) = re.findall(r"^(python -c .*dask_config.*) > .*\.yaml$", page, re.MULTILINE)
    written = script(*shlex.split(line)[1:])
    assert written.code == 0, written
    (tmp_path / "ooc-graph.yaml").write_text(written.out)
    assert script("-c", IS_SEEN).out == "False\n"
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    assert script("-c", IS_SEEN).out == "True\n"
