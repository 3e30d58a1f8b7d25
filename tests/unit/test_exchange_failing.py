"""The scheduler exchange where ranks raise or diverge, and where a run is given up."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client

from ooc_graph.errors import ClusterLostError, CorruptStoreError, InputError
from ooc_graph.exchange import attempt as attempt_module
from ooc_graph.exchange import party as party_module
from ooc_graph.exchange.interface import Route, Share
from ooc_graph.exchange.messages import Messages
from ooc_graph.exchange.parcel import Kind, Parcel
from ooc_graph.exchange.party import DivergedRanksError
from ooc_graph.exchange.resident import POST_OP, open_attempt
from ooc_graph.exchange.scheduler import run
from tests import toy_ranks
from tests.toy_ranks import (
    PATIENCE_S,
    SHARDS,
    Seen,
    addresses,
    make_ring,
    make_sharing,
    open_boxes,
    share_no_memory,
    sleep_a_little,
    start,
)

four = toy_ranks.four


def raising(rank: int, error: BaseException) -> Generator[Share, Any, None]:
    yield Share((0,))
    if rank in (3, 6):
        raise error
    yield Share((0,))


def make_raising(
    error: BaseException, ranks: Sequence[int]
) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: raising(rank, error) for rank in ranks}, Seen()))


def be_silent_for(seconds: float) -> None:
    party_module.SILENCE_S = seconds


@pytest.mark.parametrize(
    "error",
    [
        CorruptStoreError("shards/00003/out: chunk 2"),
        InputError("bad weight", path="a.txt", line=3),
        MemoryError("no room"),
        OSError(28, "no space left on device"),
    ],
)
def test_what_a_rank_raises_comes_to_the_client(four: Client, error: Exception) -> None:
    silence_s, began_s = party_module.SILENCE_S, time.perf_counter()
    # Ranks that nobody tells do not find out: they wait until the client waits no longer for them.
    four.run(be_silent_for, 1e9)
    try:
        with pytest.raises(type(error)) as caught:
            run(four, partial(make_raising, error), SHARDS)
    finally:
        four.run(be_silent_for, silence_s)
    assert str(caught.value) == str(error)
    assert time.perf_counter() - began_s < attempt_module.DRAIN_S
    assert set(open_boxes(four).values()) == {0}
    results, _ = run(four, partial(make_sharing, 1), SHARDS)
    assert results[0][0] == [(28, 0, 8)]


def make_slow_or_raising(ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    def slow_or_raising(rank: int) -> Generator[Share, Any, None]:
        time.sleep(0.1 + 0.3 * rank)
        if rank == 0:
            raise InputError("bad weight")
        yield Share((0,))

    return nullcontext(({rank: slow_or_raising(rank) for rank in ranks}, Seen()))


def test_a_rank_raises_while_a_thread_is_at_another(four: Client) -> None:
    with pytest.raises(InputError, match="bad weight"):
        run(four, make_slow_or_raising, 2, workers=addresses(four)[:1], threads=2)


class StubbornError(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("I stay here")


def raise_stubborn(ranks: Sequence[int]) -> Any:
    raise StubbornError("in the factory")


def raise_in_finish(shard: int, result: Any, ranks: int) -> None:
    if shard == 2:
        raise ValueError(f"cannot write {shard}")


def test_factory_and_finish_may_raise(four: Client) -> None:
    with pytest.raises(RuntimeError, match="StubbornError: in the factory") as caught:
        run(four, raise_stubborn, SHARDS)
    assert "raise_stubborn" in "".join(caught.value.__notes__)
    with pytest.raises(ValueError, match="cannot write 2"):
        run(four, partial(make_sharing, 1), SHARDS, finish=raise_in_finish)
    assert set(open_boxes(four).values()) == {0}


def diverging(rank: int) -> Generator[Any, Any, None]:
    yield Share((0,))
    if rank == 7:
        yield Route(np.empty(0, np.int64))
    elif rank != 6:
        yield Share((0,))


def make_diverging(ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: diverging(rank) for rank in ranks}, Seen()))


@pytest.mark.parametrize("workers", [1, 4])
def test_ranks_that_diverge_are_found(four: Client, workers: int) -> None:
    with pytest.raises(DivergedRanksError, match="superstep 1"):
        run(four, make_diverging, SHARDS, workers=addresses(four)[:workers])


def make_ending_early(ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    """The ranks of one worker alone."""
    return nullcontext(({rank: twice(first=0 in ranks) for rank in ranks}, Seen()))


def twice(*, first: bool) -> Generator[Any, Any, None]:
    yield Share((0,))
    if not first:
        yield Share((0,))


def test_a_worker_whose_ranks_end_early_is_found(four: Client) -> None:
    """By the next question but one: nobody tells workers of its own host that it is done."""
    silence_s = party_module.SILENCE_S
    four.run(be_silent_for, 0.2)
    try:
        with pytest.raises(DivergedRanksError, match=r"superstep 1: .* to share, .* to done"):
            run(four, make_ending_early, SHARDS)
    finally:
        four.run(be_silent_for, silence_s)
    assert set(open_boxes(four).values()) == {0}


def mixed(rank: int) -> Generator[Any, Any, None]:
    yield Route(np.arange(4, dtype=np.int64 if rank < 4 else np.uint32))


def make_mixed(ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: mixed(rank) for rank in ranks}, Seen()))


def test_columns_must_have_one_dtype(four: Client) -> None:
    with pytest.raises(TypeError, match=r"int64.*uint32"):
        run(four, make_mixed, SHARDS, workers=addresses(four)[:2])


class Enough(BaseException):
    """Stands for KeyboardInterrupt, which would end the test run too."""


def test_interrupt_ends_the_run_on_the_workers(
    four: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: Any) -> None:
        if all(rank_threads(four).values()):
            raise Enough

    monkeypatch.setattr(attempt_module.Attempt, "_look_for_lost", stop)
    make = partial(make_ring, 400_000, SHARDS, sleep_a_little)
    with pytest.raises(Enough):
        run(four, make, SHARDS)
    assert_idle(four)


def assert_idle(client: Client) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if not any(client.processing().values()) and not any(rank_threads(client).values()):
            break
        time.sleep(0.05)
    assert not any(client.processing().values())
    assert not any(rank_threads(client).values())
    assert set(open_boxes(client).values()) == {0}


def rank_threads(client: Client) -> dict[str, int]:
    def count(dask_worker: Any) -> int:
        return len(dask_worker.active_threads)

    return client.run(count)


# Dask forgets what another thread asks of a client in the moment that its event loop stops.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_tasks_end_when_their_client_is_gone(four: Client) -> None:
    make = partial(make_ring, 400_000, SHARDS, sleep_a_little)
    with Client(four.scheduler.address) as other:
        failures: list[BaseException] = []

        def watched() -> None:
            try:
                run(other, make, SHARDS)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        thread = threading.Thread(target=watched)
        thread.start()
        while not all(rank_threads(four).values()):
            time.sleep(0.02)
        time.sleep(0.2)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [type(failure) for failure in failures] == [ClusterLostError]
    gc.collect()
    assert_idle(four)


def test_a_worker_that_is_not_there_is_waited_for_as_long_as_the_patience(four: Client) -> None:
    with (
        dask.config.set({"ooc-graph.patience": "0.1s"}),
        pytest.raises(ClusterLostError, match="no worker could work"),
    ):
        run(four, make_diverging, 1, workers=["tcp://127.0.0.1:1"])


async def post(parcel: Parcel, dask_worker: Any) -> str:
    return await dask_worker.handlers[POST_OP](parcel)


def test_stale_parcels_are_refused(four: Client) -> None:
    address = addresses(four)[0]
    array = np.arange(3)

    def deliver_to(run_id: str, attempt: int, superstep: int) -> str:
        parcel = Parcel(run_id, attempt, superstep, 1, 0, 1, Kind.SHARE, None, (array,))
        return four.run(post, parcel, workers=[address])[address]

    four.run(open_attempt, "r", 0, frozenset({1}), workers=[address])
    assert deliver_to("r", 0, 0) == "kept"
    four.run(open_attempt, "r", 1, frozenset({1}), workers=[address])
    assert deliver_to("r", 0, 1) == "stale"
    assert deliver_to("other", 1, 0) == "stale"
    assert deliver_to("r", 1, 0) == "kept"
    for attempt in (0, 1):
        four.run(attempt_module.close_attempt, "r", attempt, "tested", workers=[address])
    assert deliver_to("r", 1, 0) == "stale"
    assert set(open_boxes(four).values()) == {0}


def lose_a_parcel(superstep: int, dask_worker: Any) -> None:
    """Have the next small parcels of a superstep from the first member go nowhere."""
    party_module.SILENCE_S = 0.2
    plain = Messages._send

    async def send(self: Any, member: int, parcels: Sequence[Parcel]) -> None:
        if (parcels[0].superstep, parcels[0].sender, parcels[0].attempt) == (superstep, 0, 0):
            self._unanswered.discard(member)
            return
        await plain(self, member, parcels)

    Messages._send = send  # type: ignore[method-assign]


def delay_parcels(dask_worker: Any) -> None:
    """Have the parcels of superstep 2 from the first member take longer than some probes."""
    party_module.SILENCE_S = 0.2
    plain = Messages._send

    async def send(self: Any, member: int, parcels: Sequence[Parcel]) -> None:
        if (parcels[0].superstep, parcels[0].sender) == (2, 0):
            await asyncio.sleep(4)
        await plain(self, member, parcels)

    Messages._send = send  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("harm", "lost"),
    [
        (partial(lose_a_parcel, 2), ["a parcel to"]),
        (partial(lose_a_parcel, 4), ["sent last was lost"]),
        (delay_parcels, []),
    ],
)
def test_a_lost_parcel_is_noticed_and_a_slow_one_is_waited_for(
    harm: Any, lost: Sequence[str]
) -> None:
    """The other worker is a superstep ahead by then, or done: it had what it waited for."""
    said: list[str] = []
    with start(2) as cluster, Client(cluster) as client:
        client.run(share_no_memory)
        client.run(harm)
        results, _ = run(client, partial(make_sharing, 4), 2, note=said.append)
    assert len(results) == 2
    assert len(said) == len(lost)
    assert all(why in line for why, line in zip(lost, said, strict=True))
