"""The harness of the benchmarks: records, turns, and what is compared."""

from __future__ import annotations

import importlib
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.kernels.common import tuning
from tests.command_line import REPOSITORY


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    return lambda name: importlib.import_module(f"harness.{name}")


def program(module: Any, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Any:
    made = module("program").Program("toy", "What it is.\n\nMore.", scales="18", folder=None)
    monkeypatch.setattr("sys.argv", ["toy.py", *map(str, arguments)])
    made.parse()
    return made


def test_record_has_parameters_figures_and_commit(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = tmp_path / "toy.jsonl"
    toy = program(module, monkeypatch, "--records", records, "--commit", "abc")
    figures = {"times_s": [1.0, 2.0], "median_s": {"ours": 0.25, "theirs": 1234567.0}}
    toy.record({"graph": "grid"}, figures, device="none")
    toy.flat_record({"graph": "grid"}, {"arcs": 12}, "other")
    first, second = (json.loads(line) for line in records.read_text().splitlines())
    assert first["schema_version"] == 1
    assert (first["benchmark"], first["source_commit"], first["device"]) == ("toy", "abc", "none")
    assert first["parameters"] == {"graph": "grid"}
    assert first["figures"] == figures
    assert (second["benchmark"], second["graph"], second["arcs"]) == ("other", "grid", 12)
    printed = capsys.readouterr().out
    assert "toy: graph grid" in printed
    assert "median_s: theirs │ 1,234,567" in printed
    assert "times_s" not in printed


def test_scales_are_ranges_and_lists(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program(module, monkeypatch).options.scales == [18]
    assert program(module, monkeypatch, "--scales", "18-20,24").options.scales == [18, 19, 20, 24]
    assert program(module, monkeypatch, "--scales", "").options.scales == []


def test_scratch_is_deleted(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with program(module, monkeypatch, "--folder", tmp_path).scratch() as folder:
        assert folder.parent == tmp_path
        (folder / "file").touch()
    assert not list(tmp_path.iterdir())


def test_calls_take_turns(module: Any) -> None:
    timing, log = module("timing"), []
    calls = {name: lambda name=name: log.append(name) or name for name in "ab"}
    turns = timing.take_turns(
        calls, 2, before=lambda name: log.append(f"before {name}"),
        check=lambda name, result: log.append((name, result)),
    )  # fmt: skip
    one = ["before a", "a", ("a", "a"), "before b", "b", ("b", "b")]
    assert log == 2 * one
    assert [len(found) for found in turns.times_s.values()] == [2, 2]
    assert len(timing.take_turns(calls, 3, long_s=-1).times_s["a"]) == 1


def test_first_run_does_not_count(module: Any) -> None:
    runs: list[int] = []
    found = module("timing").repeated(lambda: runs.append(1) or len(runs), 3)
    assert [one.result for one in found] == [2, 3, 4]


def test_a_thread_looks_until_the_end(module: Any) -> None:
    lookers: list[threading.Thread] = []
    enough = threading.Event()

    def look() -> None:
        lookers.append(threading.current_thread())
        if len(lookers) == 3:
            enough.set()

    with module("timing").sampled(look, 0.001):
        assert enough.wait(60)
    assert not lookers[0].is_alive()


def test_other_answers_end_the_program(module: Any) -> None:
    same = module("timing").same_bytes()
    same("a", np.arange(3))
    same("b", np.arange(3))
    with pytest.raises(SystemExit, match="c: the answers differ"):
        same("c", np.arange(4))


def search(level: int) -> Any:
    def run(root: int) -> Any:
        return SimpleNamespace(
            elapsed_s=0.5, parent=np.array([root]), level=np.array([level]), level_arcs=np.ones(3)
        )

    return SimpleNamespace(run=run)


def test_searches_alternate(module: Any) -> None:
    timing, order = module("timing"), []
    searches = {"a": search(1), "b": search(1)}
    times = timing.alternate(
        searches, [5, 6], lambda name, tree, _: order.append((name, timing.arcs_of(tree)))
    )
    assert times == {"a": [0.5, 0.5], "b": [0.5, 0.5]}
    assert order == [("a", 3), ("b", 3), ("b", 3), ("a", 3)]
    with pytest.raises(SystemExit, match="the answers from internal id 7 differ"):
        timing.alternate({"a": search(1), "b": search(2)}, [7])


def test_light_arcs_come_first(module: Any) -> None:
    u, v, weight = np.array([0, 0, 2]), np.array([1, 2, 0]), np.array([3.0, 1.0, 2.0])
    out, into = module("graphs").both_sides((3, u, v, weight))
    assert out.offsets.tolist() == [0, 2, 2, 3]
    assert out.neighbors.tolist() == [2, 1, 0]
    assert into.offsets.tolist() == [0, 1, 2, 3]
    assert into.weights.tolist() == [2.0, 3.0, 1.0]


def test_every_tuned_constant_can_be_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    decides = importlib.import_module("tuning").DECIDES
    names = [name for found in decides.values() for name in found]
    assert sorted(names) == sorted(name for name in vars(tuning) if name.isupper())


@pytest.mark.parametrize("name", ["edge_list", "gpu_edge_list"])
def test_page_of_the_edge_list_has_the_table_of_its_record(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    edge_list = importlib.import_module("edge_list")
    path = edge_list.RECORDS / f"{name}.jsonl"
    page, unmeasured = (
        (REPOSITORY / "docs" / "explanation" / "benchmarks" / "edge_list.md").read_text(),
        f"`{name}.py`: no record",
    )
    assert (unmeasured in page) != path.exists()
    assert not path.exists() or edge_list.table(edge_list.records_of(path)) in page
