"""Calls in event loops: awaited with an asynchronous client, and as ever with a synchronous one."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from distributed import Client, LocalCluster

import ooc_graph as og
from ooc_graph.api import dispatch
from ooc_graph.errors import UnknownVertexError, UsageError
from ooc_graph.runtime import workplace

WAIT_S = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(processes=False, **options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.build(og.Kronecker(8), tmp_path_factory.mktemp("g") / "g.zarr", client=False)


def loop_of(cluster: LocalCluster, body: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run a coroutine function in a loop of its own, whose asynchronous client is current."""

    async def main() -> Any:
        async with Client(cluster.scheduler_address, asynchronous=True) as client:
            return await asyncio.wait_for(body(client), WAIT_S)

    return asyncio.run(main())


CALLS: dict[str, Callable[..., Any]] = {
    "bfs": lambda graph, **where: og.bfs(graph, 1, **where),
    "sssp": lambda graph, **where: og.sssp(graph, 1, **where),
    "components": og.components,
    "johnson": lambda graph, **where: og.johnson(graph, [1, 2], **where),
    "shortest_paths": lambda graph, **where: og.shortest_paths(graph, [1, 2], **where),
    "multi_source_bfs": lambda graph, **where: og.multi_source_bfs(graph, [1], **where),
}


def test_searches_are_awaited(
    cluster: LocalCluster, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster = []
    make = workplace.OnCluster.__init__

    def noted(self: Any, client: Client, *rest: Any) -> None:
        on_cluster.append((client, client.scheduler.address))
        make(self, client, *rest)

    monkeypatch.setattr(workplace.OnCluster, "__init__", noted)

    async def body(client: Client) -> None:
        for name, call in CALLS.items():
            right = call(graph, client=False)
            for where in ({}, {"client": client}) if name == "bfs" else ({},):
                awaitable = call(graph, **where)
                assert inspect.isawaitable(awaitable), name
                found = await awaitable
                for column in right.names:
                    assert np.array_equal(found.read(column), right.read(column)), name
        assert len(on_cluster) == len(CALLS) + 1
        assert client not in dict(on_cluster)
        assert set(dict(on_cluster).values()) == {client.scheduler.address}

    loop_of(cluster, body)
    assert {one.status for one, _ in on_cluster} == {"closed"}


def test_builds_and_validation_are_awaited(cluster: LocalCluster, tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        graph = await cast(Any, og.build(og.Kronecker(8), tmp_path / "g.zarr"))
        answer, other = await asyncio.gather(
            cast(Any, og.bfs(graph, 1, out=tmp_path / "r.zarr")), cast(Any, og.bfs(graph, 2))
        )
        verdicts = await cast(Any, og.validate(graph, [answer, other]))
        assert [one.ok for one in verdicts] == [True, True]
        assert client.status == "running"

    loop_of(cluster, body)


def test_graphs_in_memory_are_searched_here(cluster: LocalCluster) -> None:
    graph = og.from_edges(np.array([1, 2]), np.array([2, 3]))

    async def body(_: Client) -> None:
        assert (await cast(Any, og.bfs(graph, 1))).level.tolist() == [0, 1, 2]

    loop_of(cluster, body)


def test_errors_come_when_awaited(cluster: LocalCluster, graph: og.Graph) -> None:
    async def body(client: Client) -> None:
        with pytest.raises(UnknownVertexError, match="vertex 900"):
            await cast(Any, og.bfs(graph, 900))
        with pytest.raises(UsageError, match="a synchronous client"):
            await cast(Any, og.bfs(graph, 1, arrays="dask"))
        assert og.bfs(graph, 1, client=False).level[1] == 0

    loop_of(cluster, body)


BEGAN, RELEASED = threading.Event(), threading.Event()


def stuck() -> None:
    """A task of the one cancelled call, on a worker of this process."""
    BEGAN.set()
    assert RELEASED.wait(WAIT_S)


def test_a_cancelled_call_ends_at_once(
    cluster: LocalCluster, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[BaseException] = []
    search = dispatch.search

    def waiting(graph: og.Graph, kernel: str, source: int, *, workplace: Any, **_: Any) -> Any:
        try:
            return workplace.call(stuck)
        except BaseException as error:
            errors.append(error)
            raise

    monkeypatch.setattr(dispatch, "search", waiting)

    async def body(_: Client) -> None:
        task = asyncio.ensure_future(cast(Any, og.bfs(graph, 1)))
        assert await asyncio.to_thread(BEGAN.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The thread has ended before, though the worker is still at its task.
        assert len(errors) == 1
        RELEASED.set()
        monkeypatch.setattr(dispatch, "search", search)
        assert (await cast(Any, og.bfs(graph, 1))).level.max() > 0

    loop_of(cluster, body)


def test_a_synchronous_client_in_a_running_loop_blocks_as_ever(
    cluster: LocalCluster, graph: og.Graph
) -> None:
    """As in a notebook, whose kernel runs a loop in the thread of the cells."""

    async def cell() -> og.BfsResult:
        with Client(cluster.scheduler_address) as client:
            assert np.array_equal(og.bfs(graph, 1).level, og.bfs(graph, 1, client=client).level)
            return og.bfs(graph, 1)

    assert asyncio.run(cell()).level[1] == 0
