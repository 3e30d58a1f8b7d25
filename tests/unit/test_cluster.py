"""What a cluster is seen as: workers that work, are silent, paused or gone; silent schedulers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import Any

import dask
import pytest
from distributed import Client

from ooc_graph.errors import ClusterLostError, UsageError
from ooc_graph.exchange import cluster as cluster_module
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.scheduler import _workers
from ooc_graph.exchange.worker_states import NO_WORKERS, WorkerState, describe, within
from ooc_graph.settings import answer_timeout_s, patience_s
from tests.toy_ranks import start


class MadeUpClient:
    """Client of a scheduler that is not there; its clock is set by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status, self.answers = "running", True
        self.workers: dict[str, dict[str, Any]] = {}
        self.now_s = 100.0
        monkeypatch.setattr(cluster_module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(cluster_module, "sleep", self.wait)

    @property
    def scheduler(self) -> MadeUpClient:
        return self

    async def identity(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        if not self.answers:
            raise OSError("timed out")
        return {"workers": {a: dict(worker) for a, worker in self.workers.items()}}

    def sync(
        self, question: Callable[..., Any], *given: Any, callback_timeout: float, **options: Any
    ) -> Any:
        assert callback_timeout <= 10.0
        return asyncio.run(question(*given, **options))

    def add(self, address: str, status: str = "running") -> None:
        self.workers[address] = {
            "name": f"name of {address}",
            "host": "h",
            "status": status,
            "last_seen": 1.0,
            "nthreads": 1,
            "memory_limit": 1000,
            "metrics": {"memory": 900},
        }

    def beat(self, *addresses: str) -> None:
        for address in addresses:
            self.workers[address]["last_seen"] += 0.5

    def wait(self, seconds: float) -> None:
        """Sleep, while all workers are well."""
        self.now_s += seconds
        self.beat(*self.workers)

    def pass_s(self, seconds: int, *beating: str) -> dict[str, Any]:
        """Let time pass, with a look each second."""
        for _ in range(seconds):
            self.now_s += 1
            self.beat(*beating)
            states = Cluster.of(self).look()  # type: ignore[arg-type]
        return states


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MadeUpClient:
    made_up = MadeUpClient(monkeypatch)
    made_up.add("a")
    made_up.add("b")
    return made_up


def test_a_worker_without_heartbeats_is_silent_within_ten_seconds(client: Any) -> None:
    cluster = Cluster.of(client)
    assert all(state.can_work for state in cluster.look().values())
    states = client.pass_s(9, "a")
    assert states["b"].can_work
    states = client.pass_s(1, "a")
    assert states["a"].can_work
    assert states["b"].is_silent
    assert "b has not answered for 10 s" in describe(states.values())
    assert client.pass_s(1, "a", "b")["b"].can_work


def test_a_process_that_was_stopped_itself_takes_nobody_for_silent(client: Any) -> None:
    cluster = Cluster.of(client)
    cluster.look()
    client.now_s += 3600
    assert all(state.can_work for state in cluster.look().values())


def test_heartbeats_of_large_clusters_are_rarer(client: Any) -> None:
    for number in range(2000):
        client.add(f"c{number}")
    Cluster.of(client).look()
    assert client.pass_s(30)["a"].can_work
    assert client.pass_s(4)["a"].is_silent


def test_the_scheduler_is_asked_at_most_twice_a_second(client: Any) -> None:
    cluster = Cluster.of(client)
    cluster.look()
    client.add("c")
    assert len(cluster.look()) == 2
    client.now_s += 0.5
    assert len(cluster.look()) == 3


def test_a_silent_scheduler_makes_no_worker_silent_and_is_lost_in_the_end(client: Any) -> None:
    cluster = Cluster.of(client)
    cluster.look()
    client.answers = False
    assert all(state.can_work for state in client.pass_s(60).values())
    with pytest.raises(ClusterLostError, match=r"scheduler has not answered for 6\d s"):
        client.pass_s(2)
    client.answers = True
    assert len(client.pass_s(1)) == 2


def test_a_pause_of_the_caller_is_no_silence_of_the_scheduler(client: Any) -> None:
    """As of a notebook whose next question, an hour later, goes astray."""
    cluster = Cluster.of(client)
    cluster.look()
    client.now_s += 3600
    client.answers = False
    assert len(client.pass_s(50)) == 2
    client.answers = True
    assert len(client.pass_s(1)) == 2


def test_paused_workers_are_named_with_what_to_change(client: Any) -> None:
    client.add("a", "paused")
    state = Cluster.of(client).look()["a"]
    assert not state.can_work
    assert state.is_paused
    said = str(state)
    assert "paused by Dask: its process has 900 B of 0.98 kiB" in said
    assert "distributed.worker.memory.pause" in said


def test_workers_that_were_lost_before_are_used_if_nobody_else_comes(client: Any) -> None:
    cluster, said = Cluster.of(client), list[str]()
    assert _workers(cluster, None, {"a"}, 60, said.append) == ["b"]
    assert not said
    assert _workers(cluster, None, {"a", "b"}, 60, said.append) == ["a", "b"]
    assert len(said) == 1
    assert _workers(cluster, ["c"], set(), 60, said.append) == []
    assert _workers(cluster, ["name of b"], set(), 60, said.append) == ["b"]


def test_a_wait_ends_with_the_patience(client: Any) -> None:
    client.workers.clear()
    cluster, said = Cluster.of(client), list[str]()
    begun_s = client.now_s
    with dask.config.set({"ooc-graph.patience": "7s"}):
        assert cluster.wait_for_workers(list, on_wait=said.append) == {}
    assert client.now_s - begun_s == pytest.approx(7, abs=1)
    assert said == [NO_WORKERS]


def test_a_worker_that_leaves_while_it_is_chosen_is_told_of_as_it_was(client: Any) -> None:
    def choose(states: dict[str, WorkerState]) -> list[str]:
        client.workers.clear()
        client.now_s += 1
        assert Cluster.of(client).look() == {}
        return list(states)

    assert Cluster.of(client).wait_for_workers(choose).keys() == {"a", "b"}


@pytest.mark.parametrize("given", ["abc", "-1", -5, "", "nan", "inf", "1e400", None, [1], {}])
@pytest.mark.parametrize(
    ("name", "ask"),
    [("ooc-graph.patience", patience_s), ("ooc-graph.answer-timeout", answer_timeout_s)],
)
def test_a_setting_that_is_no_time_is_refused(
    name: str, ask: Callable[[], float], given: Any
) -> None:
    with dask.config.set({name: given}), pytest.raises(UsageError, match=f"{name} is "):
        ask()


def test_settings_are_times() -> None:
    with dask.config.set({"ooc-graph.patience": "0", "ooc-graph.answer-timeout": "2m"}):
        assert (patience_s(), answer_timeout_s()) == (0, 120)
    with (
        dask.config.set({"ooc-graph.answer-timeout": "0"}),
        pytest.raises(UsageError, match=r"from 0\.1 s on"),
    ):
        answer_timeout_s()


def test_what_is_made_too_late_is_closed() -> None:
    closed, go_on = Event(), Event()

    class Made:
        def close(self) -> None:
            closed.set()

    def make() -> Made:
        go_on.wait()
        return Made()

    with pytest.raises(TimeoutError):
        within(0.05, make)
    assert not closed.is_set()
    go_on.set()
    assert closed.wait(60)
    assert isinstance(within(60, Made), Made)
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)


def test_workers_without_the_package_are_named(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Dask tells of what it cannot unpickle."""
    missing = Exception("ModuleNotFoundError(\"No module named 'ooc_graph'\")")
    monkeypatch.setattr(Cluster, "ask_each", lambda *_: {"a": 1, "b": missing})
    with pytest.raises(UsageError, match="worker b cannot import ooc_graph"):
        Cluster.of(client).ask(len)


def test_a_closed_client_is_a_lost_cluster(client: Any) -> None:
    client.status = "closed"
    with pytest.raises(ClusterLostError, match="closed"):
        Cluster.of(client).look()


def test_workers_are_named_while_the_client_asks_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dask's own question of every two seconds, asked all the time here, takes no answer away."""
    monkeypatch.setattr(cluster_module, "LOOK_EVERY_S", 0.0)
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        start(1) as cluster,
        Client(cluster) as client,
    ):
        assert all(len(Cluster.of(client).look()) == 1 for _ in range(500))
    with pytest.raises(ClusterLostError, match="closed"):
        Cluster.of(client).look()


def test_workers_are_asked_again_after_a_moment_or_for_others(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, asked = Cluster.of(client), list[Any]()

    def ask(function: Any, *arguments: Any, of: Any) -> dict[str, Any]:
        asked.append((arguments, of))
        return {"a": len(asked)}

    monkeypatch.setattr(cluster, "ask", ask)
    for arguments, of, answer in (
        ((), None, 1), ((), None, 1), ((1,), None, 2), ((1,), ["a"], 3), ((1,), ["a"], 3)
    ):  # fmt: skip
        assert cluster.asked(len, *arguments, of=of) == {"a": answer}
    assert cluster.asked(max, 1, of=["a"]) == {"a": 4}
    assert cluster.asked(len, 1, of=["a"]) == {"a": 3}
    client.now_s += 0.5
    assert cluster.asked(len, 1, of=["a"]) == {"a": 5}
