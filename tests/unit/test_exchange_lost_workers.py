"""The scheduler exchange where workers are killed, freeze, leave or come back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.errors import ClusterLostError, MemoryBudgetError
from ooc_graph.exchange import attempt as attempt_module
from ooc_graph.exchange import party as party_module
from ooc_graph.exchange import scheduler
from ooc_graph.exchange.attempt import LostError
from ooc_graph.exchange.resident import PLUGIN_NAME
from ooc_graph.exchange.scheduler import run
from ooc_graph.model.request import Request
from ooc_graph.model.resources import CPU
from ooc_graph.runtime.workplace import OnCluster
from ooc_graph.search import candidates
from ooc_graph.search.execute import execute, plan_at
from ooc_graph.search.single import search_by
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.strategies.cpu.owned_on_disk import OwnedOnDisk
from ooc_graph.strategies.ranks import Ranks
from ooc_graph.types import NoProgress
from tests import toy_ranks
from tests.toy_ranks import (
    PATIENCE_S,
    SHARDS,
    addresses,
    assert_ring,
    make_ring,
    no_pause,
    open_boxes,
    share_no_memory,
    start,
    times_begun,
)

two_in_process = toy_ranks.two_in_process


def kill_once(flag: Path, how: int, rank: int, depth: int) -> None:
    """Rank 5's process ends, or freezes, at depth 3, the first time it comes there."""
    if rank == 5 and depth == 3:
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), how)


def kill_always(rank: int, depth: int) -> None:
    if rank == 5 and depth == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def brittle() -> Iterator[Client]:
    """Four workers to be harmed. Each test has its own: not every nanny brings its worker back."""
    with start(4) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize(("workers", "shares"), [(["0"], True), (None, True), (None, False)])
def test_same_answer_after_a_worker_was_killed(
    brittle: Client, tmp_path: Path, workers: list[str] | None, shares: bool
) -> None:
    if not shares:
        brittle.run(share_no_memory)
    pause = partial(kill_once, tmp_path / "killed", signal.SIGKILL)
    parts, _ = run(brittle, partial(make_ring, 20_000, 32, pause), 32, workers=workers)
    assert (tmp_path / "killed").exists()
    assert_ring(parts)
    assert set(open_boxes(brittle).values()) == {0}


def wait_once(flag: Path, rank: int, depth: int) -> None:
    """No rank goes beyond depth 3 before there is a file."""
    deadline_s = time.monotonic() + PATIENCE_S
    while depth == 3 and not flag.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_killed_from_outside_while_ranks_wait(brittle: Client, tmp_path: Path) -> None:
    pids = list(brittle.run(os.getpid).values())

    def kill_one() -> None:
        os.kill(pids[0], signal.SIGKILL)
        (tmp_path / "killed").touch()

    make = partial(make_ring, 20_000, SHARDS, partial(wait_once, tmp_path / "killed"))
    with once_begun(brittle, kill_one):
        parts, _ = run(brittle, make, SHARDS)
    assert (tmp_path / "killed").exists()
    # Three that were left had begun before, and began again.
    assert sum(times_begun(brittle).values()) >= 6
    assert_ring(parts)


@contextmanager
def once_begun(client: Client, harm: Callable[[], None]) -> Iterator[None]:
    """Do something as soon as ranks have begun on all workers."""

    def wait() -> None:
        while not all(times_begun(client).values()):
            time.sleep(0.02)
        harm()

    with ThreadPoolExecutor(1) as executor:
        harmed = executor.submit(wait)
        yield
        harmed.result(PATIENCE_S)


def test_gives_up_after_the_last_attempt(brittle: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "ATTEMPTS", 2)
    make = partial(make_ring, 20_000, SHARDS, kill_always)
    with pytest.raises(ClusterLostError, match=r"after 2 attempts.*; then ") as caught:
        run(brittle, make, SHARDS)
    assert caught.value.exit_code == 75


def test_a_frozen_worker_is_left_out(
    brittle: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = partial(kill_once, tmp_path / "frozen", signal.SIGSTOP)
    make = partial(make_impatient, partial(make_ring, 20_000, SHARDS, pause))
    monkeypatch.setattr(attempt_module, "CLOSE_S", 3.0)
    pids = list(brittle.run(os.getpid).values())
    try:
        parts, _ = run(brittle, make, SHARDS)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert (tmp_path / "frozen").exists()
    assert_ring(parts)


class FreezesOnItsWay:
    """An outcome whose worker stops when it is asked for it."""

    def __reduce__(self) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        return (FreezesOnItsWay, ())


def finish_frozen(rank: int, finished: Any, ranks: int) -> FreezesOnItsWay:
    del rank, finished, ranks
    return FreezesOnItsWay()


def test_a_worker_that_freezes_with_its_outcome_is_noticed_in_time() -> None:
    limits = {"ooc-graph.answer-timeout": "2s", "ooc-graph.patience": "3s"}
    with start(1) as cluster, Client(cluster) as client, dask.config.set(limits):
        (pid,) = client.run(os.getpid).values()
        begun_s = time.monotonic()
        try:
            with pytest.raises(ClusterLostError, match="has not answered for"):
                run(client, partial(make_ring, 100, 4, no_pause), 4, finish=finish_frozen)
            assert time.monotonic() - begun_s < 40
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_worker_that_is_retired_is_replaced(tmp_path: Path) -> None:
    make = partial(make_ring, 20_000, SHARDS, partial(wait_once, tmp_path / "retired"))
    with start(2, processes=False, protocol="tcp") as cluster, Client(cluster) as client:
        leaving = addresses(client)[1:]

        def retire() -> None:
            client.retire_workers(leaving)
            (tmp_path / "retired").touch()

        with once_begun(client, retire):
            parts, _ = run(client, make, SHARDS)
        assert list(times_begun(client).values()) == [2]
        assert_ring(parts)


def test_too_few_workers_are_left_for_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen when it is planned, or by the ranks: it may succeed when the worker is back."""
    monkeypatch.setitem(candidates.CANDIDATES, CPU, lambda: [Ranks(OwnedOnDisk())])
    graph = og.build(og.Kronecker(14), tmp_path / "g.zarr", shards=8)
    request, root = Request("sssp", "scheduler", answer_bytes=1), int(graph.original_of()[9])
    with start(3, processes=False, protocol="tcp") as cluster, Client(cluster) as client:
        small = OnCluster(client, 3)
        with pytest.raises(MemoryBudgetError) as caught:
            plan_at(small, graph, request)
        workplace = OnCluster(client, 3 * caught.value.least_bytes)
        first = plan_at(workplace, graph, request)
        client.retire_workers(addresses(client)[:1])
        assert workplace.cluster.wait_for_workers(lambda left: left if len(left) == 2 else [])
        with pytest.raises(ClusterLostError, match="1 of 3 workers cannot work"):
            plan_at(workplace, graph, request)
        with pytest.raises(MemoryBudgetError):  # with three, too
            plan_at(small, graph, request)
        with pytest.raises(ClusterLostError, match="1 of 3 workers cannot work"):
            execute(first, workplace, NoProgress(), lambda plan: search_by(plan, root, workplace))


def test_a_worker_was_lost_before_ranks_lack_memory(
    two_in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be back when that is known."""
    ends = iter([LostError("w left", set(), is_refusal=False), MemoryBudgetError("needs more")])

    def end(*_: Any) -> None:
        raise next(ends)

    monkeypatch.setattr(attempt_module.Attempt, "run", end)
    with pytest.raises(MemoryBudgetError) as caught:
        run(two_in_process, partial(make_ring, 100, 4, no_pause), 4)
    found = OnCluster(two_in_process).with_lost(caught.value.lost)
    assert found is not None
    lost, resources = found
    assert (lost, resources.processes) == ("w left", 2)


def test_a_worker_that_brings_no_memory_is_not_lost(two_in_process: Client) -> None:
    workplace, (first, *_) = OnCluster(two_in_process), addresses(two_in_process)
    workplace._brought[first] = workplace._brought[first]._replace(why="its limit is too small")
    assert workplace.with_lost("") is None


def test_a_build_has_the_memory_of_workers_that_come_back(
    two_in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two is being restarted when the workplace is made."""
    limit_bytes, (first, _) = 200 << 20, addresses(two_in_process)
    known = OnCluster._known
    with monkeypatch.context() as patch:
        patch.setattr(OnCluster, "_known", lambda *given: [a for a in known(*given) if a == first])
        workplace = OnCluster(two_in_process, limit_bytes)
    with workplace.workforce() as workforce:
        assert workforce.budget == BuildBudget(limit_bytes, 2, workforce.budget.slots)


def make_impatient(make: Callable[[Sequence[int]], Any], ranks: Sequence[int]) -> Any:
    # Long enough for workers that are merely slow.
    party_module.SILENCE_S = 0.5
    party_module.PROBE_S = 4.0
    return make(ranks)


def forget_plugin(dask_worker: Any) -> None:
    dask_worker.plugins.pop(PLUGIN_NAME).teardown(dask_worker)


def test_a_worker_restarted_under_its_address_is_tried_again(
    two_in_process: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, attempts = attempt_module.Attempt._submit, []

    def after_restart(self: Any, *args: Any) -> None:
        if not attempts:
            two_in_process.run(forget_plugin, workers=addresses(two_in_process)[:1])
        attempts.append(self)
        submit(self, *args)

    monkeypatch.setattr(attempt_module.Attempt, "_submit", after_restart)
    parts, _ = run(two_in_process, partial(make_ring, 20_000, SHARDS, no_pause), SHARDS)
    assert len(attempts) == 2
    assert_ring(parts)
