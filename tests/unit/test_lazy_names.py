"""The package's names are imported when they are asked for, and are the ones that types have."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
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
    assert set(dir(og)) == {*og.__all__, "__version__"}


def test_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        og.nonsense  # noqa: B018
    assert not hasattr(og, "open_graph")


@pytest.mark.parametrize("name", ["ooc_graph", "ooc_graph.cli"])
def test_little_is_imported_before_a_name_is_asked_for(name: str) -> None:
    heavy = "{'numpy', 'numba', 'zarr', 'click', 'distributed'}"
    done = script("-c", f"import sys, {name}; print({heavy} & set(sys.modules))")
    assert (done.code, done.out) == (0, "set()\n"), done


def test_graph500_imports_no_dask() -> None:
    end = "print({'dask', 'distributed', 'matplotlib'} & set(sys.modules))"
    done = script("-c", f"import sys, ooc_graph.graph500.job; {end}")
    assert (done.code, done.out) == (0, "set()\n"), done


def test_numba_is_imported_by_the_first_search(tmp_path: Path) -> None:
    """While it reads rows; neither to open a graph nor to ask for the function."""
    store = og.build((np.array([0]), np.array([1])), tmp_path / "g.zarr").path
    program = (
        "import sys, ooc_graph as og\n"
        f"graph = og.open({str(store)!r})\n"
        "graph.internal_of(), og.bfs\n"
        "print('numba' in sys.modules, og.bfs(graph, 0).reached.sum(), 'numba' in sys.modules)\n"
    )
    done = script("-c", program)
    assert (done.code, done.out) == (0, "False 2 True\n"), done


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_a_search_imports_no_dask_and_starts_no_process(kernel: str, tmp_path: Path) -> None:
    """Neither of the API nor of the command, unless workers are asked for."""
    edges = tuple(np.array(column) for column in ([0, 1], [1, 2], [1.0, 2.0]))
    store, out = og.build(edges, tmp_path / "g.zarr").path, tmp_path / "r.zarr"
    heavy = {"dask", "distributed", "pandas", "psutil", "pyarrow", "scipy.linalg", "zarr"}
    # NumPy's median imports it, too.
    heavy |= {"numpy.ma"} if kernel == "bfs" else set()
    # Most of the package is for other searches.
    other = "exchange", "kernels.cpu.many", "kernels.cpu.store", "shards.tiers", "strategies.cuda"
    heavy |= {f"ooc_graph.{name}" for name in other}
    begin = (
        "import sys, ooc_graph as og\n"
        "started = []\n"
        "events = ('subprocess.Popen', 'os.fork', 'os.posix_spawn')\n"
        "sys.addaudithook(lambda event, _: started.append(event) if event in events else None)\n"
    )
    end = f"print(started, {heavy} & set(sys.modules))"
    program = f"og.{kernel}(og.open({str(store)!r}), 0)\n"
    script("-c", begin + program)  # which compiles
    done = script("-c", begin + program + end)
    assert (done.code, done.out) == (0, "[] set()\n"), done
    words = ["ooc-graph", kernel, str(store), "--source", "0", "--out", str(out)]
    words += ["--quiet", "--overwrite"]
    program = f"from ooc_graph.cli.entry import run\nsys.argv = {words!r}\nassert run() == 0\n"
    script("-c", begin + program)  # which compiles what writes an answer
    done = script("-c", begin + program + end)
    assert (done.code, done.out.splitlines()[1:]) == (0, ["[] set()"]), done
    assert og.Result.open(out).reached.sum() == 3


@pytest.mark.parametrize("first", ["ooc_graph.validate.trees", "ooc_graph.graph500.job"])
def test_validate_is_the_function_whatever_was_imported_before(first: str) -> None:
    program = (
        f"import {first}, ooc_graph as og; print(og.validate.__module__, og.validate.__name__)"
    )
    for ask_before in ("", "import ooc_graph as og; og.validate; "):
        done = script("-c", ask_before + program)
        assert done.out == "ooc_graph.api.validate validate\n", done


def test_garbage_is_finalized_at_the_end_still() -> None:
    """What was left lately, what was left long ago, and what is alive until then."""
    program = (
        "import gc, ooc_graph as og\n"
        "og.open\n"
        "class Ring:\n"
        "    def __init__(self, name):\n"
        "        self.name, self.ring = name, self\n"
        "    def __del__(self):\n"
        "        print(self.name)\n"
        "old = Ring('old')\n"
        "gc.collect()\n"
        "del old\n"
        "alive, new = Ring('alive'), Ring('new')\n"
        "del new\n"
    )
    done = script("-c", program)
    assert (done.code, sorted(done.out.split())) == (0, ["alive", "new", "old"]), done
