"""Answers of a cluster stay where they were found until they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.layout import metadata, names
from ooc_graph.runtime.cluster import local_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    store = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(10), store, shards=4, rows="both", client=False)


@pytest.mark.parametrize("kernel", ["bfs", "sssp", "components"])
def test_every_worker_writes_chunks_of_an_answer(
    kernel: str, graph: og.Graph, cluster: Client, tmp_path: Path
) -> None:
    root = () if kernel == "components" else (int(graph.original_of()[3]),)
    search: Any = getattr(og, kernel)
    right = search(graph, *root, out=tmp_path / "one.zarr", client=False)
    ranks = {"client": cluster, "exchange": "scheduler"}
    found = search(graph, *root, out=tmp_path / "ranks.zarr", **ranks)
    assert found.columns.identity == right.columns.identity
    found.columns.verify()
    task = f"ooc-graph-{kernel}-write-share is done"
    for log in cluster.get_worker_logs().values():
        assert any(task in line for _, line in log)


@pytest.mark.parametrize("of", [1, 2, 5, 9])
def test_shares_of_an_answer_make_up_the_whole(
    of: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "CHUNK_BYTES", 1024)
    assert metadata.ArraySpec("level", 300, np.dtype(np.int32)).chunks == 2
    ids = np.arange(300)
    tree = Tree("bfs", 0, 0, np.maximum(ids - 1, 0).astype(np.uint32), ids.astype(np.int32))
    columns = TreeColumns(tree, Ids(ids.astype(np.int32), ids, 0, None))
    (tmp_path / "whole").mkdir()
    (tmp_path / "shares").mkdir()
    specs, right = columns.write(tmp_path / "whole")
    shares = [columns.write(tmp_path / "shares", share, of) for share in range(of)]
    assert all(found == specs for found, _ in shares)
    assert sorted((entry for _, share in shares for entry in share), key=str) == sorted(
        right, key=str
    )
    assert len(right) == 8
