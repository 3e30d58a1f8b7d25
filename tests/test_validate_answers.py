"""`ooc_graph.validate` of answers and their graph: in memory and stored, here and on workers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.errors import (
    CorruptStoreError,
    InputError,
    MemoryBudgetError,
    UsageError,
    ValidationFailedError,
)
from ooc_graph.runtime import stored_answers
from tests.said import Said

ROOTS = 30, 70


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with og.local_cluster(2) as client:
        yield client


def tuples() -> tuple[Any, ...]:
    """Ids have gaps; there are self-loops and duplicates."""
    rng = np.random.default_rng(8)
    source, target = rng.integers(0, 90, (2, 400)) * 10
    return source, target, rng.integers(1, 6, 400).astype(np.float32) / 8


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    folder = tmp_path_factory.mktemp("graph")
    return og.build(tuples(), folder / "g.zarr", directed=request.param, device="cpu")


@pytest.fixture(scope="module")
def answers(graph: og.Graph) -> list[og.Result | Path]:
    """Of each kernel, in memory and stored, in no order of kernels."""
    folder, found = graph.path.parent, list[og.Result | Path]()
    for root in ROOTS:
        found += [og.bfs(graph, root, device="cpu"), og.sssp(graph, root, device="cpu")]
    for root in ROOTS:
        og.bfs(graph, root, out=folder / f"bfs-{root}.zarr", device="cpu")
        found.append(folder / f"bfs-{root}.zarr")
    return [*found, og.components(graph), og.pagerank(graph, personalization={30: 1, 70: 3})]


def wrong(answer: Any) -> Any:
    """The same tree with a level that no parent has."""
    level = answer.level.copy()
    level[np.flatnonzero(level > 0)[3]] += 5
    return replace(answer, columns={**answer.columns, "level": level})


@pytest.mark.parametrize("where", ["here", "on workers"])
def test_verdicts_come_in_the_order_of_the_answers(
    where: str,
    graph: og.Graph,
    answers: list[Any],
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}
    if where == "on workers":
        # Workers have the function as it is.
        monkeypatch.setattr(stored_answers, "check_together", None)
        given = {"client": client}
    verdicts = og.validate(graph, answers, **given)
    assert [one.root for one in verdicts] == [30, 30, 70, 70, 30, 70, -1, -1]
    results = [one if isinstance(one, og.Result) else og.Result.open(one) for one in answers]
    reached = [int(one.reached.sum()) for one in results[:-2]]
    assert [one.reached for one in verdicts] == [*reached, graph.vertices, graph.vertices]
    assert all(one.ok for one in verdicts)
    assert og.validate(str(graph.path), answers[0], **given) == verdicts[:1]
    assert og.validate(graph, [], **given) == []
    with pytest.raises(
        ValidationFailedError, match=r"BfsResult.*: answer of root 70 breaks rule 'level of parent'"
    ):
        og.validate(graph, [answers[0], wrong(answers[2])], **given)


def test_a_graph_in_memory(client: Client) -> None:
    graph = og.from_edges(*tuples(), directed=False)
    answer = og.sssp(graph, 30)
    (verdict,) = og.validate(graph, answer)
    assert (verdict.root, verdict.ok) == (30, True)
    assert verdict.reached == og.validate(answer, tuples(), directed=False).reached
    with pytest.raises(UsageError, match="leave client= out"):
        og.validate(graph, answer, client=client)


def test_progress_moves_with_the_edges(
    graph: og.Graph, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_answers, "_most_at_once", lambda *_: 1)
    said = Said()
    og.validate(graph, answers, progress=said, client=False)
    stage = said.stages["validating"]
    assert stage.total == sum(stage.amounts) == graph.stored_arcs // 2 * len(answers)
    assert len(stage.amounts) >= len(answers)


def test_what_cannot_be_validated(
    graph: og.Graph, answers: list[Any], client: Client, tmp_path: Path
) -> None:
    other = og.build((np.array([10]), np.array([20])), tmp_path / "h.zarr", device="cpu")
    for foreign in (og.bfs(other, 10), answers[4]):
        within = graph if foreign is not answers[4] else other
        with pytest.raises(InputError, match="another graph"):
            og.validate(within, foreign)
    with pytest.raises(UsageError, match="the first argument is a list"):
        og.validate(answers[:2], tuples())
    with pytest.raises(UsageError, match="many sources"):
        og.validate(graph, og.multi_source_bfs(graph, [30]))
    with pytest.raises(UsageError, match="directed: options of edges"):
        og.validate(graph, answers, directed=True)
    with pytest.raises(UsageError, match="not ndarray"):
        og.validate(graph, tuples())
    for swapped in (graph, graph.path):
        with pytest.raises(UsageError, match=r"by validate\(graph, answers\)"):
            og.validate(answers[0], swapped)
    plain = og.build(tuples()[:2], tmp_path / "p.zarr", directed=graph.directed, device="cpu")
    with pytest.raises(UsageError, match=r"has distances, and .* holds no weights"):
        og.validate(plain, answers[1])
    with pytest.raises(UsageError, match="built graph"):
        og.validate(answers[0], tuples(), client=client)
    with pytest.raises(MemoryBudgetError, match=r"validating bfs needs [0-9,]+ bytes"):
        og.validate(graph, answers, memory_limit="1KiB")
    damaged_graph = shutil.copytree(plain.path, tmp_path / "d.zarr")
    hops = og.bfs(plain, 30, out=tmp_path / "hops.zarr", device="cpu")
    chunk = next((damaged_graph / "shards").rglob("neighbors/c/0"))
    content = bytearray(chunk.read_bytes())
    content[0] ^= 1  # opening the store reads the chunk's end alone
    chunk.write_bytes(content)
    for given in ({}, {"client": client}):
        with pytest.raises(CorruptStoreError, match=r"d\.zarr/shards"):
            og.validate(damaged_graph, hops, **given)
    damaged = shutil.copytree(answers[4], tmp_path / "r.zarr")
    chunk = next(path for path in (damaged / "parent").rglob("0"))
    chunk.write_bytes(bytes(reversed(chunk.read_bytes())))
    for given in ({}, {"client": client}):
        with pytest.raises(InputError, match=r"r\.zarr.*search again"):
            og.validate(graph, damaged, **given)
