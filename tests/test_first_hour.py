"""What a newcomer tries in the first hour, and what is said of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import bag
from dask.delayed import delayed

import ooc_graph as og
from ooc_graph.errors import InputError, OocGraphError, OutputExistsError, UsageError
from ooc_graph.jobs.folder import refuse_other
from ooc_graph.report.graph500 import in_seconds
from tests.command_line import call, script

EDGES = np.array([0, 1, 2]), np.array([1, 2, 3])


@pytest.fixture
def graph() -> og.Graph:
    return og.from_edges(*EDGES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "give a path, not int"),
        (b"g.zarr", "give a path, not bytes"),
        ("", "an empty word is no path"),
        ("s3://bucket/g.zarr", "s3://bucket/g.zarr is a URL, and a path is needed here"),
    ],
)
def test_outputs_are_paths(graph: og.Graph, given: Any, said: str) -> None:
    answer = og.bfs(graph, 0)
    with pytest.raises(UsageError, match=f"^out: {said}"):
        og.build(EDGES, given)
    with pytest.raises(UsageError, match=f"^out: {said}"):
        og.bfs(graph, 0, out=given)
    with pytest.raises(UsageError, match=f"^path: {said}"):
        og.export(answer, given)


def test_a_build_into_nothing_is_told_of_graphs_in_memory() -> None:
    with pytest.raises(UsageError, match=r"^out: .* from_edges"):
        og.build(EDGES, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        ([], {}, "no edges in the list"),
        (pd.DataFrame({"source": [], "target": []}), {}, "no edges"),
        ([("a", "b")], {}, "the list does not hold edges"),
        ((np.array(["a"]), np.array(["b"])), {}, "pandas.factorize"),
        (pd.DataFrame([[1, 2, 3]], columns=list("abc")), {}, "source= and target="),
        (EDGES, {"directed": "no"}, "directed is 'no': give True or False"),
        (EDGES, {"src": "a"}, "did you mean source.* There are edges, "),
    ],
)
def test_edges_that_are_refused(given: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OocGraphError, match=said):
        og.from_edges(given, **options)


def test_which_dask_collections_have_edges() -> None:
    words = pd.DataFrame({"source": ["a"], "target": ["b"]})
    with pytest.raises(InputError, match=r"'source' has dtype .* pandas.factorize"):
        og.from_edges(dd.from_pandas(words, npartitions=1))
    for given in (bag.from_sequence([(0, 1)]), delayed([(0, 1)])):
        with pytest.raises(UsageError, match="DataFrame or an array"):
            og.from_edges(given)


def test_patterns_are_not_expanded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="a list of files, or their folder"):
        og.build(str(tmp_path / "part-*.csv"), tmp_path / "g.zarr")


def test_graphs_that_networkx_reads(tmp_path: Path) -> None:
    (tmp_path / "g.graphml").write_text("<graphml/>")
    with pytest.raises(InputError, match="read it with networkx"):
        og.build(tmp_path / "g.graphml", tmp_path / "g.zarr")


def test_a_removed_answer_can_be_shown(graph: og.Graph, tmp_path: Path) -> None:
    answer = og.bfs(graph, 0, out=tmp_path / "r.zarr")
    shutil.rmtree(tmp_path / "r.zarr")
    assert "removed from" in repr(answer)


def test_a_source_is_given_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    og.build(EDGES, tmp_path / "g.zarr")
    words = ["bfs", tmp_path / "g.zarr", "--out", tmp_path / "r.zarr", "--source", 0]
    done = call(monkeypatch, capsys, *words, "--source", 1)
    assert (done.code, "--sources-file" in done.err) == (2, True)
    assert not (tmp_path / "r.zarr").exists()
    assert call(monkeypatch, capsys, *words).code == 0


def test_short_times_have_no_exponent() -> None:
    assert in_seconds(3.51e-05) == "0.0351 ms"
    assert in_seconds(0.0) == "0 s"


def test_a_misspelt_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(monkeypatch, capsys, "biuld", "e.csv", "g.zarr")
    assert (done.code, "did you mean build?" in done.err) == (2, True)


def test_a_warning_of_the_command_is_one_line() -> None:
    program = (
        "import atexit, sys, warnings; from ooc_graph.cli import main; "
        "atexit.register(warnings.warn, 'beware'); sys.argv[1:] = ['--version']; main()"
    )
    assert script("-c", program).err == "ooc-graph: beware\n"


def test_the_folder_of_a_run_is_named(tmp_path: Path) -> None:
    store = og.build(EDGES, tmp_path / "g.zarr").path
    for folder in (store / "run", store / "runs" / "first"):
        with pytest.raises(OutputExistsError, match=rf"^{folder}: lies inside the store {store};"):
            refuse_other(folder, "night")
