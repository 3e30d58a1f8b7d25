"""The jobs that come along, and jobs on clusters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.jobs.folder import read_manifest
from ooc_graph.jobs.shipped import EXAMPLES
from tests.command_line import REPOSITORY, script
from tests.job_runs import Command, published, small_job, summary


def test_graph500_example(ooc: Command, tmp_path: Path) -> None:
    run, scale, keys = tmp_path / "run", 9, 3
    words = [f"source.scale={scale}", f"stage.bfs.keys={keys}", "stage.sssp.keys=2"]
    given = [word for one in words for word in ("--set", one)]
    done = ooc("run", EXAMPLES / "graph500.toml", *given, "--out", run)
    assert done.code == 0, done
    source = og.Kronecker(scale)
    assert og.open(run / "graph.zarr").attributes["source"] == source.describe()
    manifest = read_manifest(run)
    assert manifest is not None
    roots = source.search_keys(keys).tolist()
    assert list(manifest["steps"]["bfs"]["units"]) == [str(root) for root in roots]
    elapsed, edges = [], []
    for root in roots:
        facts = manifest["steps"]["bfs-valid"]["units"][str(root)]
        verdict = og.validate(run / "bfs" / f"{root}.zarr", source)
        assert (facts["edges"], facts["reached"]) == (verdict.edges, verdict.reached)
        elapsed.append(manifest["steps"]["bfs"]["units"][str(root)]["elapsed_s"])
        edges.append(verdict.edges)
    figures = summary(run)
    teps = len(roots) / sum(t / e for t, e in zip(elapsed, edges, strict=True))
    assert figures["bfs"]["harmonic_mean_teps"] == pytest.approx(teps)
    assert figures["bfs"]["median_elapsed_s"] == pytest.approx(np.median(elapsed))
    assert figures["sssp"]["timed"] == 2
    assert not list(run.glob("*warm-up*"))


def test_social_reach_example(ooc: Command, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n2,3\n7,8\n")
    shutil.copy(EXAMPLES / "social_reach.toml", tmp_path)
    given = ["--set", "stage.hops.roots=[1]", "--set", "stage.reach.roots=[1, 7]"]
    run = tmp_path / "run"
    done = ooc("run", tmp_path / "social_reach.toml", *given, "--out", run)
    assert done.code == 0, done
    assert (run / "hops-csv" / "1.csv").read_text().splitlines()[1:] == [
        "1,0,1",
        "2,1,1",
        "3,2,2",
        "7,-1,-1",
        "8,-1,-1",
    ]
    parts = (run / "components-csv" / "components.csv").read_text().splitlines()
    assert parts == ["vertex,labels", "1,1", "2,1", "3,1", "7,7", "8,7"]
    ranks = (run / "pagerank-csv" / "pagerank.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in ranks] == ["vertex", "1", "2", "3", "7", "8"]
    scores = [float(line.split(",")[1]) for line in ranks[1:]]
    # Of a pair each has a fifth; the middle of three has what both others send.
    assert scores[3:] == pytest.approx([0.2, 0.2])
    assert scores[1] == pytest.approx(0.03 + 0.85 * 2 * scores[0], abs=1e-2)
    reach = (run / "reach-csv" / "reach.csv").read_text().splitlines()
    assert [line.split(",")[:5] for line in reach[1:]] == [
        ["1", "3", "1", "1", "1"],
        ["7", "2", "1", "1", "0"],
    ]


def test_road_distances_example(ooc: Command, tmp_path: Path) -> None:
    (tmp_path / "roads.csv").write_text("source,target,weight\n1,2,4\n2,3,1\n1,3,7\n3,4,2\n")
    shutil.copy(EXAMPLES / "road_distances.toml", tmp_path)
    words = ["stage.ways.roots=[1, 2]", "stage.matrix.roots=[1, 2]", "stage.matrix.targets=[4, 1]"]
    given = [word for one in words for word in ("--set", one)]
    run = tmp_path / "run"
    done = ooc("run", tmp_path / "road_distances.toml", *given, "--out", run)
    assert done.code == 0, done
    lines = (run / "ways-csv" / "1.csv").read_text().splitlines()
    assert lines == ["vertex,distance,predecessor", "1,0,1", "2,4,1", "3,5,2", "4,7,3"]
    matrix = og.PairsResult.open(run / "matrix.zarr")
    far = np.iinfo(np.int64).max
    assert matrix.distance.tolist() == [[7, 0], [3, far]]


def test_nightly_example(ooc: Command, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas and pyarrow: ooc-graph[tables]")
    pytest.importorskip("pyarrow", reason="needs pandas and pyarrow: ooc-graph[tables]")
    shutil.copy(EXAMPLES / "nightly.toml", tmp_path)
    words = ["stage.hops.roots=[1]", "stage.ways.roots=[1]"]
    given = [word for one in words for word in ("--set", one)]
    nights = {
        "2031-05-06": ([1, 2, 7], [2, 3, 8], [4.0, 1.0, 1.0]),
        "2031-05-07": ([1, 2, 1], [2, 3, 3], [4.0, 0.5, 7.0]),
    }
    for night, (source, target, weight) in nights.items():
        edges = {"source": source, "target": target, "weight": weight}
        pandas.DataFrame(edges).to_parquet(tmp_path / "edges.parquet")
        run = tmp_path / "runs" / night
        done = ooc("run", tmp_path / "nightly.toml", *given, "--out", run)
        assert done.code == 0, done
        if night == "2031-05-06":
            (tmp_path / "yesterday").symlink_to(run)
            assert summary(run)["hops-diff"]["compared"] == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ("hops-diff/1", "ways-diff/1", "components-diff/components")
    hops, ways, parts = (
        [tuple(row.values()) for row in parquet.read_table(run / f"{name}.parquet").to_pylist()]
        for name in names
    )
    assert hops == [(3, 2, 1), (7, -1, None), (8, -1, None)]
    assert ways == [(3, 5.0, 4.5), (7, np.inf, None), (8, np.inf, None)]
    assert parts == [(7, 7, None), (8, 7, None)]
    figures = summary(run)["hops-diff"]
    assert [figures[key] for key in ("changed", "new", "gone")] == [1, 0, 2]


def test_the_help_for_writers_of_jobs(ooc: Command) -> None:
    assert ooc("run", "--example", "graph500").out == (EXAMPLES / "graph500.toml").read_text()
    assert json.loads(ooc("run", "--schema").out)["title"] == "Job"


@pytest.fixture(scope="module")
def joining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Address and certificates of a running TLS cluster of two workers."""
    pytest.importorskip("cryptography", reason="certificates need cryptography: ooc-graph[tls]")
    folder = tmp_path_factory.mktemp("deploy") / "cluster"
    cluster = REPOSITORY / "deploy" / "local" / "cluster.py"
    started = script(cluster, "start", "--folder", folder, "--workers", 2)
    try:
        assert started.code == 0, started
        words = started.out.split()
        yield dict(zip(words[::2], words[1::2], strict=True))
    finally:
        script(cluster, "stop", "--folder", folder)


def test_on_clusters_answers_are_the_same(
    joining: dict[str, str], ooc: Command, tmp_path: Path
) -> None:
    job = small_job(tmp_path)
    assert ooc("run", job, "--out", tmp_path / "run").code == 0
    joined = ["cluster.kind=address", f"cluster.address={joining['--scheduler']}"]
    joined.append(f"cluster.tls={joining['--tls']}")
    given = [word for one in joined for word in ("--set", one)]
    done = ooc("run", job, "--out", tmp_path / "joined", *given)
    assert done.code == 0, done
    assert published(tmp_path / "joined") == published(tmp_path / "run")


def test_on_a_cluster_of_its_own(ooc: Command, tmp_path: Path) -> None:
    job = small_job(tmp_path, '[cluster]\nkind = "local"\nworkers = 2\n')
    assert ooc("run", job, "--out", tmp_path / "local").code == 0
    small_job(tmp_path)
    assert ooc("run", job, "--out", tmp_path / "run").code == 0
    assert published(tmp_path / "local") == published(tmp_path / "run")


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_worth_a_retry(ooc: Command, tmp_path: Path) -> None:
    more = '[cluster]\nkind = "address"\naddress = "tcp://127.0.0.1:1"\n'
    done = ooc("run", small_job(tmp_path, more), "--out", tmp_path / "run")
    assert done.code == 75
    assert "no Dask scheduler answers" in done.err
