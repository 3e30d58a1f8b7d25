"""Tasks that are stopped, whose results travel badly, or whose workers cannot go on."""

from __future__ import annotations

import asyncio
import logging
import operator
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from threading import Lock
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster, get_worker
from distributed.comm import CommClosedError

import ooc_graph as og
from ooc_graph.edges.dask_parts import compute
from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.task import executing
from ooc_graph.exchange.tasks import Tasks
from tests.toy_ranks import start

PATIENCE_S = 120


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    given = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with Client(processes=False, **given) as one:
        yield one


@pytest.fixture
def two() -> Iterator[Client]:
    """Two workers with a process each, to be harmed."""
    with start(2) as cluster, Client(cluster) as two:
        yield two


def tasks_of(client: Client, said: list[str] | None = None) -> Tasks:
    return Tasks(Cluster.of(client), [].append if said is None else said.append)


@pytest.mark.parametrize("way", ["the future", "the executor"])
def test_stopped_while_the_result_travels(
    way: str, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = tasks_of(client)
    promised: list[Future[int]] = []
    held = Lock()  # until the future is here
    gather = client._gather

    async def stop_first(sent: list[Any], *args: Any, **more: Any) -> Any:
        assert [task.status for task in sent] == ["finished"]
        with held:
            stop = {"the future": promised[0].cancel, "the executor": tasks.cancel_all}[way]
        await asyncio.to_thread(stop)  # as from the main thread
        return await gather(sent, *args, **more)

    monkeypatch.setattr(client, "_gather", stop_first)
    with caplog.at_level(logging.ERROR):
        with held:
            promised.append(tasks.submit(operator.add, 1, 2))
        assert wait(promised, timeout=PATIENCE_S).not_done == set()
        # The loop has gone on behind what it was stopped in.
        client.sync(client.scheduler.identity)
    assert promised[0].cancelled()
    with pytest.raises(CancelledError):
        promised[0].result()
    assert caplog.text == ""


def test_what_the_scheduler_forgot_is_sent_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, gather, cancelled = tasks_of(client), client._gather, []

    async def cancel_first(sent: list[Any], *args: Any, **more: Any) -> Any:
        if not cancelled:
            cancelled.append(sent)
            await client.cancel(sent, asynchronous=True)
        return await gather(sent, *args, **more)

    monkeypatch.setattr(client, "_gather", cancel_first)
    assert tasks.result(tasks.submit(operator.add, 1, 2)) == 3
    assert cancelled


def test_a_result_that_cannot_be_fetched_is_computed_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, gather, lost = tasks_of(client), client._gather, []

    async def lose(*given: Any, **more: Any) -> Any:
        if len(lost) < 2:
            lost.append(given)
            raise CommClosedError("lost")
        return await gather(*given, **more)

    monkeypatch.setattr(client, "_gather", lose)
    assert tasks.result(tasks.submit(operator.add, 1, 2)) == 3
    monkeypatch.setattr(client, "_gather", always_lose)
    with pytest.raises(ClusterLostError, match=r"add was cancelled.*could not be fetched"):
        tasks.result(tasks.submit(operator.add, 1, 3))


async def always_lose(*_: Any, **__: Any) -> Any:
    raise CommClosedError("lost")


def test_results_errors_and_none(client: Client) -> None:
    tasks = tasks_of(client)
    assert tasks.result(tasks.submit(operator.add, 1, 2)) == 3
    assert tasks.result(tasks.submit(_nothing)) is None
    with pytest.raises(ZeroDivisionError):
        tasks.result(tasks.submit(operator.floordiv, 1, 0))
    assert not tasks._waiting


def _nothing() -> None:
    """Have no result."""


def freeze_once(flag: Path) -> str:
    """Stop the worker's process, the first time; give its address."""
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return str(get_worker().address)
    os.kill(os.getpid(), signal.SIGSTOP)
    return ""


def kill_once(flag: Path) -> str:
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return str(get_worker().address)


def thaw(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("is_tied", [True, False])
def test_a_task_at_a_frozen_worker_goes_to_another(
    is_tied: bool, two: Client, tmp_path: Path
) -> None:
    pids, said = list(two.run(os.getpid).values()), list[str]()
    tasks = tasks_of(two, said)
    first = min(Cluster.of(two).look())

    def choose(workers: Any) -> str:
        return min(worker.address for worker in workers)

    with dask.config.set({"ooc-graph.answer-timeout": "3s"}):
        flag = tmp_path / "frozen"
        sent = tasks.submit_to(choose, freeze_once, flag) if is_tied else None
        try:
            done = tasks.result(sent or tasks.submit(freeze_once, flag))
        finally:
            thaw(pids)
    assert done in Cluster.of(two).look()
    assert not is_tied or done != first
    assert len(said) == 1
    assert "has not answered for" in said[0]


def test_a_task_whose_only_worker_restarts_goes_on_there(tmp_path: Path) -> None:
    """Its address is another one then, to which Dask does not move what is tied to the first."""
    with start(1) as cluster, Client(cluster) as client:
        tasks = tasks_of(client)
        (before,) = Cluster.of(client).look()
        sent = tasks.submit_to(choose_first, kill_once, tmp_path / "k")
        after = tasks.result(sent)
        assert after != before


def test_nobody_within_the_patience_is_a_lost_cluster(two: Client, tmp_path: Path) -> None:
    pids = list(two.run(os.getpid).values())
    tasks, limits = tasks_of(two), {"ooc-graph.answer-timeout": "1s", "ooc-graph.patience": "1s"}
    try:
        with dask.config.set(limits):
            Cluster.of(two).look()
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            begun_s = time.monotonic()
            with pytest.raises(ClusterLostError, match=r"no worker could continue") as caught:
                tasks.result(tasks.submit(operator.add, 1, 2))
        assert time.monotonic() - begun_s < 60
        assert str(caught.value).count("has not answered for") == 2
    finally:
        thaw(pids)


def pause(dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = 1e-6
    dask_worker.status = type(dask_worker.status).paused


def resume(dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = False
    dask_worker.status = type(dask_worker.status).running


def test_what_waits_at_a_paused_worker_goes_to_another_and_what_runs_stays(
    tmp_path: Path,
) -> None:
    with start(2, memory_limit="4GB", threads_per_worker=1) as cluster, Client(cluster) as client:
        first, second = sorted(Cluster.of(client).look())
        said: list[str] = []
        tasks = tasks_of(client, said)
        running = tasks.submit_to(choose_first, address_once, tmp_path / "moved")
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(client.run(executing).values()):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        waiting = tasks.submit_to(choose_first, address_once, tmp_path)
        client.run(pause, workers=[first])
        assert tasks.result(waiting) == second
        (tmp_path / "moved").touch()
        assert tasks.result(running) == first
        assert any("is paused by Dask" in line for line in said)
        client.run(resume, workers=[first])


def choose_first(workers: Any) -> str:
    return min(worker.address for worker in workers)


def address_once(there: Path) -> str:
    """Address of the worker, once there is a path."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not there.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return str(get_worker().address)


def test_a_task_that_dask_keeps_while_all_are_paused_is_given_up_in_time() -> None:
    """It is at no worker then: Dask has it in the state no-worker, restricted or not."""
    with start(2, memory_limit="4GB") as cluster, Client(cluster) as client:
        Cluster.of(client).look()
        tasks = tasks_of(client)
        # Between a look, in which all can work, and the task's arrival at the scheduler.
        client.run(pause)
        sent = [tasks.submit(operator.add, 1, 2), tasks.submit_to(choose_first, abs, -1)]
        limits = dask.config.set({"ooc-graph.patience": "1s"})
        with limits, pytest.raises(ClusterLostError) as lost:
            [tasks.result(each) for each in sent]
        assert str(lost.value).count("is paused by Dask") == 2


class Unreadable:
    """A result that its worker can send and the client cannot read."""

    def __reduce__(self) -> Any:
        return fail_here, (os.getpid(),)


def fail_here(pid: int) -> str:
    if os.getpid() != pid:
        raise ImportError("no module of that name")
    return "readable"


def test_a_result_that_cannot_be_read_is_an_error() -> None:
    with start(1) as cluster, Client(cluster) as client:
        tasks = tasks_of(client)
        with pytest.raises(ImportError, match="no module of that name"):
            tasks.result(tasks.submit(Unreadable))


def test_a_worker_that_has_left_has_no_tasks(client: Client) -> None:
    (here,) = Cluster.of(client).look()
    assert Cluster.of(client).tasks_at([here, "tcp://127.0.0.1:1"]) == {
        here: [],
        "tcp://127.0.0.1:1": [],
    }


def test_a_collection_on_a_frozen_worker_is_given_up_in_time(two: Client) -> None:
    held = two.persist(dask.delayed(abs)(-7))
    until_s = time.monotonic() + PATIENCE_S
    while not two.futures_of(held)[0].done():
        assert time.monotonic() < until_s
        time.sleep(0.05)
    (holder,) = next(iter(two.who_has(held).values()))
    (pid,) = two.run(os.getpid, workers=[holder]).values()
    os.kill(pid, signal.SIGSTOP)
    try:
        limits = {"ooc-graph.answer-timeout": "1s", "ooc-graph.patience": "1s"}
        with dask.config.set(limits), pytest.raises(ClusterLostError, match="has not answered"):
            compute(two, held)
    finally:
        thaw([pid])
    assert compute(two, held) == 7


def test_waits_leave_nothing_on_the_event_loop(client: Client, tmp_path: Path) -> None:
    def tasks_there() -> int:
        return len(asyncio.all_tasks(client.loop.asyncio_loop))

    ended = tmp_path / "ended"
    future, cluster = client.submit(address_once, ended), Cluster.of(client)
    try:
        cluster.wait([future], 0.05)
        before = tasks_there()
        for _ in range(20):
            cluster.wait([future], 0.05)
        # A busy loop ends them later.
        deadline_s = time.monotonic() + 5
        while tasks_there() > before + 2:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
    finally:
        ended.touch()


def test_tasks_say_what_they_do_on_the_dashboard_and_in_the_logs_of_workers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Clusters of other tests are silent, and leave their loggers so.
    caplog.set_level(logging.INFO, "distributed.worker.ooc_graph")
    graph = og.build(og.Kronecker(8), tmp_path / "g.zarr", client=False)
    local = LocalCluster(
        n_workers=2, processes=False, silence_logs=False, dashboard_address="127.0.0.1:0"
    )
    with local as cluster, Client(cluster) as client:
        og.bfs(graph, 1)
        og.bfs(graph, 1, exchange="scheduler")
        og.build(og.Kronecker(8), tmp_path / "h.zarr")
        assert all(name.startswith("ooc-graph") for name in cluster.scheduler.task_prefixes)
        logs = client.get_worker_logs().values()
    lines = [line.partition(" - INFO - ")[2] for log in logs for _, line in log]
    begun = {line.removesuffix(" begins") for line in lines if line.endswith(" begins")}
    assert begun >= {"ooc-graph-bfs-whole", "ooc-graph-ranks", "ooc-graph-describe"}
    assert len(begun) < 10
    for name in begun:
        assert any(line.startswith(f"{name} is done after ") for line in lines)
