"""A pytest plugin that has SciPy's tests of `scipy.sparse.csgraph` call `ooc_graph.csgraph`.

python -m pytest -p tests.scipys.plugin --pyargs scipy.sparse.csgraph.tests.test_traversal
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import pytest
from scipy.sparse import csgraph as scipys

from ooc_graph import csgraph as ours
from ooc_graph.csgraph import matrices

calls: Counter[str] = Counter()


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        calls[function.__name__] += 1
        return function(*args, **kwargs)

    return called


def pytest_configure() -> None:
    # No graph of SciPy's tests is large.
    matrices.SMALL_ARCS = 0


def pytest_collection_modifyitems(items: Sequence[Any]) -> None:
    own = {function.__name__: _counted(function) for function in ours.OWN}
    for module in {item.module for item in items}:
        for name, function in own.items():
            if getattr(module, name, None) is getattr(scipys, name):
                setattr(module, name, function)
        if getattr(module, "csgraph", None) is scipys:
            module.csgraph = ours


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"own calls: {sum(calls.values())}")
