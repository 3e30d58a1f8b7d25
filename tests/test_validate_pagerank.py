"""Stored and other PageRank against its graph: commands and calls, within limits, real graphs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError, UsageError, ValidationFailedError
from ooc_graph.kernels.cpu.pagerank.rank import LoadedArcs
from tests.command_line import Ended, call
from tests.test_validate_command import rewrite

ASKED: list[dict[str, Any]] = [
    {"tol": 1e-12, "max_iter": 300},
    {"weight": False, "personalization": {30: 2, 70: 1}, "dangling": {50: 1}},
    {"iterations": 5, "personalization": {30: 1}},
]


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Ids have gaps; there are loops, duplicates, and vertices without out-arcs, or any."""
    draw = np.random.default_rng(8)
    ends = draw.integers(1, 90, (2, 300)) * 10
    ends[0, ends[0] % 70 == 0] = 30
    ends = np.c_[ends, [[920], [920]]]
    given = (*ends, draw.integers(0, 6, ends.shape[1]) / 8)
    path = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(given, path, directed=request.param, shards=2, device="cpu")


ONE = pytest.mark.parametrize("graph", [False], ids=["undirected"], indirect=True)
"""For what does not depend on the way of the arcs."""


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def validated(*words: Any) -> Ended:
        return call(monkeypatch, capsys, "validate", "--quiet", *words)

    return validated


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_right_ones_in_memory_and_stored(
    asked: dict[str, Any], graph: og.Graph, validate: Callable[..., Ended], tmp_path: Path
) -> None:
    path = tmp_path / "r.zarr"
    answer, stored = og.pagerank(graph, **asked), og.pagerank(graph, out=path, **asked)
    assert answer.asked == og.PagerankResult.open(path).asked == stored.asked
    (verdict,) = og.validate(graph, answer)
    assert og.validate(graph, [path, answer]) == [verdict, verdict]
    true = og.pagerank(graph, **{"max_iter": 999, **asked, "tol": 1e-15, "iterations": None})
    distance = np.abs(answer.pagerank - true.pagerank).sum()
    assert distance <= verdict.error_bound < 2
    done = validate(graph.path, path)
    text = f"valid: {graph.vertices} vertices, {verdict.edges} edges; "
    text += f"L1 distance from the true ranks at most {verdict.error_bound:g}"
    assert (done.code, done.out) == (0, f"{path}: {text}\n")
    (fact,) = json.loads(validate(graph.path, path, "--json").out)
    assert fact["error_bound"] == verdict.error_bound


@ONE
def test_the_least_memory_is_enough(graph: og.Graph) -> None:
    answer = og.pagerank(graph)
    with pytest.raises(MemoryBudgetError, match="validating pagerank needs") as caught:
        og.validate(graph, answer, memory_limit=1 << 10)
    least: Any = caught.value.least_bytes
    with pytest.raises(MemoryBudgetError):
        og.validate(graph, answer, memory_limit=least - 1)
    assert og.validate(graph, answer, memory_limit=least)[0].ok
    listed = og.pagerank(graph, personalization={30: 1, 70: 1}, dangling={50: 1})
    with pytest.raises(MemoryBudgetError) as caught:
        og.validate(graph, listed, memory_limit=least)
    assert caught.value.least_bytes == least + 3 * 24


def test_a_graph_without_arcs(tmp_path: Path) -> None:
    """Each iteration finds the same; those that were asked for count as done."""
    loops = np.array([10, 20]), np.array([10, 20])
    graph = og.build(loops, tmp_path / "g.zarr", device="cpu")
    answer = og.pagerank(graph, iterations=5, personalization={20: 1})
    assert (answer.asked.iterations, answer.pagerank.tolist()) == (5, [0, 1])
    assert og.validate(graph, answer)[0].ok


@ONE
def test_columns_may_be_lists(graph: og.Graph) -> None:
    answer = og.pagerank(graph)
    lists = {name: answer.read(name).tolist() for name in answer.names}
    assert og.validate(graph, replace(answer, columns=lists)) == og.validate(graph, answer)


def test_one_of_another_graph_with_the_same_vertices(graph: og.Graph, tmp_path: Path) -> None:
    answer = og.pagerank(graph, tol=1e-12, max_iter=300)
    ids = answer.vertex
    edges = ids, np.roll(ids, 1), np.ones(len(ids))
    other = og.build(edges, tmp_path / "g.zarr", directed=graph.directed, device="cpu")
    with pytest.raises(ValidationFailedError, match="rule 'change by another iteration'"):
        og.validate(other, answer)


def test_a_defect_of_the_ranking_is_noticed(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its step takes scores from other neighbours; they sum to 1 all the same."""
    right = LoadedArcs.parts

    def parts(self: LoadedArcs) -> Iterator[Any]:
        for first, neighbors, weights in right(self):
            yield first, neighbors[::-1].copy(), weights

    monkeypatch.setattr(LoadedArcs, "parts", parts)
    for asked in ({"tol": 1e-12, "max_iter": 300}, {"iterations": 5}):
        answer = og.pagerank(graph, weight=False, client=False, **asked)
        assert answer.pagerank.sum() == pytest.approx(1)
        with pytest.raises(ValidationFailedError, match="the PageRank breaks rule"):
            og.validate(graph, answer)


def with_attributes(answer: Path, target: Path, **changed: Any) -> Path:
    """Copy of a stored answer with other attributes, or without those that are None."""
    shutil.copytree(answer, target)
    document = json.loads((answer / "zarr.json").read_text())
    facts = document["attributes"]["ooc_graph"] | changed
    gone = [name for name, value in changed.items() if value is ...]
    document["attributes"]["ooc_graph"] = {k: v for k, v in facts.items() if k not in gone}
    content = json.dumps(document).encode()
    rewrite(target, "zarr.json", content, size=len(content))
    return target


def with_values(answer: Path, array: str, values: Any) -> None:
    """Give an array of a stored answer other values, with all hashes: as a defect would."""
    chunk = answer / array / "c/0"
    data = values.tobytes() + bytes(chunk.stat().st_size - values.nbytes - 4)
    crc = google_crc32c.value(data)
    rewrite(answer, f"{array}/c/0", data + crc.to_bytes(4, "little"), crc32c=crc)
    rewrite(answer, f"integrity/{array}.crc32c", crc.to_bytes(4, "little"))


NO_ANSWER = "what its attributes say was asked makes no sense; rank again"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"tol": ...}, "does not say what was asked; rank again to validate"),
    ({"tol": "x"}, NO_ANSWER),
    ({"tol": -1.0}, NO_ANSWER),
    ({"tol": float("inf")}, NO_ANSWER),
    ({"alpha": 2.0}, NO_ANSWER),
    ({"alpha": float("nan")}, NO_ANSWER),
    ({"iterations": 0}, NO_ANSWER),
    ({"iterations": 10**400}, NO_ANSWER),
    ({"weighted": 1}, NO_ANSWER),
    ({"personalization": 3}, NO_ANSWER),
    ({"personalization": [[30], [1.0]]}, NO_ANSWER),
    ({"dangling": 1}, "its manifest has no dangling_vertex/zarr.json; restore the file, or build"),
]


@ONE
def test_what_was_asked_must_be_known(
    graph: og.Graph, validate: Callable[..., Ended], tmp_path: Path
) -> None:
    answer = tmp_path / "r.zarr"
    og.pagerank(graph, out=answer, personalization={30: 1, 70: 3})
    for number, (changed, said) in enumerate(BAD):
        bad = with_attributes(answer, tmp_path / f"{number}.zarr", **changed)
        done = validate(graph.path, bad)
        assert done.code == 2, changed
        assert done.err.startswith(f"ooc-graph: {bad}: {said}"), changed
    lied = with_attributes(answer, tmp_path / "l.zarr", alpha=0.5)
    done = validate(graph.path, answer, lied)
    assert (done.code, len(done.out.splitlines())) == (1, 2)
    assert f"{lied}: breaks rule 'change by another iteration': all scores" in done.err
    assert "; L1 distance from the true ranks at most " in done.err
    with_values(answer, "personalization_vertex", np.array([31, 70]))
    done = validate(graph.path, answer)
    said = f"{answer}: personalization names vertex 31, which the graph does not have\n"
    assert (done.code, done.err) == (2, f"ooc-graph: {said}")


@ONE
def test_a_stored_score_that_was_changed(
    graph: og.Graph, validate: Callable[..., Ended], tmp_path: Path
) -> None:
    answer = tmp_path / "r.zarr"
    score = og.pagerank(graph, iterations=5, out=answer).pagerank.copy()
    score[[3, 9]] += 1e-9, -1e-9
    with_values(answer, "pagerank", score)
    done = validate(graph.path, answer)
    assert done.code == 1
    assert "breaks rule 'scores of as many iterations': vertex " in done.out


@ONE
def test_edges_as_read_are_no_graph(graph: og.Graph) -> None:
    with pytest.raises(UsageError, match="PageRank counts it once"):
        og.validate(og.pagerank(graph), (np.array([10]), np.array([20])))
