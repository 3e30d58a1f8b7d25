"""Which client a call means that gives none, and that searches go where it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.errors import UsageError
from ooc_graph.runtime.workplace import OnCluster, client_meant


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with LocalCluster(processes=False, **options) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.build(og.Kronecker(8), tmp_path_factory.mktemp("g") / "g.zarr", client=False)


@pytest.fixture
def on_cluster(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Clients of the clusters that calls went to."""
    went: list[Client] = []
    make = OnCluster.__init__

    def noted(self: OnCluster, client: Client, *rest: Any) -> None:
        went.append(client)
        make(self, client, *rest)

    monkeypatch.setattr(OnCluster, "__init__", noted)
    return went


CALLS: dict[str, Callable[..., Any]] = {
    "bfs": lambda graph, **where: og.bfs(graph, 1, **where).level,
    "sssp": lambda graph, **where: og.sssp(graph, 1, **where).distance,
    "components": lambda graph, **where: og.components(graph, **where).component,
    "johnson": lambda graph, **where: og.johnson(graph, [1, 2], **where).distance,
    "shortest_paths": lambda graph, **where: og.shortest_paths(graph, [1, 2], **where).distance,
    "multi_source_bfs": lambda graph, **where: og.multi_source_bfs(graph, [1], **where).level,
    "validate": lambda graph, **where: og.validate(graph, og.bfs(graph, 1), **where)[0].ok,
    "build": lambda graph, **where: og.build(
        og.Kronecker(8), graph.path.with_name("again.zarr"), overwrite=True, **where
    ).original_of(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_goes_to_the_current_client_unless_it_says_false(
    name: str, graph: og.Graph, client: Client, on_cluster: list[Client]
) -> None:
    with client.as_current():
        found = CALLS[name](graph)
    assert set(on_cluster) == {client}
    on_cluster.clear()
    again = CALLS[name](graph, client=False) if name != "validate" else None
    assert on_cluster == []
    if again is not None:
        assert np.array_equal(found, again)


def test_validation_by_this_process_needs_no_client(
    graph: og.Graph, client: Client, on_cluster: list[Client]
) -> None:
    with client.as_current():
        answer = og.bfs(graph, 1, client=False)
        og.validate(graph, answer, client=False)
        og.validate(answer, og.Kronecker(8), client=False)
    assert on_cluster == []


def test_a_client_that_is_given_comes_first(client: Client) -> None:
    with Client(client.cluster) as another:
        assert client_meant(None) is another
        assert client_meant(client) is client
        with client.as_current():
            assert client_meant(None) is client
        assert client_meant(False) is None
    assert client_meant(None) is client


def test_a_task_means_its_own_process(graph: og.Graph, client: Client) -> None:
    def inside(path: Path) -> tuple[bool, bytes]:
        return client_meant(None) is None, og.bfs(path, 1).level.tobytes()

    right = og.bfs(graph, 1, client=False).level.tobytes()
    assert client.submit(inside, graph.path, pure=False).result(60) == (True, right)


def test_graphs_in_memory_are_searched_here(client: Client, on_cluster: list[Client]) -> None:
    graph = og.from_edges(np.array([1, 2]), np.array([2, 3]))
    with client.as_current():
        assert og.bfs(graph, 1).level.tolist() == [0, 1, 2]
    assert on_cluster == []
    with pytest.raises(UsageError, match="in this process alone"):
        og.bfs(graph, 1, client=client)


@pytest.mark.parametrize(
    ("asynchronous", "status"), [(True, "running"), (False, "closing"), (False, "closed")]
)  # fmt: skip
def test_a_current_client_that_is_of_no_use_is_none(
    asynchronous: bool, status: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    useless = SimpleNamespace(asynchronous=asynchronous, status=status)
    monkeypatch.setattr("distributed.default_client", lambda: useless)
    assert client_meant(None) is None
    with pytest.raises(UsageError, match=r"give a dask\.distributed\.Client"):
        og.bfs(graph, 1, client=useless)  # type: ignore[arg-type]


def test_nobody_imports_distributed_to_find_a_client(graph: og.Graph) -> None:
    code = (
        "import sys, ooc_graph as og; og.bfs(sys.argv[1], 1); "
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(graph.path)], check=True, env=dict(os.environ))
