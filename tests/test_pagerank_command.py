"""``ooc-graph pagerank``: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json

import pytest

import ooc_graph as og
from tests.command_line import call


@pytest.fixture
def graph(tmp_path):
    (tmp_path / "e.csv").write_text("a,b,w\n1,2,1.5\n2,3,1\n3,1,2\n3,9,1\n")
    og.build(tmp_path / "e.csv", tmp_path / "g.zarr", weight="w", directed=True)
    return tmp_path / "g.zarr"


def test_a_graph_is_ranked_planned_and_exported(graph, tmp_path, monkeypatch, capsys):
    jump, out = tmp_path / "jump.txt", tmp_path / "r.zarr"
    jump.write_text("1\n9\n")
    words = "pagerank", graph, "--out", out, "--personalization", jump
    ended = call(monkeypatch, capsys, *words, "--iterations", 30, "--unweighted", "--alpha", 0.9)
    assert ended.code == 0
    assert "pagerank: 4 vertices in 30 iterations in" in ended.out
    options = {"personalization": {1: 1, 9: 1}, "iterations": 30, "alpha": 0.9}
    wanted = og.pagerank(graph, weight=False, **options).pagerank
    assert og.PagerankResult.open(out).pagerank.tobytes() == wanted.tobytes()
    assert call(monkeypatch, capsys, "verify", out).code == 0
    assert call(monkeypatch, capsys, "export", out, tmp_path / "r.csv").code == 0
    lines = (tmp_path / "r.csv").read_text().splitlines()
    assert lines[0] == "vertex,pagerank"
    assert float(lines[1].split(",")[1]) == wanted[0]
    planned = call(monkeypatch, capsys, "plan", graph, "--kernel", "weighted_pagerank", "--json")
    assert json.loads(planned.out)["tier"] == "memory"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--max-iter", 2, "--tol", 1e-12], 3, "did not converge in 2 iterations"),
        (["--device", "cuda"], 2, "on the CPU only"),
        (["--alpha", 2], 2, "alpha 2.0: give a number from 0 to 1"),
        (["--memory-limit", "10B"], 2, "raise --memory-limit"),
    ],
)
def test_what_is_refused_leaves_nothing(words, code, said, graph, tmp_path, monkeypatch, capsys):
    out = tmp_path / "r.zarr"
    ended = call(monkeypatch, capsys, "pagerank", graph, "--out", out, *words)
    assert (ended.code, said in ended.err) == (code, True)
    assert not out.exists()


def test_a_result_is_compared_framed_and_exported(graph, tmp_path):
    pytest.importorskip("pandas", reason="frames are pandas'")
    found, again = og.pagerank(graph), og.pagerank(graph, out=tmp_path / "r.zarr")
    assert found == again
    assert found != og.pagerank(graph, alpha=0.5)
    assert list(found.to_frame().columns) == ["vertex", "pagerank"]
    for one, name in ((found, "memory.csv"), (again, "stored.csv")):
        og.export(one, tmp_path / name)
    assert (tmp_path / "memory.csv").read_text() == (tmp_path / "stored.csv").read_text()
    assert len((tmp_path / "memory.csv").read_text().splitlines()) == 5
