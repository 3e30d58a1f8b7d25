"""SciPy's own tests of `scipy.sparse.csgraph`, of our functions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="ooc_graph.csgraph has SciPy's signatures")

ROOT = Path(__file__).parents[1]
# The tests of functions that are not ours are in other modules, but for `yen` and the depth-first
# ones, which run beside.
MODULES = "test_shortest_path", "test_traversal", "test_connected_components"


def run_scipys_tests(*modules: str) -> dict[str, int]:
    """Run SciPy's modules of tests: how many passed and were skipped, and calls of ours."""
    names = [f"scipy.sparse.csgraph.tests.{module}" for module in modules]
    given = "-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "tests.scipys.plugin"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *given, "--pyargs", *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (\w+)[ ,].*?", done.stdout)}
    calls = re.search(r"own calls: (\d+)", done.stdout)
    assert calls, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout
    return {
        "passed": counts["passed"],
        "skipped": counts.get("skipped", 0),
        "calls": int(calls[1]),
    }


@pytest.mark.timeout(1200)  # the first call compiles the kernels
def test_scipys_tests_pass() -> None:
    found = run_scipys_tests(*MODULES)
    assert found["skipped"] == 0
    assert found["passed"] > 100
    # Every test of a function that is ours has called it.
    assert found["calls"] > 150
