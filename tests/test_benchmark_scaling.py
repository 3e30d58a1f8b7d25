"""The study of how searches by ranks scale: what it counts, switches off and concludes."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.exchange.ranks import run_in_process
from tests.command_line import REPOSITORY, script

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_a_level_goes_from_share_to_share(module: Any) -> None:
    """Two processes; the second level of two routes its candidates in a superstep of its own."""
    marks = [(float(at), at / 2) for at in range(5)]
    first = module("scaling_steps").Log(
        marks, [0.5, 0.25, 0.25, 0.5], [True, False, True], [1, 2, 4]
    )
    second = module("scaling_steps").Log(
        [(at + 0.5, used) for at, used in marks],
        [0.25, 0.5, 0.25, 0.5],
        first.is_share,
        [8, 16, 32, 0],
    )
    tree = SimpleNamespace(level_arcs=np.array([7]))
    found = module("scaling").figures_of([first, second], tree)
    assert found == {
        "seconds": 4.0, "processor_s": 4.0, "arcs": 7, "bytes": 63, "supersteps": 3,
        "levels": {
            "arcs": [0, 7, 0], "bytes": [9, 54, 0], "seconds": [1.0, 2.0, 1.0],
            "steps_s": [0.5, 0.75, 0.5], "processor_s": [1.0, 2.0, 1.0],
        },
    }  # fmt: skip


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_answers_do_not_depend_on_what_is_off(module: Any, tmp_path: Path, kernel: str) -> None:
    steps, source = module("scaling_steps"), og.Kronecker(8)
    graph = og.build(source, tmp_path / "g.zarr", shards=4)
    task = module("ranks").task_of(graph, kernel, int(source.search_keys(1)[0]), 0)
    answers = []
    for off in ((), *((name,) for name in steps.SWITCHES)):
        with steps.make(task, off, range(4)) as (coroutines, shared):
            results = run_in_process(coroutines, shared)
        answers.append([steps.answer_of(tree) for tree, _ in results])
    assert all(answer == answers[0] for answer in answers)


def records_of(module: Any, coefficients: tuple[float, ...], latency: str) -> list[dict[str, Any]]:
    """What a model says of levels of some shapes."""
    model, records = module("scaling_model"), []
    random = np.random.default_rng(3)
    for workers, ranks in ((2, 2), (4, 4), (8, 8), (8, 64)):
        levels = [{}]
        for arcs, sent in random.integers(1, 10**6, (5, 2)).tolist():
            terms = arcs, sent, ranks, workers * model.LATENCIES[latency](workers)
            used = float(np.dot(terms, coefficients))
            levels.append({"arcs": arcs, "bytes": sent, "processor_s": used})
        parameters = {"workers": workers, "ranks": ranks}
        records.append({"parameters": parameters, "figures": {model.NEAR: {"levels": levels}}})
    return records


def test_the_fit_finds_what_levels_are_made_of(module: Any) -> None:
    model, coefficients = module("scaling_model"), (1e-9, 3e-9, 2e-5, 1e-4)
    right, wrong = model.LATENCIES
    records = records_of(module, coefficients, right)
    fit = model.fitted(records, model.NEAR, right)
    np.testing.assert_allclose(fit.seconds, coefficients)
    assert max(fit.level_error, fit.search_error) < 1e-9
    assert model.fitted(records, model.NEAR, wrong).search_error > 0.01


def test_more_gpus_look_at_fewer_arcs_and_get_the_same_bytes(module: Any) -> None:
    model = module("scaling_model")
    few, many = (model.prediction(model.of_gpu(), 0.1, 36, gpus) for gpus in (100, 1000))
    assert few["seconds: bytes"] == many["seconds: bytes"]
    assert few["bytes that a GPU gets"] == pytest.approx(0.1 * few["levels"] * few["rows"] / 8)
    assert few["arcs looked at by a GPU"] == pytest.approx(10 * many["arcs looked at by a GPU"])
    assert few["seconds: arcs"] > many["seconds: arcs"]


def test_the_page_has_the_tables_of_the_records(module: Any) -> None:
    model = module("scaling_model")
    page = (REPOSITORY / "docs" / "explanation" / "benchmarks" / "scaling.md").read_text()
    tables = model.tables(model.records_of(model.RECORDS / "scaling.jsonl"))
    assert [name for name, table in tables.items() if table not in page] == []
    assert {"strong", "weak", "fits", "prediction"} <= tables.keys()


@pytest.mark.slow
def test_small_run(tmp_path: Path) -> None:
    records, drawn = tmp_path / "scaling.jsonl", tmp_path / "scaling.svg"
    ended = script(
        *(BENCHMARKS / "scaling.py", "--strong", "--weak", "--study", "--many-ranks"),
        *("--shapes", "2x2,2x64", "--scales", "9", "--searches", "2", "--repeats", "1"),
        *("--folder", tmp_path, "--records", records, "--out", drawn),
    )
    assert ended.code == 0, ended.err
    found = [json.loads(line) for line in records.read_text().splitlines()]
    modes = [record["parameters"]["mode"] for record in found]
    assert modes == ["strong"] * 4 + ["weak"] * 4 + ["study"] * 4 + ["many_ranks"] * 2
    bfs, sssp = (r["figures"] for r in found[8:10])
    assert sssp["without codec"]["bytes"] > sssp["all"]["bytes"]
    assert sssp["shared memory"]["bytes"] == sssp["without codec"]["bytes"]
    assert bfs["without pushing ahead"]["supersteps"] > bfs["all"]["supersteps"]
    assert "| through | telling grows with |" in ended.out
    assert "ranks, in up to 8 workers" in drawn.read_text()
