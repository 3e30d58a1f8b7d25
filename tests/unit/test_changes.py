"""What changed between two answers, block by block, against a comparison of dictionaries."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.answers import changes
from ooc_graph.errors import UsageError


def answer(folder: Path, name: str, edges: list[tuple[Any, ...]], kernel: str = "bfs") -> og.Result:
    """A stored answer from vertex 1."""
    columns = tuple(np.array(column) for column in zip(*edges, strict=True))
    graph = og.build(columns, folder / f"{name}-graph.zarr", directed=True)
    out = folder / f"{name}.zarr"
    if kernel == "components":
        return og.components(graph, out=out)
    return getattr(og, kernel)(graph, 1, out=out)  # type: ignore[no-any-return]


def values(result: og.Result) -> dict[int, Any]:
    return dict(zip(result.vertex.tolist(), result.read(result.measure).tolist(), strict=True))


def expected(before: og.Result, after: og.Result) -> list[tuple[int, Any, Any]]:
    old, new = values(before), values(after)
    rows = [(v, old.get(v), new.get(v)) for v in sorted({**old, **new})]
    return [row for row in rows if row[1] != row[2]]


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 1 << 18])
@pytest.mark.parametrize("kernel", ["bfs", "sssp", "components"])
def test_changes_are_those_of_dictionaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, rows: int
) -> None:
    monkeypatch.setattr(changes, "_ROWS", rows)
    random = np.random.default_rng([rows, len(kernel)])
    answers = []
    for name, spread, more in (("old", 30, []), ("new", 45, [(0, 1, 0.5)])):
        ends = random.integers(2, spread, (2, 40)) * 3
        weights = random.integers(1, 9, 40) / 4
        edges = [*more, (1, ends[0, 0], 0.5), *zip(*ends, weights, strict=True)]
        answers.append(answer(tmp_path, name, edges, kernel))
    want = expected(*answers)
    path = tmp_path / "changes.csv"
    found = changes.write_changes(answers[0], answers[1], path)
    texts = [[str(v), *("" if one is None else str(one) for one in row)] for v, *row in want]
    assert read(path) == [["vertex", "before", "after"], *texts]
    assert found.new == sum(before is None for _, before, _ in want) > 0
    assert found.gone == sum(after is None for _, _, after in want) > 0
    assert found.changed == len(want) - found.new - found.gone > 0
    assert changes.count_changes(*answers) == found


def test_the_same_answer_and_none(tmp_path: Path) -> None:
    now = answer(tmp_path, "now", [(1, 2), (2, 3)])
    for before in (now, None):
        found = changes.write_changes(before, now, tmp_path / "changes.csv")
        assert found == changes.Changes(0, 0, 0)
        assert read(tmp_path / "changes.csv") == [["vertex", "before", "after"]]


def test_parquet_has_nulls(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: ooc-graph[tables]")
    before = answer(tmp_path, "before", [(1, 2), (2, 3)])
    after = answer(tmp_path, "after", [(1, 3), (3, 4)])
    changes.write_changes(before, after, tmp_path / "changes.parquet")
    assert parquet.read_table(tmp_path / "changes.parquet").to_pylist() == [
        {"vertex": 2, "before": 1, "after": None},
        {"vertex": 3, "before": 2, "after": 1},
        {"vertex": 4, "before": None, "after": 2},
    ]


def test_answers_of_other_kinds_are_refused(tmp_path: Path) -> None:
    now = answer(tmp_path, "now", [(1, 2, 1), (2, 3, 1)], "sssp")
    others = {
        "kernel is bfs, now it is sssp": ([(1, 2, 1)], "bfs"),
        "type of values is float64, now it is int64": ([(1, 2, 0.5)], "sssp"),
    }
    for number, (said, made) in enumerate(others.items()):
        before = answer(tmp_path, str(number), *made)
        with pytest.raises(UsageError, match=said):
            changes.write_changes(before, now, tmp_path / "changes.csv")
    assert not (tmp_path / "changes.csv").exists()
    graph = og.open(tmp_path / "now-graph.zarr")
    other = og.sssp(graph, 2, out=tmp_path / "two.zarr")
    with pytest.raises(UsageError, match="root is 2, now it is 1"):
        changes.count_changes(other, now)
