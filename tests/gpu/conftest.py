"""GPU tests are marked so, skipped where there is no GPU, and recorded where one is named.

``OOC_GRAPH_GPU_RECORD=1`` writes to `last_run.json` how those that ran ended, file by file, unless
only some tests of a file were asked for. Device and versions there are those of the last run.
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


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if not os.environ.get("OOC_GRAPH_GPU_RECORD") or hasattr(config, "workerinput"):
        return
    asked = config.getoption("keyword"), config.getoption("maxfail"), config.getoption("deselect")
    if any(asked) or any("::" in word for word in config.args) or exitstatus not in (0, 1):
        return  # only some tests of a file have run, maybe
    ran = {
        name: {"sha256": sha256}
        | {kind: _outcomes[name][kind] for kind in ("passed", "failed", "skipped")}
        for name, sha256 in last_run.test_files().items()
        if name in _outcomes
    }
    last_run.write("tests", {"files": last_run.files_of_these_sources() | ran})
