"""A task that is stopped between its end and its result's arrival ends as cancelled, quietly."""

import asyncio
import logging
import operator
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from threading import Lock
from typing import Any

import pytest
from distributed import Client
from distributed.comm import CommClosedError

from ooc_graph.session.task_executor import TaskExecutor

PATIENCE_S = 120


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as one:
        yield one


@pytest.mark.parametrize("way", ["the task", "the future", "the executor"])
def test_stopped_while_the_result_travels(
    way: str, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    executor = TaskExecutor(client)
    promised: list[Future[int]] = []
    held = Lock()  # until the future is here
    gather = client._gather

    async def stop_first(tasks: list[Any], *args: Any, **more: Any) -> Any:
        assert [task.status for task in tasks] == ["finished"]
        with held:
            stop = {
                "the task": partial(client.cancel, tasks),
                "the future": promised[0].cancel,
                "the executor": partial(executor.shutdown, wait=False),
            }[way]
        await asyncio.to_thread(stop)  # as from the main thread
        return await gather(tasks, *args, **more)

    monkeypatch.setattr(client, "_gather", stop_first)
    with caplog.at_level(logging.ERROR):
        with held:
            promised.append(executor.submit(operator.add, 1, 2))
        assert wait(promised, timeout=PATIENCE_S).not_done == set()
        # The loop has gone on behind what it was stopped in.
        client.sync(client.scheduler.identity)
    assert promised[0].cancelled()
    with pytest.raises(CancelledError):
        promised[0].result()
    assert caplog.text == ""


def test_a_connection_lost_while_the_result_travels(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(*_: Any, **__: Any) -> Any:
        raise CommClosedError("lost")

    monkeypatch.setattr(client, "_gather", lose)
    with pytest.raises(CommClosedError, match="lost"):
        TaskExecutor(client).submit(operator.add, 1, 2).result(PATIENCE_S)


def test_results_errors_and_cancelling(client: Client) -> None:
    executor = TaskExecutor(client)
    assert executor.submit(operator.add, 1, 2).result(PATIENCE_S) == 3
    with pytest.raises(ZeroDivisionError):
        executor.submit(operator.floordiv, 1, 0).result(PATIENCE_S)
    assert list(executor.map(abs, [-1, 2])) == [1, 2]
    executor.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(operator.add, 1, 2)
