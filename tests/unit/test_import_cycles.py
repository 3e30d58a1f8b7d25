"""No modules of the package import each other in a ring, in whatever order they are imported."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import ooc_graph

ROOT = Path(ooc_graph.__file__).parent


def module_of(path: Path) -> str:
    """Dotted name of a file of the package."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in ROOT.rglob("*.py")}


def imported(path: Path) -> set[str]:
    """Modules of the package that a module imports, for types alone as well; not in functions."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    blocks = [tree, *(node for node in tree.body if isinstance(node, ast.If))]
    for node in (node for block in blocks for node in block.body):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            within = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (within & MODULES.keys()) or ({node.module} & MODULES.keys())
    return found


def test_imports_are_no_ring() -> None:
    graph = {module: imported(path) for module, path in MODULES.items()}
    # It gives the public names, to whoever asks for them; nothing within asks it for any.
    graph["ooc_graph"] = set()
    assert graph["ooc_graph.runtime.engine_cache"]
    order = list(TopologicalSorter(graph).static_order())  # CycleError names a ring
    assert order.index("ooc_graph.model.request") < order.index("ooc_graph.runtime.engine_cache")
