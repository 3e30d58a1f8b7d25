"""Answers of both kernels are validated in one pass over the edges if memory has room for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.graph500 import on_host, searches, waiting
from ooc_graph.graph500.batches import check_bytes, may_wait
from ooc_graph.graph500.job import graph500
from ooc_graph.graph500.run import Graph500Options, Run
from ooc_graph.runtime import validation
from ooc_graph.runtime.this_process import ThisProcess
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.validate.batch import batch_bytes
from tests.graph500_runs import run
from tests.said import Said

KERNELS = ("bfs", "sssp")
SCALE = 12


class Passes:
    """Notes what each pass over the edges has: the answers of each validator in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[list[int]] = []
        check_edges = validation.check_edges

        def noted(validator: Any, *given: Any) -> Any:
            together = getattr(validator, "_validators", [validator])
            self.seen.append([one.taken for one in together])
            return check_edges(validator, *given)

        for module in (validation, waiting):
            monkeypatch.setattr(module, "check_edges", noted)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    return Passes(monkeypatch)


def report(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_text())


def test_both_kernels_share_a_pass(tmp_path: Path, passes: Passes) -> None:
    said = run(SCALE, tmp_path, searches=3)
    assert passes.seen == [[3, 3]]
    bar = said.stages["validating"]
    assert sum(bar.amounts) == bar.total == 16 << SCALE
    for kernel in KERNELS:
        assert sum(said.stages[f"{kernel}: searching, validating"].amounts) == pytest.approx(3)
    made = report(tmp_path)
    assert made["validation"]["status"] == "passed"
    assert all(one["validate_s"] > 0 for one in made["searches"])
    assert [one["name"] for one in made["stages"]][-1] == "validation"


def test_answers_are_validated_before_searches_that_need_their_memory(
    tmp_path: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm_up, seen = on_host.warm_up, list[int]()

    def noted(task: Any, key: int) -> None:
        seen.append(len(passes.seen))
        warm_up(task, key)

    monkeypatch.setattr(searches, "warm_up", noted)
    monkeypatch.setattr(searches, "may_wait", lambda _run, _graph, kernel: kernel == "bfs")
    run(SCALE, tmp_path)
    assert passes.seen == [[2], [2]]
    assert seen == [0, 1]


@pytest.mark.parametrize("short_bytes", [0, 1])
def test_what_waits_counts_in_the_limit(short_bytes: int, tmp_path: Path) -> None:
    graph = og.build(og.Kronecker(SCALE), tmp_path / "g.zarr", rows="both", device="cpu")
    answer_bytes = check_bytes(graph, "sssp") - batch_bytes(graph.vertices, 1, DTYPES[1])
    batches = [batch_bytes(graph.vertices, 64, dtype) for dtype in DTYPES]
    limit = resident_bytes(graph, "sssp") + answer_bytes + sum(batches) - short_bytes
    made = Run(Graph500Options(SCALE), tmp_path, ThisProcess(limit, "cpu"), Said())
    assert may_wait(made, graph, "bfs")
    assert may_wait(made, graph, "sssp") == (short_bytes == 0)


DTYPES = np.dtype(np.uint8), np.dtype(np.float32)


def test_a_kernel_alone_does_not_wait(tmp_path: Path, passes: Passes) -> None:
    assert "validating" not in run(SCALE, tmp_path, kernels=("sssp",)).stages
    assert passes.seen == [[2]]


def test_refused_memory_has_those_that_wait_validated_first(
    tmp_path: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm_up, refused = on_host.warm_up, [MemoryError("no more")]

    def refusing(task: Any, key: int) -> None:
        if task.kernel == "sssp" and refused:
            raise refused.pop()
        warm_up(task, key)

    monkeypatch.setattr(searches, "warm_up", refusing)
    said = run(SCALE, tmp_path)
    assert passes.seen == [[2], [2]]
    assert any("validated first" in note for note in said.notes)
    assert all(one["validate_s"] > 0 for one in report(tmp_path)["searches"])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("wrong", ["its own parent", "unreached"])
def test_a_wrong_answer_of_either_is_found(
    kernel: str, wrong: str, tmp_path: Path, passes: Passes, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = on_host._answer

    def changed(engine: Any, tree: Any) -> Any:
        answer = made(engine, tree)
        if engine.kernel == kernel:
            leaf = np.setdiff1d(np.flatnonzero(answer.parent >= 0), answer.parent)[-1]
            answer.parent[leaf] = leaf
            if wrong == "unreached":
                answer.parent[leaf] = -1
                measure = answer.level if kernel == "bfs" else answer.distance
                measure[leaf] = -1 if kernel == "bfs" else np.inf
        return answer

    monkeypatch.setattr(on_host, "_answer", changed)
    outcome = graph500(
        Graph500Options(SCALE, searches=2, energy=False),
        tmp_path,
        client=None,
        memory_limit_bytes=None,
        device="cpu",
        progress=Said(),
        overwrite=True,
    )
    assert passes.seen == [[2, 2]]
    assert outcome.failure is not None
    assert outcome.failure.startswith(f"{kernel}: ")
    assert report(tmp_path)["validation"]["status"] == "failed"
