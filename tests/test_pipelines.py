"""The pipelines as cron would call them, on the TLS cluster of ``deploy/local`` or their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from tests.command_line import LIMIT_S, REPOSITORY, listing, running, script

pytest.importorskip("cryptography", reason="certificates need cryptography: ooc-graph[tls]")

CLUSTER = REPOSITORY / "deploy" / "local" / "cluster.py"
GRAPH500 = REPOSITORY / "pipelines" / "graph500.py"
OWN_GRAPH = REPOSITORY / "pipelines" / "own_graph.py"
SCALE, SEARCHES = 10, 3


@pytest.fixture(scope="module")
def joining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Arguments that join a running TLS cluster of two workers."""
    folder = tmp_path_factory.mktemp("deploy") / "cluster"
    started = script(CLUSTER, "start", "--folder", folder, "--workers", 2)
    try:
        assert started.code == 0, started
        yield started.out.split()
    finally:
        script(CLUSTER, "stop", "--folder", folder)


def graph500(folder: Path, scale: int = SCALE) -> list[str]:
    words = ["--scale", scale, "--searches", SEARCHES, "--kernels", "bfs", "--folder", folder]
    return [str(word) for word in (GRAPH500, *words)]


def check_graph500(folder: Path, scale: int) -> None:
    """Sums, notes and answers are of the graph that is there."""
    sums = json.loads((folder / "summary.json").read_text())
    assert sums["bfs"]["searches"] == SEARCHES
    assert sums["bfs"]["harmonic_mean_teps"] > 0
    source = og.Kronecker(scale, weighted=False)
    graph = og.open(folder / "graph.zarr")
    assert graph.attributes["source"] == source.describe()
    for key in source.search_keys(SEARCHES).tolist():
        result = og.Result.open(folder / "bfs" / f"{key}.zarr")
        note = json.loads((folder / "bfs" / f"{key}.json").read_text())
        assert note["graph_sha256"] == graph.identity
        assert og.validate(result, source).edges == note["edges"]


def stores(folder: Path) -> dict[str, str]:
    """What a second run must leave as it is."""
    kept = listing(folder)
    return {name: kept[name] for name in kept if ".zarr" in name or name.endswith(".csv")}


def test_graph500_on_tls_twice_and_of_other_parameters(joining: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = script(*graph500(folder), *joining)
    assert first.code == 0, first
    check_graph500(folder, SCALE)

    before = stores(folder)
    # Nothing is left to do, so nobody is asked to do it: this scheduler does not exist.
    again = script(*graph500(folder), "--scheduler", "tcp://127.0.0.1:1")
    assert again.code == 0, again
    assert again.out.count("finished already, skipped") == 1 + SEARCHES
    assert stores(folder) == before

    # Other parameters replace what follows from them, if they may.
    other = script(*graph500(folder, SCALE + 1), *joining)
    assert other.code == 2
    assert other.err.startswith("graph500.py: ")
    assert "scale" in other.err
    assert "--overwrite" in other.err
    assert len(other.err.splitlines()) == 1
    assert stores(folder) == before
    done = script(*graph500(folder, SCALE + 1), *joining, "--overwrite")
    assert done.code == 0, done
    check_graph500(folder, SCALE + 1)


def test_own_graph_on_tls_twice(joining: list[str], tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("10 20 4\n20 30 1\n10 30 7\n30 40 2\n")
    folder = tmp_path / "run"
    words = [OWN_GRAPH, edges, "--source", 10, "--source", 30, "--folder", folder, *joining]
    first = script(*words)
    assert first.code == 0, first
    text = np.genfromtxt(folder / "sssp-10.csv", delimiter=",", names=True, dtype=np.int64)
    assert text["vertex"].tolist() == [10, 20, 30, 40]
    assert text["distance"].tolist() == [0, 4, 5, 7]
    assert text["parent"].tolist() == [10, 10, 20, 30]

    before = stores(folder)
    again = script(*words)
    assert again.code == 0, again
    assert again.out.count("finished already, skipped") == 1 + 4
    assert stores(folder) == before

    # An export that is gone is written anew from the stored answer.
    (folder / "bfs-30.csv").unlink()
    assert script(*words).code == 0
    assert stores(folder) == before


def edges_file(folder: Path, text: str = "10 20 4\n20 30 1\n10 30 7\n30 40 2\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "edges.txt").write_text(text)
    return folder / "edges.txt"


CHANGED = "10 20 4\n20 30 2\n30 50 9\n"


def own_graph(edges: Path, folder: Path, *more: Any) -> list[Any]:
    return [OWN_GRAPH, edges, "--source", 10, "--folder", folder, *more]


def finished(folder: Path) -> dict[str, str]:
    """All that follows from the input alone."""
    kept = listing(folder)
    return {name: kept[name] for name in kept if not name.endswith(("run.json", "partial"))}


def test_changed_input_is_built_searched_and_exported_again(
    joining: list[str], tmp_path: Path
) -> None:
    edges, folder = edges_file(tmp_path / "in"), tmp_path / "run"
    words = own_graph(edges, folder, *joining)
    assert script(*words).code == 0
    before = finished(folder)
    edges_file(tmp_path / "in", CHANGED)
    changed = script(*words)
    assert changed.code == 0, changed
    assert f"build {folder / 'graph.zarr'}: edges.txt changed, built again" in changed.out
    assert script(*own_graph(edges, tmp_path / "anew", *joining)).code == 0
    assert finished(folder) == finished(tmp_path / "anew") != before
    again = script(*words)
    assert again.out.count("finished already, skipped") == 3
    # Another format's export does not stand for this one's.
    edges_file(tmp_path / "in")
    assert script(*words, "--export", "tsv").code == 0
    assert script(*words).code == 0
    assert before.items() <= finished(folder).items()


def test_a_file_more_in_a_folder_is_changed_input(joining: list[str], tmp_path: Path) -> None:
    edges_file(tmp_path / "in")
    words = own_graph(tmp_path / "in", tmp_path / "run", "--format", "edgelist", *joining)
    assert script(*words).code == 0
    (tmp_path / "in" / "more.txt").write_text("50 10 1\n")
    changed = script(*words)
    assert changed.code == 0, changed
    assert "more.txt changed, built again" in changed.out
    graph = og.open(tmp_path / "run" / "graph.zarr")
    assert [file["name"] for file in graph.attributes["source"]["files"]] == [
        "edges.txt",
        "more.txt",
    ]


@pytest.mark.parametrize(("other", "said"), [("--no-directed", "directed"), ("", "edges.txt")])
def test_a_graph_of_something_else_is_refused_or_replaced(
    other: str, said: str, joining: list[str], tmp_path: Path
) -> None:
    folder, edges = tmp_path / "run", edges_file(tmp_path / "in")
    assert script(*own_graph(edges, folder, *joining)).code == 0
    before = finished(folder)
    # A file of the same name stands for something else as well.
    more, edges = ([other], edges) if other else ([], edges_file(tmp_path / "other", CHANGED))
    words = own_graph(edges, folder, *more, *joining)
    refused = script(*words)
    assert refused.code == 2
    assert said in refused.err
    assert "--overwrite" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert finished(folder) == before
    replaced = script(*words, "--overwrite")
    assert replaced.code == 0, replaced
    assert script(*own_graph(edges, tmp_path / "anew", *more, *joining)).code == 0
    assert finished(folder) == finished(tmp_path / "anew") != before
    # Nothing is done twice.
    assert script(*words, "--overwrite").out.count("finished already, skipped") == 3


def killed(steps: int, *words: Any) -> bool:
    """Whether there are so many steps, after which a script was killed."""
    done = script("-m", "tests.dying", steps, *words, cwd=REPOSITORY)
    assert done.code in {0, -signal.SIGKILL}, done
    return done.code != 0


# Each in its turn takes minutes.
every = pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])


@every
def test_killed_after_each_step_of_doing_it_again(
    every: int, joining: list[str], tmp_path: Path
) -> None:
    former, latter = "1 2\n2 3\n", "1 2\n1 3\n3 4\n"
    edges, folder, kept = edges_file(tmp_path / "in", former), tmp_path / "run", tmp_path / "kept"
    words = [OWN_GRAPH, edges, "--source", 1, "--folder", folder, *joining]
    right: dict[str, dict[str, str]] = {}
    for text in (latter, former):
        shutil.rmtree(folder, ignore_errors=True)
        edges.write_text(text)
        assert script(*words).code == 0
        right[text] = finished(folder)
    shutil.copytree(folder, kept)

    def is_killed(steps: int) -> bool:
        """From the finished folder on, with other edges."""
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        edges.write_text(latter)
        return killed(steps, *words)

    steps = 1
    while is_killed(steps):
        assert script(*words).code == 0
        assert finished(folder) == right[latter]
        # The edges may also be the former ones again.
        assert is_killed(steps)
        edges.write_text(former)
        assert script(*words).code == 0
        assert finished(folder) == right[former]
        steps += every
    # At least the graph, its answer, the former note, the file and its note.
    assert steps - 1 >= 5


@every
def test_killed_after_each_step_of_replacing_it(
    every: int, joining: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    assert script(*graph500(folder), *joining).code == 0
    words = [*graph500(folder, SCALE + 1), *joining, "--overwrite"]
    # What is asked for, the graph, the former sums, and each search with its note.
    for steps in range(1, 3 + 2 * SEARCHES, every):
        shutil.copytree(folder, tmp_path / "kept", dirs_exist_ok=True)
        assert killed(steps, *words)
        assert script(*words).code == 0
        check_graph500(folder, SCALE + 1)
        shutil.rmtree(folder)
        (tmp_path / "kept").rename(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_while_building_then_run_again(
    number: int, joining: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    words = [*graph500(folder, 16), *joining]
    with running(words) as process:
        assert process.stdout is not None
        assert "begun" in process.stdout.readline()
        while not list(folder.glob("graph.zarr.partial-*")):
            assert process.poll() is None, process.communicate()
            # Who sleeps is woken sooner on a busy machine than who runs all the time.
            time.sleep(0.002)
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT_S)
    assert "Traceback" not in err
    assert process.returncode == (143 if number == signal.SIGTERM else -signal.SIGKILL)
    assert not (folder / "graph.zarr").exists()
    if number == signal.SIGTERM:
        # What was finished of the graph stays for the next run.
        kept = [name for name in listing(folder) if not name.startswith("graph.zarr.partial-")]
        assert kept == ["job.json"]
    again = script(*words)
    assert again.code == 0, again
    assert not list(folder.glob("*.partial*"))
    assert len(list((folder / "bfs").glob("*.zarr"))) == SEARCHES


def test_stopped_between_searches_then_run_again(joining: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = [*graph500(folder), *joining]
    first, second, _ = og.Kronecker(SCALE, weighted=False).search_keys(SEARCHES).tolist()
    # Whoever opens it to write waits for a reader: the run comes as far as this note.
    held = folder / "bfs" / f"{second}.partial"
    held.parent.mkdir(parents=True)
    os.mkfifo(held)
    with running(words) as process:
        while not (folder / "bfs" / f"{second}.zarr").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=LIMIT_S)
    held.unlink()
    assert [path.stem for path in folder.glob("bfs/*.json")] == [str(first)]
    again = script(*words)
    assert again.code == 0, again
    assert again.out.count("finished already, skipped") == 1 + 1
    assert json.loads((folder / "summary.json").read_text())["bfs"]["searches"] == SEARCHES


def test_own_cluster(tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("1 2\n2 3\n")
    folder = tmp_path / "run"
    words = [OWN_GRAPH, edges, "--source", 1, "--folder", folder, "--workers", 2]
    done = script(*words)
    assert done.code == 0, done
    assert (folder / "bfs-1.csv").read_text().splitlines()[1:] == ["1,1,0", "2,1,1", "3,2,2"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["none.txt", "--source", 1], 2, "none.txt"),
        (["edges.txt", "--source", 9], 2, "vertex 9"),
        (["edges.txt", "--source", "x"], 2, "--source"),
        (
            ["edges.txt", "--source", 1, "--scheduler", "tls://127.0.0.1:1", "--tls", "a"],
            2,
            "--tls",
        ),
    ],
)
def test_refusals(words: list[object], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n")
    og.build(tmp_path / "edges.txt", tmp_path / "graph.zarr")
    before = stores(tmp_path)
    done = script(OWN_GRAPH, *words, "--folder", ".", cwd=tmp_path)
    assert done.code == code, done
    assert said in done.err
    assert "Traceback" not in done.err
    assert stores(tmp_path) == before


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_worth_a_retry(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("1 2\n2 3\n")
    words = [tmp_path / "edges.txt", "--source", 1, "--folder", tmp_path / "run"]
    done = script(OWN_GRAPH, *words, "--scheduler", "tcp://127.0.0.1:1")
    assert done.code == 75
    assert done.err.splitlines()[-1].startswith("own_graph.py: ")
    assert "Traceback" not in done.err
