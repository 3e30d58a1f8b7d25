"""The GPU benchmark as far as it needs no GPU: its model of bytes, and its picture."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import REPOSITORY, script

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_model")


def record(kernel: str, scale: int, commit: str, **more: Any) -> dict[str, Any]:
    names = ("minimum", "first_quartile", "median", "third_quartile", "maximum", "harmonic_mean")
    rates = {name: (scale + k) * 1e9 for k, name in enumerate(names)}
    levels = [[False, 5, 40, 0, 1e-4], [True, 900, 0, 700, 8e-4], [False, 3, 9, 0, 1e-4]]
    return {
        "benchmark": "gpu",
        "kernel": kernel,
        "scale": scale,
        "source_commit": commit,
        "device": {"name": "A device"},
        "teps": rates,
        "edges": [10**9] * 3,
        "times_s": [1e-3, 4e-3, 2e-3],
        "refused": None,
        **(
            {"levels": [levels, [*levels, [True, 1, 0, 1, 3e-3]], levels]}
            if kernel == "bfs"
            else {}
        ),
        **more,
    }


def picture(tmp_path: Path, records: list[dict[str, Any]], *options: object) -> Any:
    found = tmp_path / "gpu.jsonl"
    found.write_text("".join(json.dumps(one) + "\n" for one in records))
    arguments = ("--records", found, "--out", tmp_path / "gpu.svg", *options)
    return script(BENCHMARKS / "gpu_picture.py", *arguments)


def test_work_of_a_bfs(model: Any) -> None:
    levels = [model.Level(False, 10, 100, 0, 1e-5), model.Level(True, 500, 0, 900, 1e-5)]
    work = model.bfs_work(8000, levels)
    fixed = 4 * 8000 // 8 + 5 * 8000
    push = 2 * 4 * 100 + 16 * 10
    pull = 2 * 8000 // 8 + 4 * 900 + 4 * 500
    assert work == model.Work(fixed + push + pull, 2 * 100 + 900, 1000)


def test_work_of_an_sssp(model: Any) -> None:
    work = model.sssp_work(8000, {"push": 10, "pull": 70, "finish": 0, "parents": 20})
    assert work == model.Work(8 * 100 + 12 * 8000, 100, 32_000)


def test_shares_of_ceilings(model: Any) -> None:
    work = model.Work(6_000, 300, 8)
    assert model.shares(work, 2.0, 30_000.0, 200.0) == {"copy": 0.1, "lookup": 0.75}


def test_picture_of_the_newest_commit(tmp_path: Path) -> None:
    records = [
        record("bfs", 21, "old"),
        record("bfs", 26, "old"),
        record("bfs", 26, "new", teps={**record("bfs", 7, "x")["teps"]}),
        record("bfs", 26, "new"),
        record("sssp", 26, "new"),
        record("sssp", 28, "new", refused="too large", teps=None),
    ]
    ended = picture(tmp_path, records)
    assert ended.code == 0, ended.err
    drawn = (tmp_path / "gpu.svg").read_text()
    for text in ("A device", "BFS", "SSSP", "of 3 searches", "at scale 26", "slowest", "median"):
        assert text in drawn, text
    assert ">31<" in drawn  # the harmonic mean of the newest record, in GTEPS
    assert "500 GTEPS" in drawn
    assert "250 GTEPS" in drawn
    assert "3,000" in drawn  # the level that makes the slowest search slow
    assert ">21<" not in drawn


def test_picture_without_levels_at_the_scale(tmp_path: Path) -> None:
    ended = picture(tmp_path, [record("bfs", 20, "new")])
    assert ended.code == 0, ended.err
    drawn = (tmp_path / "gpu.svg").read_text()
    assert "of 3 searches" in drawn
    assert "at scale" not in drawn


def test_no_picture_of_nothing(tmp_path: Path) -> None:
    ended = picture(tmp_path, [record("bfs", 28, "new", refused="too large")])
    assert ended.code == 1
    assert "no record to draw" in ended.err
    ended = picture(tmp_path, [record("bfs", 20, "new")], "--commit", "other")
    assert "no record of commit other" in ended.err
    assert not (tmp_path / "gpu.svg").exists()
