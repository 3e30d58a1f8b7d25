"""Answers of a cluster stay where they were found until they are asked for."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal

import dask
import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.answers import late
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.kept import kept_bytes
from ooc_graph.layout import metadata, names
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.runtime.workplace import OnCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    store = tmp_path_factory.mktemp("graph") / "g.zarr"
    return og.build(og.Kronecker(10), store, shards=4, rows="both", client=False)


@pytest.fixture(scope="module")
def graphs(graph: og.Graph) -> dict[str, og.Graph]:
    u, v, w = og.Kronecker(9).block(0, 4096)
    gaps = graph.path.with_name("gaps.zarr")
    edges = 7 * u + 5, 7 * v + 5, w
    return {"dense": graph, "gaps": og.build(edges, gaps, shards=4, rows="both", client=False)}


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = monotonic() + 60
    while not is_so():
        assert monotonic() < end_s
        sleep(0.05)


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


@pytest.fixture
def nothing_is_small(cluster: Client) -> Iterator[None]:
    """Answers of all sizes stay on their workers."""
    cluster.run(stays_from, -1)
    yield
    cluster.run(stays_from, late.STAYS_BYTES)


def stays_from(most_bytes: int) -> None:
    late.STAYS_BYTES = most_bytes


def searched(kernel: str, graph: og.Graph, client: Client | Literal[False]) -> Any:
    root = () if kernel == "components" else (int(graph.original_of()[3]),)
    return getattr(og, kernel)(graph, *root, client=client)


@pytest.mark.usefixtures("nothing_is_small")
@pytest.mark.parametrize("ids", ["dense", "gaps"])
@pytest.mark.parametrize("kernel", ["bfs", "sssp", "components"])
def test_an_answer_stays_until_it_is_read(
    kernel: str, ids: str, graphs: dict[str, og.Graph], cluster: Client
) -> None:
    graph = graphs[ids]
    right = searched(kernel, graph, False)
    found = searched(kernel, graph, cluster)
    key = found.columns.kept.future.key
    (holder,) = cluster.who_has()[key]
    there = {name: found.to_dask_array(name) for name in right.names}
    assert found.columns._arrays == {}
    for name, array in there.items():
        assert array.chunks == ((graph.vertices,),)
        assert array.dtype == right.read(name).dtype
        assert cluster.compute(array).result(60).tobytes() == right.read(name).tobytes()
    assert found.columns._arrays == {}
    assert cluster.who_has()[key] == (holder,)
    del there, array
    for name in right.names:
        assert found.read(name).dtype == right.read(name).dtype
        assert found.read(name).tobytes() == right.read(name).tobytes()
    wait_until(lambda: key not in cluster.who_has())


@pytest.mark.usefixtures("nothing_is_small")
def test_an_answer_that_is_gone_is_dropped_by_its_worker(graph: og.Graph, cluster: Client) -> None:
    found = searched("bfs", graph, cluster)
    key = found.columns.kept.future.key
    # Four bytes for a parent, and one for a level.
    assert kept_bytes(Cluster.of(cluster)) == 5 * graph.vertices
    assert OnCluster(cluster, 10**9).limit_bytes == 10**9 - 2 * 5 * graph.vertices
    del found
    assert OnCluster(cluster, 10**9).limit_bytes == 10**9
    wait_until(lambda: key not in cluster.who_has())


@pytest.mark.usefixtures("nothing_is_small")
def test_an_answer_that_stayed_travels_whole(graph: og.Graph, cluster: Client) -> None:
    right = searched("bfs", graph, False)
    found = searched("bfs", graph, cluster)
    sent = pickle.dumps(found)
    assert 5 * graph.vertices <= len(sent) < 6 * graph.vertices
    into = {"level": np.empty(graph.vertices, np.int32)}
    root = int(graph.original_of()[3])
    given = og.bfs(graph, root, client=cluster, into=into)
    for one in (found, pickle.loads(sent), given):
        assert all(one.read(name).tobytes() == right.read(name).tobytes() for name in right.names)
    assert given.level is into["level"]


@pytest.fixture
def lost() -> Iterator[Client]:
    """A cluster of two workers, one of which a test kills."""
    with dask.config.set({"ooc-graph.patience": "5s"}), local_cluster(2) as client:
        client.run(stays_from, -1)
        yield client


def kill(client: Client, address: str) -> None:
    (pid,) = client.run(os.getpid, workers=[address]).values()
    os.kill(pid, signal.SIGKILL)


def test_an_answer_is_found_where_dask_has_moved_it(graph: og.Graph, lost: Client) -> None:
    right = searched("bfs", graph, False)
    found = searched("bfs", graph, lost)
    kept = found.columns.kept
    (other,) = set(lost.scheduler_info()["workers"]) - {kept.address}
    (pid,) = lost.run(os.getpid, workers=[kept.address]).values()
    lost.retire_workers([kept.address])
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert found.level.tobytes() == right.level.tobytes()
    assert kept.address == other


def test_an_answer_that_is_lost_is_no_wrong_answer(graph: og.Graph, lost: Client) -> None:
    right = searched("bfs", graph, False)
    found, other = searched("bfs", graph, lost), searched("sssp", graph, lost)
    array = found.to_dask_array("parent")
    assert found.level.tobytes() == right.level.tobytes()
    assert other.columns.kept.address == found.columns.kept.address
    kill(lost, found.columns.kept.address)
    with pytest.raises(ClusterLostError, match=r"is lost with worker .*: search again"):
        _ = other.distance
    with pytest.raises(ClusterLostError, match="search again"):
        other.to_dask_array("distance")
    assert found.level.tobytes() == right.level.tobytes()
    # Dask has another worker search.
    assert lost.compute(array).result(120).tobytes() == right.parent.tobytes()


def test_an_answer_of_a_client_that_is_closed(graph: og.Graph, lost: Client) -> None:
    with Client(lost.scheduler.address) as client:
        found = searched("bfs", graph, client)
    with pytest.raises(ClusterLostError, match=r"the client is closed.*search again"):
        _ = found.level
    with pytest.raises(ClusterLostError, match="search again"):
        found.to_dask_array("level")
