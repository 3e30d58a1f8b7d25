"""The command ``validate``: right answers, broken ones, and what is no answer of the graph."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.digests import digest_of
from ooc_graph.layout.manifest import Manifest
from ooc_graph.runtime import stored_answers
from ooc_graph.validate.batch import batch_bytes
from tests.command_line import Ended, call

Call = Callable[..., Ended]
ROOTS = 30, 70


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def validated(*words: Any) -> Ended:
        return call(monkeypatch, capsys, "validate", "--quiet", *words)

    return validated


def built(path: Path, left_out: int | None = None, **options: Any) -> og.Graph:
    """A graph with gaps in its ids, self-loops and duplicates; perhaps without some last tuples."""
    rng = np.random.default_rng(8)
    ends = rng.integers(0, 90, (2, 400)) * 10
    weight = rng.integers(1, 6, 400).astype(np.float32) / 8
    given = (*ends[:, :left_out], weight[:left_out])
    return og.build(given, path, rows="both", device="cpu", **options)


def searched(graph: og.Graph, folder: Path) -> list[Path]:
    paths = []
    for kernel in ("bfs", "sssp"):
        for root in ROOTS:
            paths.append(folder / f"{kernel}-{root}.zarr")
            getattr(og, kernel)(graph, root, out=paths[-1], device="cpu")
    paths.append(folder / "components.zarr")
    og.components(graph, out=paths[-1])
    return paths


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Graph ``g``, its answers in ``a``; ``h``, which lacks some edges, and those in ``b``."""
    folder = tmp_path_factory.mktemp("graphs")
    for graph, answers, left_out in (("g", "a", None), ("h", "b", 370)):
        (folder / answers).mkdir()
        searched(built(folder / f"{graph}.zarr", left_out), folder / answers)
    return folder


@pytest.mark.parametrize(
    "options",
    [{}, {"directed": True}, {"shards": 4}, {"shards": 2, "compress": True, "directed": True}],
    ids=str,
)
def test_right_answers(options: dict[str, Any], validate: Call, tmp_path: Path) -> None:
    graph = built(tmp_path / "g.zarr", **options)
    paths = searched(graph, tmp_path)
    done = validate(graph.path, *paths)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [[str(path), "valid"] for path in paths]
    done = validate(graph.path, *paths, "--json")
    facts = json.loads(done.out)
    assert [fact["root"] for fact in facts] == [*ROOTS, *ROOTS, -1]
    reached = [int(og.Result.open(path).reached.sum()) for path in paths[:-1]]
    assert [fact["reached"] for fact in facts] == [*reached, graph.vertices]
    edges = {(u, v) for u, v in edges_of(graph)}
    assert facts[-1]["edges"] == len(edges)


def edges_of(graph: og.Graph) -> list[tuple[int, int]]:
    rng = np.random.default_rng(8)
    ends = rng.integers(0, 90, (2, 400)) * 10
    if not graph.directed:
        ends.sort(axis=0)
    return [(int(u), int(v)) for u, v in ends.T if u != v]


def relabelled(answer: Path, graph: Path, target: Path) -> Path:
    """Copy of an answer that says it is of another graph."""
    shutil.copytree(answer, target)
    text = (target / "zarr.json").read_text()
    facts = json.loads(text)["attributes"]["ooc_graph"]
    changed = text.replace(facts["graph_sha256"], og.open(graph).content_sha256)
    rewrite(target, "zarr.json", changed.encode())
    return target


def rewrite(store: Path, name: str, content: bytes, **facts: Any) -> None:
    """Change a file of a store, and what the manifest says of it."""
    manifest = Manifest.load(store)
    (store / name).write_bytes(content)
    changed_entry = replace(manifest.files[name], digest=digest_of(content), **facts)
    entries = manifest.files | {name: changed_entry}
    changed = Manifest.of(manifest.kind, entries.values())
    (store / "manifest.json").write_bytes(changed.encode())


def test_broken_answers(here: Path, validate: Call, tmp_path: Path) -> None:
    """Of a graph with fewer edges, as if they were of this one."""
    answers = sorted((here / "b").iterdir())
    paths = [relabelled(path, here / "g.zarr", tmp_path / path.name) for path in answers]
    done = validate(here / "g.zarr", *paths)
    assert done.code == 1
    broken = [line for line in done.out.splitlines() if " breaks rule '" in line]
    assert len(broken) >= 3
    assert done.err.splitlines() == [f"ooc-graph: {broken[0]}"]
    facts = json.loads(validate(here / "g.zarr", *paths, "--json").out)
    assert [fact["path"] for fact in facts if not fact["ok"]] == [
        line.partition(": ")[0] for line in broken
    ]
    good = here / "a" / "bfs-30.zarr"
    both = validate(here / "g.zarr", good, *paths).out.splitlines()
    assert both[0].startswith(f"{good}: valid: ")


def refused(done: Ended, *said: Any) -> None:
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    for text in said:
        assert str(text) in line


def test_what_is_no_answer_of_the_graph(here: Path, validate: Call, tmp_path: Path) -> None:
    graph, good = here / "g.zarr", here / "a" / "bfs-30.zarr"
    foreign = here / "b" / "sssp-30.zarr"
    refused(validate(graph, good, foreign), foreign, "another graph", "search again")
    refused(validate(graph, graph), graph, "holds a graph, a result is needed")
    refused(validate(graph, tmp_path / "none.zarr"), tmp_path / "none.zarr")
    refused(validate(good, good), good, "holds a result, a graph is needed")
    many = tmp_path / "many.zarr"
    og.multi_source_bfs(og.open(graph), [30], out=many)
    refused(validate(graph, many), many, "many sources")
    refused(validate(graph, good, "--memory-limit", "1KiB"), "bytes", "give more")


def harmed(folder: Path, harm: str = "damaged") -> Path:
    """A chunk below a folder that is no longer what was written."""
    chunk = next(path for path in sorted(folder.rglob("*")) if path.name == "0")
    content = bytearray(chunk.read_bytes())
    content[9] ^= 1
    if harm == "missing":
        chunk.unlink()
    else:
        chunk.write_bytes(content if harm == "damaged" else content[:-1])
    return chunk


@pytest.mark.parametrize("harm", ["a pipe", "a link to itself", "a long name"])
def test_names_that_lead_to_no_answer(
    harm: str, here: Path, validate: Call, tmp_path: Path
) -> None:
    answer = tmp_path / ("n" * 300 if harm == "a long name" else "n.zarr")
    if harm == "a pipe":
        answer.mkdir()
        os.mkfifo(answer / "manifest.json")
    elif harm == "a link to itself":
        answer.symlink_to(answer)
    good = here / "a" / "bfs-30.zarr"
    refused(validate(here / "g.zarr", good, answer), answer)


@pytest.mark.parametrize("change", ["root", "graph_sha256", "kernel"])
def test_attributes_of_no_answer(change: str, here: Path, validate: Call, tmp_path: Path) -> None:
    """Well written, so that no hash tells."""
    good = here / "a" / "bfs-30.zarr"
    answer = Path(shutil.copytree(good, tmp_path / "r.zarr"))
    for value in (None, "x"):
        document = json.loads((good / "zarr.json").read_text())
        facts = document["attributes"]["ooc_graph"]
        if value is None:
            del facts[change]
        else:
            facts[change] = value
        rewrite(answer, "zarr.json", content := json.dumps(document).encode(), size=len(content))
        refused(validate(here / "g.zarr", good, answer), answer)


@pytest.mark.parametrize("harm", ["damaged", "truncated", "missing"])
def test_harmed_answers(
    harm: str, here: Path, validate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tmp_path / "r.zarr"
    shutil.copytree(here / "a" / "sssp-70.zarr", answer)
    chunk, good = harmed(answer / "parent", harm), here / "a" / "bfs-30.zarr"
    refused(validate(here / "g.zarr", good, answer), chunk, "search again")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    refused(validate(here / "g.zarr", "../r.zarr"), chunk, "search again")


def test_answers_for_other_vertices(here: Path, validate: Call, tmp_path: Path) -> None:
    """Their other columns are right; of one the vertices are damaged, of one well written."""
    good = here / "a" / "bfs-30.zarr"
    answer = Path(shutil.copytree(good, tmp_path / "d.zarr"))
    chunk = harmed(answer / "vertex")
    refused(validate(here / "g.zarr", good, answer), chunk, "search again")
    answer = Path(shutil.copytree(good, tmp_path / "o.zarr"))
    vertex = og.BfsResult.open(good).vertex.copy()
    vertex[3] += 1
    data = vertex.tobytes() + bytes((answer / "vertex/c/0").stat().st_size - vertex.nbytes - 4)
    crc = google_crc32c.value(data)
    rewrite(answer, "vertex/c/0", data + crc.to_bytes(4, "little"), crc32c=crc)
    sidecar = next(
        name for name in Manifest.load(answer).files if "crc" in name and "vertex" in name
    )
    rewrite(answer, sidecar, crc.to_bytes(4, "little"))
    refused(validate(here / "g.zarr", good, answer), answer, "another graph")


def test_a_harmed_graph_is_no_harmed_answer(here: Path, validate: Call, tmp_path: Path) -> None:
    graph = Path(shutil.copytree(here / "g.zarr", tmp_path / "run.zarr"))
    answer = Path(shutil.copytree(here / "a" / "bfs-30.zarr", tmp_path / "run"))
    chunk = harmed(graph / "shards" / "00000" / "out" / "hub")
    done = validate(graph, answer)
    assert (done.code, done.out) == (1, "")
    assert str(chunk) in done.err


@pytest.mark.parametrize(
    ("kernel", "weight", "values"),
    [("bfs", "i8", "u4"), ("sssp", "i8", "i8"), ("sssp", "f4", "f4")],
)
def test_passes_follow_from_memory(kernel: str, weight: str, values: str) -> None:
    graph = og.from_edges(np.array([1]), np.array([2]), np.array([3], weight))
    with pytest.raises(MemoryBudgetError) as caught:
        stored_answers._most_at_once(graph, kernel, 0, 0, 2)
    for count in (1, 2, 5):
        alone, batch = (batch_bytes(graph.vertices, k, np.dtype(values)) for k in (1, count))
        limit = caught.value.least_bytes + batch - alone
        assert stored_answers._most_at_once(graph, kernel, 0, limit, 2) == count


def test_passes_one_by_one_find_the_same(
    here: Path, validate: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = sorted((here / "a").iterdir())
    together = validate(here / "g.zarr", *answers)
    monkeypatch.setattr(stored_answers, "_most_at_once", lambda *_: 1)
    assert validate(here / "g.zarr", *answers) == together
