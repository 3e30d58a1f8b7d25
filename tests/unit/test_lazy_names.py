"""The package's names are imported when they are asked for, and are the ones that types have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ooc_graph as og
from tests.command_line import script


def promised() -> dict[str, tuple[str, str]]:
    """Module, and name in it, of every name that type checkers see."""
    tree = ast.parse(Path(og.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_name_is_the_one_that_types_have() -> None:
    names = promised()
    assert set(names) | {"errors"} == set(og.__all__)
    for name, (module, there) in names.items():
        assert getattr(og, name) is getattr(__import__(module, fromlist=[there]), there)
    assert set(og.__all__) <= set(dir(og))


def test_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        og.nonsense  # noqa: B018
    assert not hasattr(og, "open_graph")


@pytest.mark.parametrize("name", ["ooc_graph", "ooc_graph.cli"])
def test_little_is_imported_before_a_name_is_asked_for(name: str) -> None:
    heavy = "{'numpy', 'numba', 'zarr', 'click', 'distributed'}"
    done = script("-c", f"import sys, {name}; print({heavy} & set(sys.modules))")
    assert (done.code, done.out) == (0, "set()\n"), done


@pytest.mark.parametrize("first", ["ooc_graph.validate.bfs", "ooc_graph.graph500.job"])
def test_validate_is_the_function_whatever_was_imported_before(first: str) -> None:
    program = (
        f"import {first}, ooc_graph as og; print(og.validate.__module__, og.validate.__name__)"
    )
    for ask_before in ("", "import ooc_graph as og; og.validate; "):
        done = script("-c", ask_before + program)
        assert done.out == "ooc_graph.api.validate validate\n", done
