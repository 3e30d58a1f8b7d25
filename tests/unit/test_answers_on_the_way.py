"""Answers of workers travel in few bytes, straight from the worker, and are those of a process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.answers.late import LateColumns
from ooc_graph.answers.narrow import narrowed
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.exchange import outcomes
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.outcomes import Outcomes


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    local = LocalCluster(processes=False, protocol="tcp", **options)
    with local as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize("step", [1, 7, 3 << 40])
@pytest.mark.parametrize("kernel", ["bfs", "sssp", "components"])
def test_a_workers_answer_is_that_of_a_process(
    client: Client, kernel: str, step: int, tmp_path: Path
) -> None:
    u, v, w = og.Kronecker(9).block(0, 4096)
    graph = og.build(
        (step * u + 5, step * v + 5, w), tmp_path / "g.zarr", rows="both", directed=True
    )
    root = () if kernel == "components" else (int(graph.original_of()[3]),)
    right = getattr(og, kernel)(graph, *root, client=False)
    found = getattr(og, kernel)(graph, *root, client=client)
    assert isinstance(found.columns, LateColumns)
    for name in right.names:
        assert found.read(name).dtype == right.read(name).dtype
        assert found.read(name).tobytes() == right.read(name).tobytes()
    assert list(found.seconds) == list(right.seconds)
    if kernel != "components":
        into = {"parent": np.empty(graph.vertices, np.int64)}
        assert getattr(og, kernel)(graph, *root, client=client, into=into).parent is into["parent"]
        assert into["parent"].tobytes() == right.parent.tobytes()


@pytest.mark.parametrize(("vertices", "each"), [(128, 1), (129, 2), (32_768, 2), (32_769, 4)])
def test_levels_take_as_few_bytes_as_the_largest_needs(vertices: int, each: int) -> None:
    columns = path_columns(vertices)
    late = LateColumns(narrowed(columns, 2), 2)
    sent = pickle.dumps(late)
    # Of vertices without gaps nothing is sent; parents take four bytes.
    assert vertices * (4 + each) <= len(sent) < vertices * (4 + each) + 1_000
    right = columns.in_memory()
    for found in (late, pickle.loads(sent)):
        assert list(found) == list(right)
        assert all(found[name].tobytes() == right[name].tobytes() for name in right)


def test_columns_that_were_written_to_travel_as_they_are() -> None:
    late = LateColumns(narrowed(path_columns(9), 1), 1)
    late["level"][3] = 77
    assert pickle.loads(pickle.dumps(late))["level"].tolist() == [0, 1, 2, 77, 4, 5, 6, 7, 8]


def path_columns(vertices: int) -> TreeColumns:
    ids = np.arange(vertices, dtype=np.int64)
    parent = np.maximum(ids - 1, 0).astype(np.uint32)
    tree = Tree("bfs", 10, 0, parent, ids.astype(np.int32))
    return TreeColumns(tree, Ids(ids.astype(np.int32), ids + 10, 10, None))


def test_results_come_from_the_worker_once_it_has_answered(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    gather = Client.gather

    def noted(self: Client, futures: Any, **options: Any) -> Any:
        asked.append(options["direct"])
        return gather(self, futures, **options)

    monkeypatch.setattr(Client, "gather", noted)
    (address,) = client.scheduler_info()["workers"]
    cluster = Cluster(client)

    def fetched() -> Any:
        return cluster.fetch(client.submit(pow, 3, 4, pure=False), address).result(60)

    assert fetched() == 81
    assert asked == []
    client.sync(awaited, cluster.outcomes)
    assert fetched() == 81
    assert asked == [True]


def test_results_come_by_the_scheduler_if_the_worker_is_not_reached(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "gather", lambda *_, **__: pytest.fail("asked the worker"))
    monkeypatch.setattr(outcomes, "REACH_S", 0.05)
    cluster = Cluster(client)
    for _ in range(2):
        future = client.submit(pow, 3, 4, pure=False)
        # Nobody listens there, or nobody answers.
        assert cluster.fetch(future, "tcp://127.0.0.1:9").result(60) == 81
        client.sync(awaited, cluster.outcomes)


async def awaited(known: Outcomes) -> None:
    for reached in known._reached.values():
        await reached
