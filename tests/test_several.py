"""Searches from several sources: a folder of the stores that as many calls write."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, get_task_stream

import ooc_graph as og
from ooc_graph.errors import (
    CorruptStoreError,
    InputError,
    OutputExistsError,
    UnknownVertexError,
    UsageError,
)
from ooc_graph.graph500.job import graph500
from ooc_graph.graph500.run import Graph500Options
from ooc_graph.layout.linked import link_array
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.search import several
from ooc_graph.types import NoProgress
from tests.command_line import LIMIT_S, call, listing, running

EDGES = og.Kronecker(12, edge_factor=4)
KEYS = EDGES.search_keys(12)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.build(EDGES, tmp_path_factory.mktemp("several") / "g.zarr", shards=2)


def stores(folder: Path) -> dict[str, int]:
    """Stores of a folder, and their inodes: another one has another."""
    return {path.name: path.stat().st_ino for path in folder.glob("*.zarr")}


def until(met: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while not met():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_bytes_are_those_of_one_search_after_the_other(
    graph: og.Graph, cluster: Client, tmp_path: Path, kernel: str
) -> None:
    search = getattr(og, kernel)
    for key in KEYS.tolist():
        search(graph, key, out=tmp_path / f"{key}.zarr")
    expected = {f"{key}.zarr": listing(tmp_path / f"{key}.zarr") for key in KEYS.tolist()}
    ways: dict[str, dict[str, Any]] = {
        "alone": {},
        "dealt": {"client": cluster},
        "ranks": {"client": cluster, "exchange": "scheduler"},
        "edges": {"client": cluster, "method": "edges"},
    }
    for name, options in ways.items():
        answers = search(graph, KEYS, out=tmp_path / name, **options)
        found = {path.name: listing(path) for path in (tmp_path / name).glob("*.zarr")}
        assert found == expected, name
        assert [answer.root for answer in answers] == KEYS.tolist()
        assert all(answer.elapsed_s > 0 for answer in answers[-3:])
        assert not list((tmp_path / name).glob("spill/attempt-*"))
    assert not list(tmp_path.glob("*.lock"))


def test_answers_share_their_vertices(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder has them once if its file system can give a file two names."""
    given: dict[str, Any] = {"client": False}
    once = og.bfs(graph, KEYS, out=tmp_path / "once", **given)
    expected = [listing(one.columns.path) for one in once]
    assert len(vertex_files(once.folder)) == 1
    # A second run of the process shares them too, but not those of another graph's answer.
    foreign = og.build((np.array([7]), np.array([9])), tmp_path / "f.zarr", device="cpu")
    og.bfs(foreign, 7, out=once.folder / "7.zarr", **given)
    later = og.bfs(graph, EDGES.search_keys(14)[12:], out=once.folder, **given)
    assert len(vertex_files(once.folder)) == 2
    for answer in later:
        np.testing.assert_array_equal(answer.vertex, once[0].vertex)

    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    answers = og.bfs(graph, KEYS, out=tmp_path / "each", **given)
    assert [listing(one.columns.path) for one in answers] == expected
    assert len(vertex_files(answers.folder)) == len(KEYS)


@pytest.mark.parametrize("harm", ["another dtype", "truncated", "changed end", "removed"])
def test_harmed_files_are_not_shared(graph: og.Graph, tmp_path: Path, harm: str) -> None:
    answer = og.bfs(graph, int(KEYS[0]), out=tmp_path / "a.zarr")
    stored: Any = answer.columns
    spec, file = stored.spec("vertex"), tmp_path / "a.zarr/vertex/c/0"
    (tmp_path / "whole").mkdir()
    (entry,) = link_array(stored, spec, tmp_path / "whole")
    assert entry.sidecar == tuple(stored.sidecar("vertex").tolist())
    content = file.read_bytes()
    if harm == "another dtype":
        spec = replace(spec, dtype=np.dtype(np.uint64))
    elif harm == "removed":
        file.unlink()
    else:
        file.write_bytes(content[:-8] if harm == "truncated" else content[:-1] + b"?")
    (tmp_path / "p").mkdir()
    assert link_array(stored, spec, tmp_path / "p") == []
    assert not [path for path in (tmp_path / "p").rglob("*") if path.is_file()]


def vertex_files(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.glob("*.zarr/vertex/c/0")}


def test_a_list_needs_a_folder(graph: og.Graph) -> None:
    for options in ({}, {"into": {}, "out": "x"}, {"arrays": "cupy", "out": "x"}):
        with pytest.raises(UsageError, match="several sources: give out=, a folder"):
            og.bfs(graph, [1, 2], **options)


@pytest.mark.parametrize(
    ("sources", "error", "said"),
    [
        ([], InputError, "no sources are given"),
        ([int(KEYS[0])] * 2, InputError, "given twice"),
        ([int(KEYS[0]), 1 << 40], UnknownVertexError, "is not in "),
        (np.array([[1, 2]]), UsageError, "give a list of vertex ids"),
        ([0.5], UsageError, "give a list of vertex ids"),
        ([int(KEYS[0]), True], UsageError, "give a list of vertex ids"),
    ],
)
def test_bad_sources_are_refused(
    graph: og.Graph, tmp_path: Path, sources: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        og.bfs(graph, sources, out=tmp_path / "all")
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_already_is_not_searched_again(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []

    def counting(_: Any, __: str, root: int, **options: Any) -> Any:
        if len(searched) == 5:
            raise KeyboardInterrupt
        searched.append(root)
        return search(_, __, root, **options)

    search = several.search
    monkeypatch.setattr(several, "search", counting)
    with pytest.raises(KeyboardInterrupt):
        og.bfs(graph, KEYS, out=tmp_path / "all", client=False)
    first = stores(tmp_path / "all")
    assert sorted(first) == sorted(f"{key}.zarr" for key in KEYS[:5].tolist())
    monkeypatch.setattr(several, "search", search)
    answers = og.bfs(graph, KEYS, out=tmp_path / "all", client=False)
    assert first.items() <= stores(tmp_path / "all").items()
    assert len(stores(tmp_path / "all")) == len(KEYS)
    assert [answer.elapsed_s is None for answer in answers] == [True] * 5 + [False] * 7


def test_a_folder_of_something_else_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    full, one, all_of_them = tmp_path / "full", tmp_path / "one.zarr", tmp_path / "all"
    full.mkdir()
    (full / "mine").touch()
    og.bfs(graph, int(KEYS[0]), out=one)
    og.bfs(graph, KEYS[:2], out=all_of_them)
    other = og.build(og.Kronecker(10), tmp_path / "other.zarr")
    keys = og.Kronecker(10).search_keys(2)
    refused: list[tuple[Any, Path, str]] = [
        (lambda out: og.bfs(graph, KEYS, out=out), full, "is no folder of stores that may be"),
        (lambda out: og.bfs(graph, KEYS, out=out, overwrite=True), full, "is no folder of stores"),
        (lambda out: og.bfs(graph, KEYS, out=out), full / "mine", "is no folder of stores"),
        (lambda out: og.bfs(graph, KEYS, out=out), one, "is a store, not a folder of stores"),
        (lambda out: og.bfs(graph, KEYS, out=out), one / "x", "lies inside the store"),
        (lambda out: og.sssp(graph, KEYS, out=out), all_of_them, "begun with another kernel; give"),
        (lambda out: og.bfs(other, keys, out=out), all_of_them, "begun with another graph; give"),
    ]
    before = listing(tmp_path)
    for call_with, out, said in refused:
        with pytest.raises(OutputExistsError, match=said):
            call_with(out)
    assert listing(tmp_path) == before
    answers = og.bfs(other, keys, out=all_of_them, overwrite=True)
    assert sorted(stores(all_of_them)) == sorted(f"{key}.zarr" for key in keys.tolist())
    assert answers[0].level.max() > 0
    # Half of a store, as a copy leaves it that was stopped.
    (all_of_them / f"{keys[0]}.zarr" / "manifest.json").unlink()
    with pytest.raises(
        OutputExistsError, match=rf"{keys[0]}\.zarr: is not a store of this package"
    ):
        og.bfs(other, keys, out=all_of_them)


def test_a_folder_whose_key_is_missing_is_damaged(graph: og.Graph, tmp_path: Path) -> None:
    out = tmp_path / "all"
    og.bfs(graph, KEYS[:2], out=out)
    (out / "spill" / "key").unlink()
    before = listing(out)
    with pytest.raises(CorruptStoreError, match="all/spill/key: is missing, so that nobody"):
        og.bfs(graph, KEYS[:2], out=out)
    assert listing(out) == before


def test_the_command_continues_after_a_kill(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    sources, out = tmp_path / "sources.txt", tmp_path / "all"
    keys = EDGES.search_keys(120)
    sources.write_text("# keys\n" + "".join(f"{key}\n" for key in keys.tolist()))
    words = "sssp", graph.path, "--sources-file", sources, "--out", out
    with running(["-m", "ooc_graph", *words]) as process:
        until(lambda: len(stores(out)) > 2)
        process.kill()
        process.wait(LIMIT_S)
    first = stores(out)
    assert len(first) < len(keys)
    ended = call(monkeypatch, capsys, *words)
    assert ended.code == 0
    assert f"sssp from {len(keys)} sources in " in ended.out
    assert first.items() <= stores(out).items()
    assert len(stores(out)) == len(keys)
    assert not list(out.glob("spill/attempt-*"))
    assert {path.name for path in tmp_path.iterdir()} == {"sources.txt", "all"}


def test_a_bad_line_of_a_file_of_sources_is_named(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    sources, out = tmp_path / "sources.txt", tmp_path / "all"
    sources.write_text(f"{KEYS[0]}\n\nseven\n")
    ended = call(monkeypatch, capsys, "bfs", graph.path, "--sources-file", sources, "--out", out)
    assert ended.code == 2
    assert f"{sources}:3: 'seven' is no vertex id" in ended.err
    assert not out.exists()


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_command_takes_one_kind_of_source(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, kernel: str
) -> None:
    for words in ([], ["--source", 1, "--sources-file", tmp_path / "s"]):
        ended = call(monkeypatch, capsys, kernel, graph.path, "--out", tmp_path / "r", *words)
        assert ended.code == 2
        assert "give --source V, " in ended.err


def test_a_killed_worker_loses_no_answer_that_is_written(tmp_path: Path) -> None:
    edges = og.Kronecker(14)
    graph, keys, out = (
        og.build(edges, tmp_path / "g.zarr"),
        edges.search_keys(80),
        tmp_path / "all",
    )
    first: dict[str, int] = {}
    with local_cluster(2) as client:
        (victim, *_) = client.run(os.getpid).values()

        def kill() -> None:
            until(lambda: len(stores(out)) > 3)
            first.update(stores(out))
            os.kill(victim, signal.SIGKILL)

        killing = threading.Thread(target=kill)
        killing.start()
        answers = og.bfs(graph, keys, out=out, client=client)
        killing.join()
    assert 3 < len(first) < len(keys)
    assert first.items() <= stores(out).items()
    for at in (0, 40, 79):
        assert np.array_equal(answers[at].parent, og.bfs(graph, int(keys[at])).parent)
    assert len(stores(out)) == len(keys)
    assert not list(out.glob("spill/attempt-*"))


def test_the_keys_of_graph500_are_dealt_to_the_workers(cluster: Client, tmp_path: Path) -> None:
    said = {}
    for name, client in (("alone", None), ("dealt", cluster)):
        with get_task_stream(cluster) as tasks:
            outcome = graph500(
                Graph500Options(12, searches=9, energy=False),
                tmp_path / name,
                client=client,
                memory_limit_bytes=None,
                device="cpu",
                progress=NoProgress(),
                overwrite=False,
            )
        assert outcome.failure is None
        (record,) = (tmp_path / name / "records.jsonl").read_text().splitlines()
        facts = "kernel", "root", "edges", "reached"
        said[name] = [tuple(map(one.get, facts)) for one in json.loads(record)["searches"]]
    searching = {task["worker"] for task in tasks.data if "-search-dealt-" in task["key"]}
    assert len(searching) == 2
    assert said["dealt"] == said["alone"]


def test_a_folder_whose_first_run_wrote_no_key_is_taken(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "out" / "spill" / "attempt-1-removed").mkdir(parents=True)
    answers = og.bfs(graph, KEYS[:2], out=tmp_path / "out")
    assert sorted(stores(tmp_path / "out")) == sorted(f"{key}.zarr" for key in KEYS[:2])
    assert [verdict.ok for verdict in og.validate(graph, answers)] == [True, True]
