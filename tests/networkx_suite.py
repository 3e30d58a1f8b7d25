"""networkx' own tests with its functions on our backend, and a record of what came of them.

    python -m tests.networkx_suite [--quick] [--records FILE]

The modules that test functions which the backend has; calls that it refuses fall back to networkx.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import networkx as nx
import pytest

from ooc_graph.networkx_backend.info import FUNCTIONS, NAME
from ooc_graph.networkx_backend.interface import backend
from ooc_graph.report.records import append_record

RECORDS = Path(__file__).parents[1] / "benchmarks" / "records" / "networkx.jsonl"
_ALGORITHMS = "networkx.algorithms"
MODULES = [
    f"{_ALGORITHMS}.{part}"
    for part in (
        "centrality",
        "components",
        "link_analysis",
        "shortest_paths",
        "traversal",
        "tests.test_distance_measures",
        "tests.test_voronoi",
    )
]
QUICK = [
    f"{_ALGORITHMS}.{part}"
    for part in (
        "components.tests.test_connected",
        "shortest_paths.tests.test_generic",
        "shortest_paths.tests.test_unweighted",
        "tests.test_voronoi",
    )
]


class Counts:
    """Plugin of pytest that counts outcomes of tests, and calls of the backend by function."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.not_passed: dict[str, str] = {}

    def pytest_sessionstart(self) -> None:
        for name in FUNCTIONS:
            setattr(backend, name, self._counted(name, getattr(backend, name)))

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                found = function(*args, **kwargs)
            except NotImplementedError:
                self.refused[name] += 1
                raise
            except Exception:
                # What networkx raises, too, or the test fails.
                self.calls[name] += 1
                raise
            self.calls[name] += 1
            return found

        return called

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.passed:
            return
        expected = hasattr(report, "wasxfail") and report.skipped
        outcome = "xfailed" if expected else report.outcome
        self.outcomes[outcome] += 1
        if outcome != "passed":
            reason = report.wasxfail if expected else str(report.longrepr)[-300:]
            self.not_passed[report.nodeid.rpartition("site-packages/")[2]] = f"{outcome}: {reason}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the modules that take seconds")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    os.environ |= {"NETWORKX_TEST_BACKEND": NAME, "NETWORKX_FALLBACK_TO_NX": "True"}
    counts, modules = Counts(), QUICK if options.quick else MODULES
    # Not our own options of pytest.
    own = [
        "-p",
        "tests.networkx_calls",
        "-o",
        "addopts=",
        "-W",
        "ignore",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    begun = perf_counter()
    status = pytest.main([*own, "--pyargs", *modules], plugins=[counts])
    figures = {
        "outcomes": dict(counts.outcomes),
        "not_passed": counts.not_passed,
        "calls": dict(sorted(counts.calls.items())),
        "left_to_networkx": dict(sorted(counts.refused.items())),
        "elapsed_s": perf_counter() - begun,
    }
    parameters = {"networkx": nx.__version__, "modules": modules}
    append_record(
        options.records, {"benchmark": "networkx", "parameters": parameters, "figures": figures}
    )
    raise SystemExit(int(status))


if __name__ == "__main__":
    main()
