"""Names, sizes of files and of signatures are those that CONTRIBUTING.md promises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import ooc_graph

ROOT = Path(ooc_graph.__file__).parent
# Words that once stood for several things at a time. Each has better ones: `docs/words.md`.
RETIRED = frozenset(
    [
        "way",
        "ways",
        "place",
        "here",
        "places",
        "told",
        "heard",
        "held",
        "hold",
        "hand",
        "pairs",
        "closing",
        "closed",
        "shifted",
        "unit",
        "units",
        "stretch",
        "stretches",
        "room",
        "course",
        "moved",
        "named",
        "lonely",
        "reckoned",
        "lightly",
        "crew",
        "lane",
        "lanes",
        "loom",
        "woven",
    ]
)
KEPT: dict[str, str] = {}
"""Names that keep such a word, and why."""
LONG_FILES: dict[str, int] = {}
"""Files of more than 250 lines, and how many they have at most."""
MOST_LINES, MOST_PARAMETERS = 250, 10


def names_in(tree: ast.AST) -> Iterator[str]:
    """Names that a module defines: of functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}


def test_no_name_has_a_retired_word() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for path in ROOT.rglob("*.py")
        for name in (*names_in(ast.parse(path.read_text())), path.stem)
        if words_of(name) & RETIRED and name not in KEPT
    }
    assert sorted(found) == []


def test_files_are_short() -> None:
    paths = [path for kind in ("*.py", "*.cu", "*.cuh") for path in ROOT.rglob(kind)]
    lines = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in paths
    }
    long = {
        name: count for name, count in lines.items() if count > LONG_FILES.get(name, MOST_LINES)
    }
    assert long == {}
    # An exception that is none any more goes.
    assert [name for name in LONG_FILES if lines.get(name, 0) <= MOST_LINES] == []


def test_signatures_are_short() -> None:
    """Those of users' functions are as long as they have options."""
    for path in ROOT.rglob("*.py"):
        if path.relative_to(ROOT).parts[0] in ("api", "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                count = sum(argument.arg not in ("self", "cls") for argument in given)
                assert count <= MOST_PARAMETERS, f"{path}: {node.name}"
