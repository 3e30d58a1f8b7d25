"""The scheduler exchange against plain oracles, and what it does when workers or ranks fail."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster, Security, get_worker

from ooc_graph.errors import ClusterLostError, CorruptStoreError, InputError, UsageError
from ooc_graph.exchange import attempt as attempt_module
from ooc_graph.exchange import party as party_module
from ooc_graph.exchange.cluster import still_there, usable_workers, workers_of
from ooc_graph.exchange.interface import Arrived, Route, Share
from ooc_graph.exchange.parcel import Kind, Parcel, cut_arrays, cut_rows, join_arrays
from ooc_graph.exchange.party import DivergedRanksError
from ooc_graph.exchange.placement import place
from ooc_graph.exchange.postbox import Postbox, StaleParcelError
from ooc_graph.exchange.resident import PLUGIN_NAME, POST_OP, open_attempt
from ooc_graph.exchange.routing import Inbound, deliver, seat_of_rank, sort_by_seat
from ooc_graph.exchange.scheduler import run, worker_state
from ooc_graph.types import DEAL_BLOCK, owner_of

SHARDS = 8
# For what comes at once unless something is wrong, or the machine is very busy.
PATIENCE_S = 120.0


# ---- toy algorithms ------------------------------------------------------------------------


class Seen:
    """Keeps every superstep's payloads, in the order given."""

    def __init__(self) -> None:
        self.payloads: list[list[tuple[Any, ...]]] = []

    def merge(self, payloads: Sequence[tuple[Any, ...]]) -> None:
        self.payloads.append([tuple(np.array(a) for a in payload) for payload in payloads])


def payload_of(rank: int, superstep: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([rank, superstep])
    return (
        rng.integers(0, 1 << 40, size=int(rng.integers(0, 50))),
        rng.random((int(rng.integers(0, 4)), 3)).astype(np.float32),
    )


def sharing(rank: int, supersteps: int, seen: Seen) -> Generator[Share, Any, Any]:
    sums = []
    for superstep in range(supersteps):
        world = yield Share((rank, superstep, 1), payload_of(rank, superstep))
        sums.append(world.counts)
    return sums, seen.payloads


def make_sharing(supersteps: int, ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    seen = Seen()
    return {rank: sharing(rank, supersteps, seen) for rank in ranks}, seen


def route_of(rank: int, superstep: int, entries: int) -> Route:
    rng = np.random.default_rng([rank, superstep, 7])
    size = int(rng.integers(0, entries)) if rank % 3 else 0
    target = rng.integers(0, 64 * DEAL_BLOCK, size=size)
    return Route(target, (np.full(size, rank, np.int16), rng.random(size)))


def routing(rank: int, supersteps: int, entries: int) -> Generator[Route, Any, list[Any]]:
    got = []
    for superstep in range(supersteps):
        arrived = yield route_of(rank, superstep, entries)
        got.append((arrived.target.copy(), *(column.copy() for column in arrived.columns)))
    return got


def make_routing(
    supersteps: int, entries: int, ranks: Sequence[int]
) -> tuple[dict[int, Any], Seen]:
    return {rank: routing(rank, supersteps, entries) for rank in ranks}, Seen()


def expected_arrival(rank: int, superstep: int, entries: int, shards: int) -> list[Any]:
    rows = [
        (target, *values)
        for sender in range(shards)
        for route in [route_of(sender, superstep, entries)]
        for target, *values in zip(route.target, *route.columns, strict=True)
        if (target // DEAL_BLOCK) % shards == rank
    ]
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]


class Frontier:
    """Bitmap of a toy BFS, one for each process."""

    def __init__(self, vertices: int) -> None:
        self.bits = np.zeros(vertices, dtype=bool)

    def merge(self, payloads: Sequence[tuple[Any, ...]]) -> None:
        self.bits[:] = False
        for (found,) in payloads:
            self.bits[found] = True


def ring_bfs(
    rank: int, shards: int, frontier: Frontier, pause: Callable[[int, int], None]
) -> Generator[Any, Any, np.ndarray]:
    vertices = np.arange(len(frontier.bits))
    mine = vertices[owner_of(vertices, shards) == rank]
    level = np.where(mine == 0, 0, -1)
    depth = 0
    world = yield Share((int((level == 0).sum()),), (mine[level == 0],))
    while world.counts[0]:
        pause(rank, depth)
        depth += 1
        here = mine[frontier.bits[mine]]
        reached = np.concatenate([(here + 500) % len(vertices), (here - 500) % len(vertices)])
        arrived: Arrived = yield Route(reached)
        place_of = np.searchsorted(mine, arrived.target)
        new = np.unique(place_of[level[place_of] < 0])
        level[new] = depth
        world = yield Share((len(new),), (mine[new],))
    return level


def no_pause(rank: int, depth: int) -> None:
    pass


def make_ring(
    vertices: int, shards: int, pause: Callable[[int, int], None], ranks: Sequence[int]
) -> tuple[dict[int, Any], Frontier]:
    worker_state()["begun"] = worker_state().get("begun", 0) + 1
    frontier = Frontier(vertices)
    return {rank: ring_bfs(rank, shards, frontier, pause) for rank in ranks}, frontier


def ring_levels(vertices: int) -> np.ndarray:
    level = {0: 0}
    queue = [0]
    for vertex in queue:
        for other in ((vertex + 500) % vertices, (vertex - 500) % vertices):
            if other not in level:
                level[other] = level[vertex] + 1
                queue.append(other)
    return np.array([level.get(vertex, -1) for vertex in range(vertices)])


def joined(parts: Sequence[np.ndarray], vertices: int) -> np.ndarray:
    level = np.empty(vertices, dtype=np.int64)
    owner = owner_of(np.arange(vertices), len(parts))
    for rank, part in enumerate(parts):
        level[owner == rank] = part
    return level


def assert_ring(parts: Sequence[np.ndarray], vertices: int = 20_000) -> None:
    np.testing.assert_array_equal(joined(parts, vertices), ring_levels(vertices))


# ---- clusters ------------------------------------------------------------------------------


def start(workers: int, **options: Any) -> LocalCluster:
    fixed = {
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "memory_limit": 0,
    }
    return LocalCluster(n_workers=workers, **{**fixed, **options})


@pytest.fixture(scope="module")
def four() -> Iterator[Client]:
    with start(4) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module", params=["inproc", "tcp"])
def two_in_process(request: pytest.FixtureRequest) -> Iterator[Client]:
    host = None if request.param == "inproc" else "127.0.0.1"
    with (
        start(2, processes=False, protocol=request.param, host=host) as cluster,
        Client(cluster) as client,
    ):
        assert all(a.startswith(request.param) for a in addresses(client))
        yield client


def open_boxes(client: Client) -> dict[str, int]:
    def count(dask_worker: Any) -> int:
        plugin = dask_worker.plugins.get(PLUGIN_NAME)
        return len(plugin._boxes) if plugin else 0

    return client.run(count)


def times_begun(client: Client) -> dict[str, int]:
    """How often `make_ring` was called on each worker."""

    def count(dask_worker: Any) -> int:
        plugin = dask_worker.plugins.get(PLUGIN_NAME)
        return plugin.state.get("begun", 0) if plugin else 0

    return client.run(count)


def addresses(client: Client) -> list[str]:
    return sorted(workers_of(client))


# ---- answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_share_sums_counts_and_merges_in_order_of_rank(four: Client, workers: int) -> None:
    chosen = addresses(four)[:workers]
    results, stats = run(four, partial(make_sharing, 3), SHARDS, workers=chosen)
    for sums, payloads in results:
        assert sums == [(28, 8 * step, 8) for step in range(3)]
        for step, merged in enumerate(payloads):
            for rank, arrays in enumerate(merged):
                for got, sent in zip(arrays, payload_of(rank, step), strict=True):
                    assert got.dtype == sent.dtype
                    np.testing.assert_array_equal(got, sent)
    assert stats.supersteps == 3
    assert (stats.bytes_sent > 0) == (workers > 1)


@pytest.mark.parametrize(("workers", "threads"), [(1, 1), (2, 3), (4, 1)])
def test_route_hands_entries_to_owners_by_ascending_sender(
    four: Client, workers: int, threads: int
) -> None:
    chosen = addresses(four)[:workers]
    make = partial(make_routing, 3, 200)
    results, _ = run(four, make, SHARDS, workers=chosen, threads=threads)
    for rank, got in enumerate(results):
        for step, columns in enumerate(got):
            expected = expected_arrival(rank, step, 200, SHARDS)
            assert [column.tolist() for column in columns] == expected


@pytest.mark.parametrize(("workers", "shards"), [(1, 1), (4, 2), (2, 16), (4, 32)])
def test_bfs_levels_do_not_depend_on_shards(four: Client, workers: int, shards: int) -> None:
    make = partial(make_ring, 20_000, shards, no_pause)
    parts, _ = run(four, make, shards, workers=addresses(four)[:workers])
    assert_ring(parts)


def test_several_workers_in_one_process(two_in_process: Client) -> None:
    results, _ = run(two_in_process, partial(make_routing, 2, 100), SHARDS)
    for rank, got in enumerate(results):
        assert [c.tolist() for c in got[1]] == expected_arrival(rank, 1, 100, SHARDS)
    results, _ = run(two_in_process, partial(make_sharing, 2), SHARDS)
    assert results[0][0] == results[7][0] == [(28, 0, 8), (28, 8, 8)]
    assert set(open_boxes(two_in_process).values()) == {0}


def overwriting(rank: int, seen: Seen) -> Generator[Share, Any, Any]:
    mine = np.zeros(1000, dtype=np.int64)
    for superstep in range(20):
        mine[:] = superstep
        yield Share((0,), (mine,))
    return [[set(array.tolist()) for (array,) in merged] for merged in seen.payloads]


class SlowlySeen(Seen):
    def merge(self, payloads: Sequence[tuple[Any, ...]]) -> None:
        time.sleep(0.01)
        super().merge(payloads)


def make_overwriting(ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    seen = SlowlySeen() if 0 in ranks else Seen()
    return {rank: overwriting(rank, seen) for rank in ranks}, seen


def test_a_rank_may_overwrite_what_it_shared(two_in_process: Client) -> None:
    results, _ = run(two_in_process, make_overwriting, 4)
    assert results == [[[{step}] * 4 for step in range(20)]] * 4


def large_routing(rank: int, shards: int, entries: int) -> Generator[Route, Any, Any]:
    target = np.arange(entries) * DEAL_BLOCK + rank
    arrived = yield Route(target, (target * 2,))
    assert np.array_equal(arrived.target * 2, arrived.columns[0])
    return len(arrived.target), arrived.target[:: max(1, entries // shards)].tolist()


def make_large(shards: int, entries: int, ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    return {rank: large_routing(rank, shards, entries) for rank in ranks}, Seen()


def test_messages_larger_than_a_part(four: Client) -> None:
    entries = 3_000_000
    results, stats = run(four, partial(make_large, 4, entries), 4, workers=addresses(four)[:2])
    for rank, (count, sample) in enumerate(results):
        assert count == entries
        assert [value % DEAL_BLOCK for value in sample] == [0, 1, 2, 3]
        assert {value // DEAL_BLOCK % 4 for value in sample} == {rank}
    assert stats.bytes_sent == 4 * entries // 2 * 16


# ---- what the client is offered --------------------------------------------------------------


def write_part(folder: Path, shard: int, result: np.ndarray) -> int:
    np.save(folder / f"{shard}.npy", result)
    return os.getpid()


def test_finish_runs_on_the_worker(four: Client, tmp_path: Path) -> None:
    make = partial(make_ring, 20_000, SHARDS, no_pause)
    pids, _ = run(four, make, SHARDS, finish=partial(write_part, tmp_path))
    parts = [np.load(tmp_path / f"{shard}.npy") for shard in range(SHARDS)]
    assert_ring(parts)
    assert len(set(pids)) == 4
    assert os.getpid() not in pids


def sleep_a_little(rank: int, depth: int) -> None:
    time.sleep(0.02)


def test_progress_comes_to_the_callers_thread(four: Client) -> None:
    calls: list[tuple[int, tuple[int, ...], int]] = []
    make = partial(make_ring, 20_000, SHARDS, sleep_a_little)
    began_s = time.perf_counter()
    _, stats = run(
        four, make, SHARDS, on_progress=lambda s, c: calls.append((s, c, threading.get_ident()))
    )
    elapsed_s = time.perf_counter() - began_s
    assert {ident for _, _, ident in calls} == {threading.get_ident()}
    assert [superstep for superstep, _, _ in calls] == sorted({s for s, _, _ in calls})
    assert calls[-1][:2] == (stats.supersteps - 1, (0,))
    assert 3 <= len(calls) <= elapsed_s / 0.2 + 2


def counting_make(ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    loads = worker_state().setdefault("loads", [])
    loads.append(list(ranks))

    def once() -> Generator[Share, Any, int]:
        yield Share((0,))
        return len(loads)

    return {rank: once() for rank in ranks}, Seen()


def test_worker_state_outlives_a_run(four: Client) -> None:
    first, _ = run(four, counting_make, SHARDS)
    second, _ = run(four, counting_make, SHARDS)
    assert [after - before for before, after in zip(first, second, strict=True)] == [1] * SHARDS


def test_two_runs_at_once_on_the_same_workers(four: Client) -> None:
    make = partial(make_ring, 20_000, SHARDS, sleep_a_little)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(run(four, make, SHARDS)[0]))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    for parts in results:
        assert_ring(parts)


def test_waits_for_a_busy_worker(four: Client) -> None:
    busy = four.submit(time.sleep, 1.0, workers=addresses(four)[:1], pure=False)
    time.sleep(0.2)
    results, _ = run(four, partial(make_sharing, 1), SHARDS)
    assert results[0][0] == [(28, 0, 8)]
    busy.result()


def test_tls() -> None:
    with start(2, security=Security.temporary()) as cluster, Client(cluster) as client:
        assert addresses(client)[0].startswith("tls://")
        parts, _ = run(client, partial(make_ring, 20_000, SHARDS, no_pause), SHARDS)
        assert_ring(parts)


# ---- faults ----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("workers", [["0"], None])
def test_same_answer_after_a_worker_was_killed(
    brittle: Client, tmp_path: Path, workers: list[str] | None
) -> None:
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

    def kill_one(superstep: int, counts: tuple[int, ...]) -> None:
        if pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()
            (tmp_path / "killed").touch()

    make = partial(make_ring, 20_000, SHARDS, partial(wait_once, tmp_path / "killed"))
    parts, _ = run(brittle, make, SHARDS, on_progress=kill_one)
    assert not pids
    # Three that were left had begun before, and began again.
    assert sum(times_begun(brittle).values()) >= 6
    assert_ring(parts)


def test_gives_up_after_the_last_attempt(brittle: Client) -> None:
    make = partial(make_ring, 20_000, SHARDS, kill_always)
    with pytest.raises(ClusterLostError, match=r"after 2 attempts.*; then ") as caught:
        run(brittle, make, SHARDS, attempts=2)
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


def test_a_worker_that_is_retired_is_replaced(tmp_path: Path) -> None:
    make = partial(make_ring, 20_000, SHARDS, partial(wait_once, tmp_path / "retired"))
    with start(2, processes=False, protocol="tcp") as cluster, Client(cluster) as client:
        leaving = addresses(client)[1:]

        def retire(superstep: int, counts: tuple[int, ...]) -> None:
            if leaving:
                client.retire_workers([leaving.pop()])
                (tmp_path / "retired").touch()

        parts, _ = run(client, make, SHARDS, on_progress=retire)
        assert list(times_begun(client).values()) == [2]
        assert_ring(parts)


def make_impatient(make: Callable[[Sequence[int]], Any], ranks: Sequence[int]) -> Any:
    # Long enough for workers that are merely slow.
    party_module.SILENCE_S = 0.5
    party_module.PROBE_S = 4.0
    return make(ranks)


def raising(rank: int, error: BaseException) -> Generator[Share, Any, None]:
    yield Share((0,))
    if rank in (3, 6):
        raise error
    yield Share((0,))


def make_raising(error: BaseException, ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    return {rank: raising(rank, error) for rank in ranks}, Seen()


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


class StubbornError(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("I stay here")


def raise_stubborn(ranks: Sequence[int]) -> Any:
    raise StubbornError("in the factory")


def raise_in_finish(shard: int, result: Any) -> None:
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


def make_diverging(ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    return {rank: diverging(rank) for rank in ranks}, Seen()


@pytest.mark.parametrize("workers", [1, 4])
def test_ranks_that_diverge_are_found(four: Client, workers: int) -> None:
    with pytest.raises(DivergedRanksError, match="superstep 1"):
        run(four, make_diverging, SHARDS, workers=addresses(four)[:workers])


def mixed(rank: int) -> Generator[Any, Any, None]:
    yield Route(np.arange(4, dtype=np.int64 if rank < 4 else np.uint32))


def make_mixed(ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
    return {rank: mixed(rank) for rank in ranks}, Seen()


def test_columns_must_have_one_dtype(four: Client) -> None:
    with pytest.raises(TypeError, match=r"int64.*uint32"):
        run(four, make_mixed, SHARDS, workers=addresses(four)[:2])


class Enough(BaseException):
    """Stands for KeyboardInterrupt, which would end the test run too."""


def test_interrupt_ends_the_run_on_the_workers(four: Client) -> None:
    def stop(superstep: int, counts: tuple[int, ...]) -> None:
        raise Enough

    make = partial(make_ring, 400_000, SHARDS, sleep_a_little)
    with pytest.raises(Enough):
        run(four, make, SHARDS, on_progress=stop)
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


def test_refusals(four: Client) -> None:
    for wrong in ({"shards": 0}, {"threads": 0}, {"attempts": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            run(four, make_diverging, **{"shards": 1, **wrong})
    with pytest.raises(ClusterLostError, match="no worker came"):
        run(four, make_diverging, 1, workers=["tcp://127.0.0.1:1"], worker_wait_s=0.1)


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


# ---- the parts, alone --------------------------------------------------------------------------


def test_parts_come_back_whole() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 9, size=n).astype(d) for n, d in ((0, "i8"), (1000, "u1"), (7, "f4"))]
    arrays.append(rng.random((5, 6)))
    parts = cut_arrays(arrays, "note", part_bytes=100)
    assert max(sum(a.nbytes for a in part.arrays) for part in parts) <= 100
    note, back = join_arrays(parts)
    assert note == "note"
    for got, sent in zip(back, arrays, strict=True):
        assert (got.dtype, got.shape) == (sent.dtype, sent.shape)
        np.testing.assert_array_equal(got, sent)
    assert join_arrays(cut_arrays((), 5)) == (5, [])


def test_unaligned_arrays_are_copied() -> None:
    odd = np.frombuffer(bytearray(33), dtype=np.uint8)[1:].view(np.int64)
    assert not odd.flags.aligned
    _, (back,) = join_arrays(cut_arrays([odd]))
    assert back.flags.aligned


@pytest.mark.parametrize("seed", range(10))
def test_routing_for_any_placement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shards = int(2 ** rng.integers(0, 5))
    routes = [
        Route(rng.integers(0, 99 * DEAL_BLOCK, size=n), (rng.random(n),))
        for n in rng.integers(0, 60, size=shards).tolist()
    ]
    cuts = np.sort(rng.integers(0, shards + 1, size=3)).tolist()
    shuffled = rng.permutation(shards).tolist()
    bounds = zip([0, *cuts], [*cuts, shards], strict=True)
    held = [sorted(shuffled[a:b]) for a, b in bounds if a < b]
    seats = [rank for ranks in held for rank in ranks]
    seat_of_rank = np.argsort(seats).astype(np.uint16)
    sent = [sort_by_seat([routes[r] for r in ranks], seat_of_rank) for ranks in held]
    first = 0
    for ranks in held:
        inbound = []
        for senders, outbound in zip(held, sent, strict=True):
            columns, counts = outbound.for_seats(first, first + len(ranks))
            parts = cut_rows(columns, counts, part_bytes=128)
            inbound.append(Inbound([p.arrays for p in parts], parts[0].header, senders))
        for rank, arrived in zip(ranks, deliver(inbound), strict=True):
            mine = [owner_of(route.target, shards) == rank for route in routes]
            for got, column in ((arrived.target, 0), (arrived.columns[0], 1)):
                chosen = [
                    (q.target, *q.columns)[column][m] for q, m in zip(routes, mine, strict=True)
                ]
                np.testing.assert_array_equal(got, np.concatenate(chosen))
        first += len(ranks)


def parcel(superstep: int, sender: int, entries: int, part: int = 0, parts: int = 1) -> Parcel:
    array = np.full(entries, superstep, np.uint8)
    return Parcel("r", 0, superstep, sender, part, parts, Kind.SHARE, None, (array,))


def test_what_comes_early_waits_for_room() -> None:
    async def scenario() -> None:
        box = Postbox(frozenset({1, 2}), early_bytes=100)
        await box.put(parcel(0, 1, 60))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(box.put(parcel(0, 1, 60)), 0.05)
        collect = asyncio.ensure_future(box.collect(0))
        await asyncio.wait_for(box.put(parcel(0, 2, 1000)), PATIENCE_S)
        assert sorted(await collect) == [1, 2]
        await box.put(parcel(1, 1, 1000, part=1, parts=2))
        second = asyncio.ensure_future(box.put(parcel(1, 1, 1000, part=0, parts=2)))
        await asyncio.sleep(0.05)
        assert not second.done()
        collect = asyncio.ensure_future(box.collect(1))
        await asyncio.wait_for(second, PATIENCE_S)
        assert box.missing(1) == [2]
        await box.put(parcel(1, 2, 0))
        assert [p.part for p in (await collect)[1]] == [0, 1]

    asyncio.run(scenario())


def test_an_aborted_postbox_refuses_and_wakes() -> None:
    async def scenario() -> None:
        box = Postbox(frozenset({1}), early_bytes=100)
        await box.put(parcel(0, 1, 60))
        waiting = asyncio.ensure_future(box.put(parcel(1, 1, 60)))
        await asyncio.sleep(0.01)
        box.abort("tested")
        with pytest.raises(StaleParcelError):
            await asyncio.wait_for(waiting, PATIENCE_S)
        with pytest.raises(StaleParcelError):
            await box.put(parcel(0, 1, 1))
        assert box.aborted.done()
        assert box.cause == "tested"

    asyncio.run(scenario())


def test_seats_of_more_ranks_than_16_bits_count() -> None:
    seated = np.random.default_rng(1).permutation(1 << 17)
    assert np.array_equal(seated[seat_of_rank(seated)], np.arange(1 << 17))
    assert seat_of_rank([2, 0, 1]).tolist() == [1, 2, 0]
    assert seat_of_rank(range(1 << 16)).dtype == np.uint16


class SilentScheduler:
    """Client whose scheduler knows workers ``a`` and ``b`` but does not answer questions."""

    status = "running"

    @property
    def scheduler(self) -> SilentScheduler:
        return self

    def identity(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        return {"workers": {name: {"name": name, "status": "running"} for name in "ab"}}

    def sync(self, question: Callable[..., Any], **given: Any) -> Any:
        return question(**given)

    def nthreads(self, workers: list[str]) -> dict[str, int]:
        raise OSError("timed out")


def test_suspects_are_used_where_nobody_else_comes() -> None:
    client: Any = SilentScheduler()
    assert usable_workers(client, None, avoid={"a"}, wait_s=9) == ["b"]
    assert usable_workers(client, None, avoid={"a", "b"}, wait_s=0) == ["a", "b"]
    assert usable_workers(client, ["c"], avoid=set(), wait_s=0) == []


def test_a_silent_scheduler_makes_no_worker_a_suspect() -> None:
    client: Any = SilentScheduler()
    assert still_there(client, ["a", "b"]) == {"a", "b"}
    client.status = "closed"
    with pytest.raises(ClusterLostError):
        still_there(client, ["a", "b"])


def test_workers_are_named_while_the_client_asks_without_them() -> None:
    """Dask's own question of every two seconds, asked all the time here, takes no answer away."""
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        start(1) as cluster,
        Client(cluster) as client,
    ):
        assert all(len(workers_of(client)) == 1 for _ in range(500))
    with pytest.raises(ClusterLostError, match="closed"):
        workers_of(client)


def forget_plugin(dask_worker: Any) -> None:
    del dask_worker.plugins[PLUGIN_NAME]


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


def test_placement_keeps_what_survivors_hold() -> None:
    first = place(8, ["c", "a", "b", "d"], {})
    assert first == {"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)}
    second = place(8, ["a", "c", "d"], first)
    assert sorted(rank for ranks in second.values() for rank in ranks) == list(range(8))
    assert all(set(first[w]) <= set(second[w]) for w in second)
    assert sorted(map(len, second.values())) == [2, 3, 3]
    assert place(2, ["c", "a", "b"], {}) == {"a": (0,), "b": (1,)}


def test_the_task_runs_where_its_shards_are(four: Client) -> None:
    def where(ranks: Sequence[int]) -> tuple[dict[int, Any], Seen]:
        def tell() -> Generator[Share, Any, str]:
            yield Share((0,))
            return get_worker().address

        return {rank: tell() for rank in ranks}, Seen()

    places, _ = run(four, where, SHARDS)
    assert places == [a for a in addresses(four) for _ in range(2)]
