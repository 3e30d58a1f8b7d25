"""Many sources by the command; what is refused there and by the API."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import (
    DiskFullError,
    InputError,
    MemoryBudgetError,
    OutputExistsError,
    UnknownVertexError,
    UsageError,
)
from ooc_graph.search import many
from ooc_graph.sinks import in_store
from ooc_graph.types import INT64_UNREACHED
from tests import small_pairs
from tests.small_pairs import VERTICES, Call, edges, exact, listed

called = small_pairs.called
graph, store = small_pairs.graph, small_pairs.store


def test_the_command(store: Path, called: Call) -> None:
    # As Windows saves text.
    Path("s.txt").write_text("\ufeff# some\r\n17\r\n\r\n 3\r\n598\r\n", encoding="utf-8")
    np.save("t.npy", np.array([605, 3]))
    words = ["apsp", store, "--sources", "s.txt", "--targets", "t.npy", "--out", "d.zarr"]
    ended = called(*words)
    assert ended.code == 0, ended
    assert ended.out.startswith("apsp: distances of 3 sources in ")
    found = og.Result.open("d.zarr")
    assert listed(found.read("distance")) == exact(edges(), [17, 3, 598], [605, 3])
    ended = called("apsp", store, "--sources", 5, "--reduce", "sum", "--out", "r.zarr")
    assert ended.code == 0, ended
    reduced = og.Result.open("r.zarr")
    assert len(reduced.read("source")) == 5
    assert called("info", "--json", "r.zarr").code == 0
    again = og.johnson(store, reduced.read("source"), reduce="sum")
    assert again.read("sum").tolist() == reduced.read("sum").tolist()
    ended = called("export", "r.zarr", "r.csv")
    assert ended.code == 0, ended
    assert Path("r.csv").read_text().startswith("source,reached,sum\n")
    words = ["--reduce", "histogram", "--bins", 7, "--bin-width", 9, "--out", "h.zarr"]
    assert called("apsp", store, *words).code == 0
    counted = og.johnson(store, reduce="histogram", bins=7, bin_width=9).histogram
    assert np.array_equal(og.Result.open("h.zarr").read("histogram"), counted)


def test_the_command_gives_parents(store: Path, called: Call) -> None:
    """Those of the API; each arc from a parent is as long as the distances are apart."""
    Path("s.txt").write_text("17\n3\n605\n")
    words = ["apsp", store, "--sources", "s.txt", "--out", "d.zarr"]
    ended = called(*words, "--parents")
    assert ended.code == 0, ended
    result = og.Result.open("d.zarr")
    distance, parent = result.read("distance"), result.read("parent")
    assert np.array_equal(parent, og.johnson(store, [17, 3, 605], parents=True).parent)
    ids = og.open(store).original_ids().tolist()
    weight: dict[tuple[int, int], int] = {}
    for u, v, w in zip(*(column.tolist() for column in edges()), strict=True):
        weight[u, v] = min(w, weight.get((u, v), w))
    found = 0
    for row, source in enumerate([17, 3, 605]):
        far = dict(zip(ids, distance[row].tolist(), strict=True))
        for vertex, before in zip(ids, parent[row].tolist(), strict=True):
            if vertex == source or far[vertex] == INT64_UNREACHED:
                assert before == (source if vertex == source else -1)
            else:
                assert far[before] + weight[before, vertex] == far[vertex]
                found += 1
    assert found > VERTICES
    ended = called(*words, "--overwrite")
    assert ended.code == 0, ended
    assert "parent" not in og.Result.open("d.zarr").names
    ended = called(*words, "--overwrite", "--parents", "--reduce", "sum")
    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sources", "none.txt"], "cannot be read"),
        (["--sources", "word.txt"], "word.txt:2: 'two' is no vertex id"),
        (["--sources", "twice.txt"], "twice.txt: vertex 3 is given twice"),
        (["--sources", "empty.txt"], "empty.txt: has no vertices"),
        (["--sources", "unknown.txt"], "vertex 4 is not in "),
        (["--targets", "unknown.txt"], "vertex 4 is not in "),
        (["--sources", "0"], "0 sources are asked for"),
        (["--sources", "9" * 5000], "cannot be read"),
        (["--sources", "https://u:secret@h/s.txt"], ": --sources: https://h/s.txt is a URL, and"),
        (["--sources", "nothing.npy"], "nothing.npy: cannot be read as an array"),
        (["--targets", "archive.npy"], "archive.npy: cannot be read as an array"),
        (["--sources", "huge.npy"], "the file is shorter"),
        (["--sources", "objects.npy"], "objects.npy: "),
        (["--sources", "floats.npy"], "floats.npy: is no .npy file of a list of integers"),
        (["--sources", "table.npy"], "table.npy: is no .npy file of a list of integers"),
        (["--sources", "above.npy"], "9223372036854775809 is no vertex id"),
        (["--sources", "underscore.txt"], "underscore.txt:1: '1_7' is no vertex id"),
        (["--sources", "arabic.txt"], "is no vertex id"),
        (["--sources", "digits.txt"], "is no vertex id"),
        (["--sources", "wide.txt"], "'9223372036854775808' is no vertex id"),
        (["--sources", "100000"], "100000 sources are asked for"),
        (["--cutoff", "nan"], "give a finite distance"),
        (["--reduce", "mean"], "--reduce"),
        (["--reduce", "histogram", "--bins", "0"], "1 or more"),
        (["--reduce", "histogram", "--bin-width", "0.5"], "give an integer"),
    ],
)
def test_refusals(
    store: Path, tmp_path: Path, words: list[str], message: str, called: Call
) -> None:
    for name, text in [("word", "3\ntwo\n"), ("twice", "3\n17\n3\n"), ("empty", "#\n")]:
        Path(f"{name}.txt").write_text(text)
    Path("unknown.txt").write_text("3\n4\n")
    files_that_are_no_lists()
    ended = called("apsp", store, "--out", "d.zarr", *words)
    assert ended.code == 2, ended
    assert message in ended.err
    # Wrong options have Click's usage before; nothing has a traceback.
    assert len(ended.err.splitlines()) == (4 if "Usage" in ended.err else 1)
    assert not list(tmp_path.glob("d.zarr*"))


def files_that_are_no_lists() -> None:
    """Files of ids that cannot be read as such."""
    Path("nothing.npy").write_bytes(b"")
    Path("archive.npy").write_bytes(b"PK\x03\x04")
    with Path("huge.npy").open("wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(file, header)
    np.save("objects.npy", np.array([3, "x"], object), allow_pickle=True)
    np.save("floats.npy", np.array([3.0]))
    np.save("table.npy", np.array([[3, 17]]))
    np.save("above.npy", np.array([3, 2**63 + 1], np.uint64))
    Path("underscore.txt").write_text("1_7\n")
    Path("arabic.txt").write_text("\u0663\n", encoding="utf-8")
    Path("digits.txt").write_text("9" * 5000)
    Path("wide.txt").write_text("9223372036854775808\n")


def test_refusals_of_the_api(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="list of vertex ids"):
        og.johnson(graph, 3)
    with pytest.raises(UsageError, match="list of vertex ids"):
        og.johnson(graph, [0.5])
    with pytest.raises(UsageError, match="9223372036854775809 is no vertex id"):
        og.johnson(graph, np.array([2**63 + 1], np.uint64))
    with pytest.raises(UnknownVertexError):
        og.johnson(graph, [3, 4])
    with pytest.raises(InputError, match="twice"):
        og.johnson(graph, targets=[3, 3])
    with pytest.raises(UsageError, match="no weights"):
        og.johnson(og.from_edges([1], [2]))
    with pytest.raises(UsageError, match="choose eccentricity"):
        og.johnson(graph, reduce="mean")
    with pytest.raises(UsageError, match="no parents"):
        og.johnson(graph, reduce="sum", parents=True)
    with pytest.raises(MemoryBudgetError, match="give out="):
        og.johnson(graph, memory_limit=1000)
    with pytest.raises(MemoryBudgetError, match="in one worker"):
        og.johnson(graph, memory_limit=60_000)
    with pytest.raises(InputError, match="bound"):
        og.johnson(og.from_edges([0, 1], [1, 2], [-(2**60), 2**60], directed=True))
    # What follows is refused before anything is searched.
    monkeypatch.setattr(many, "prepare", None)
    (tmp_path / "there.zarr").mkdir()
    with pytest.raises(OutputExistsError):
        og.johnson(graph, out=tmp_path / "there.zarr")
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(in_store.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DiskFullError, match=r"needs \d\d,\d\d\d bytes more"):
        og.johnson(graph, out=tmp_path / "d.zarr")
    assert not list(tmp_path.glob("d.zarr*"))
