"""Commands, Graph500 and builds on a CUDA device: the same bytes as on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.types import NoProgress
from tests.command_line import Ended, command
from tests.gpu.cases import Case


def ended(*words: object, code: int = 0) -> Ended:
    """The command, which ends with a code."""
    done = command(*words)
    assert done.code == code, done.err
    return done


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_the_command(plain: Case, kernel: str, tmp_path: Path) -> None:
    root, results = plain.roots[0], []
    for device in ("cpu", "cuda", "auto"):
        out = tmp_path / f"{device}.zarr"
        options = ("--source", root, "--out", out, "--device", device)
        done = ended(kernel, plain.graph.path, *options)
        assert "on the CPU" not in done.err
        results.append(og.Result.open(out).columns.content_sha256)
    assert len(set(results)) == 1
    assert "reached" in done.out


def test_the_command_refuses_in_one_line(plain: Case, tmp_path: Path) -> None:
    out = tmp_path / "r.zarr"
    options = ("--source", plain.roots[0], "--out", out, "--device", "cuda", "--quiet")
    done = ended("bfs", plain.graph.path, *options, "--workers", 99, code=2)
    assert done.err.count("\n") == 1
    assert "have a device each" in done.err
    done = ended("bfs", plain.graph.path, *options, "--method", "edges", code=2)
    assert done.err.count("\n") == 1
    assert "CPU only" in done.err
    assert not out.exists()


@pytest.mark.parametrize("clustered", [False, True])
def test_graph500(tmp_path: Path, clustered: bool, request: pytest.FixtureRequest) -> None:
    from ooc_graph.graph500.job import graph500
    from ooc_graph.graph500.run import Graph500Options

    client = request.getfixturevalue("cuda_workers") if clustered else None
    graphs = {}
    for device in ("cuda", "cpu"):
        options = Graph500Options(scale=12, searches=8, shards=4, energy=False)
        outcome = graph500(
            options,
            tmp_path / device,
            client=client,
            memory_limit_bytes=None,
            device=device,
            progress=NoProgress(),
            overwrite=False,
        )
        assert outcome.failure is None
        assert "bfs  harmonic_mean_TEPS" in outcome.block
        report = json.loads((tmp_path / device / "report.json").read_text())
        graphs[device] = [
            (one["kernel"], one["root"], one["edges"], one["reached"]) for one in report["searches"]
        ]
        found = og.Graph.open(tmp_path / device / "graph.zarr").identity
        graphs[device].append(found)
    assert graphs["cuda"] == graphs["cpu"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_graph500_notices_a_wrong_answer(
    tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A level that is off by one must not pass."""
    from ooc_graph.graph500.job import graph500
    from ooc_graph.graph500.run import Graph500Options
    from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch

    if device == "cuda":
        plain = CudaBfsSearch.run_on_device

        def wrong(self: Any, root: int) -> Any:
            tree = plain(self, root)
            tree.level[5] += 1
            return tree

        monkeypatch.setattr(CudaBfsSearch, "run_on_device", wrong)
    outcome = graph500(
        Graph500Options(scale=12, searches=2, kernels=("bfs",), energy=False),
        tmp_path,
        client=None,
        memory_limit_bytes=None,
        device=device,
        progress=NoProgress(),
        overwrite=False,
    )
    assert (outcome.failure is None) == (device == "cpu")


def test_energy_is_measured(tmp_path: Path) -> None:
    from ooc_graph.graph500.job import graph500
    from ooc_graph.graph500.run import Graph500Options

    outcome = graph500(
        Graph500Options(scale=14, searches=4, kernels=("bfs",)),
        tmp_path,
        client=None,
        memory_limit_bytes=None,
        device="cuda",
        progress=NoProgress(),
        overwrite=False,
    )
    assert outcome.failure is None
    (energy,) = json.loads((tmp_path / "report.json").read_text())["energy"]
    assert energy["seconds"] >= 10
    assert energy["mteps_per_watt"] > 0
    assert any("NVML" in name for name in energy["joules"])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_store_built_on_the_device(case: Case, weighted: bool, tmp_path: Path) -> None:
    edges = case.edges if weighted else case.edges[:2]
    built = [
        og.build(edges, tmp_path / f"{d}.zarr", directed=case.directed, shards=4, device=d)
        for d in ("cpu", "cuda")
    ]
    assert built[0].identity == built[1].identity
