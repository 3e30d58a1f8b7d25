"""GPU tests are marked so, skipped where there is no GPU, and recorded where one is named.

``OOC_GRAPH_GPU_RECORD=1`` writes to `last_run.json` how those that ran ended, file by file.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from ooc_graph.errors import DeviceError
from ooc_graph.kernels.cuda.runtime.modules import cuda
from tests.gpu import last_run
from tests.gpu.fixtures import (
    case,
    cuda_workers,
    light,
    only_ranks,
    pinned,
    plain,
    released,
    small_store,
    tried,
    workers,
)

__all__ = [
    "case",
    "cuda_workers",
    "light",
    "only_ranks",
    "pinned",
    "plain",
    "released",
    "small_store",
    "tried",
    "workers",
]

HERE = Path(__file__).parent


def _why_not() -> str:
    try:
        cuda()
    except DeviceError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    chosen = config.getoption("markexpr", "")
    reason = _why_not() if mine and "not gpu" not in chosen else ""
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


_outcomes: dict[str, Counter[str]] = defaultdict(Counter)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _outcomes[Path(report.location[0]).name][report.outcome] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("OOC_GRAPH_GPU_RECORD") and not hasattr(session.config, "workerinput"):
        sha256 = last_run.test_files()
        ran = {
            name: {
                "sha256": sha256[name],
                **{kind: found[kind] for kind in ("passed", "failed", "skipped")},
            }
            for name, found in _outcomes.items()
        }
        last_run.write("tests", {"files": last_run.files_of_these_sources() | ran})
