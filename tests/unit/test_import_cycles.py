"""No modules of the session import each other in a ring, in whatever order they are imported."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import ooc_graph.session

PACKAGE = "ooc_graph.session"


def imported(path: Path) -> set[str]:
    """Modules of the session that a module imports when it is imported itself."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:  # not within functions, or for types alone
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module == PACKAGE:
            found |= {alias.name for alias in node.names}
        elif node.module.startswith(f"{PACKAGE}."):
            found.add(node.module.removeprefix(f"{PACKAGE}."))
    return found


def test_imports_of_the_session_are_no_ring() -> None:
    paths = list(Path(ooc_graph.session.__file__).parent.glob("*.py"))
    graph = {path.stem: imported(path) for path in paths}
    assert graph["resident"]
    order = list(TopologicalSorter(graph).static_order())  # CycleError names a ring
    assert order.index("rank_memory") < order.index("resident")
