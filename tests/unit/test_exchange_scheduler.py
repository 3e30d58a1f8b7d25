"""The scheduler exchange against plain oracles, and what it offers the client."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, Security, get_worker

from ooc_graph.exchange.interface import Route, Share
from ooc_graph.exchange.scheduler import run
from ooc_graph.types import DEAL_BLOCK
from tests import toy_ranks
from tests.toy_ranks import (
    SHARDS,
    Seen,
    addresses,
    assert_ring,
    expected_arrival,
    make_ring,
    make_routing,
    make_sharing,
    make_sharing_and_routing,
    no_pause,
    open_boxes,
    payload_of,
    sleep_a_little,
    start,
)

four, two_in_process = toy_ranks.four, toy_ranks.two_in_process


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


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_entries_come_along_with_what_is_shared(four: Client, workers: int) -> None:
    chosen = addresses(four)[:workers]
    results, stats = run(four, make_sharing_and_routing, SHARDS, workers=chosen)
    for rank, got in enumerate(results):
        assert got == [((28,), expected_arrival(rank, 0, 200, SHARDS)), ((28,), None)]
    assert stats.supersteps == 2


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


def make_overwriting(ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    seen = SlowlySeen() if 0 in ranks else Seen()
    return nullcontext(({rank: overwriting(rank, seen) for rank in ranks}, seen))


def test_a_rank_may_overwrite_what_it_shared(two_in_process: Client) -> None:
    results, _ = run(two_in_process, make_overwriting, 4)
    assert results == [[[{step}] * 4 for step in range(20)]] * 4


def large_routing(rank: int, shards: int, entries: int) -> Generator[Route, Any, Any]:
    target = np.arange(entries) * DEAL_BLOCK + rank
    arrived = yield Route(target, (target * 2,))
    assert np.array_equal(arrived.target * 2, arrived.columns[0])
    return len(arrived.target), arrived.target[:: max(1, entries // shards)].tolist()


def make_large(
    shards: int, entries: int, ranks: Sequence[int]
) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: large_routing(rank, shards, entries) for rank in ranks}, Seen()))


def test_messages_larger_than_a_part(four: Client) -> None:
    entries = 3_000_000
    results, stats = run(four, partial(make_large, 4, entries), 4, workers=addresses(four)[:2])
    for rank, (count, sample) in enumerate(results):
        assert count == entries
        assert [value % DEAL_BLOCK for value in sample] == [0, 1, 2, 3]
        assert {value // DEAL_BLOCK % 4 for value in sample} == {rank}
    assert stats.bytes_sent == 4 * entries // 2 * 16


def write_part(folder: Path, shard: int, result: np.ndarray, ranks: int) -> int:
    assert ranks == SHARDS
    np.save(folder / f"{shard}.npy", result)
    return os.getpid()


def test_finish_runs_on_the_worker(four: Client, tmp_path: Path) -> None:
    make = partial(make_ring, 20_000, SHARDS, no_pause)
    pids, _ = run(four, make, SHARDS, finish=partial(write_part, tmp_path))
    parts = [np.load(tmp_path / f"{shard}.npy") for shard in range(SHARDS)]
    assert_ring(parts)
    assert len(set(pids)) == 4
    assert os.getpid() not in pids


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


def test_the_task_runs_where_its_shards_are(four: Client) -> None:
    def where(ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
        def tell() -> Generator[Share, Any, str]:
            yield Share((0,))
            return get_worker().address

        return nullcontext(({rank: tell() for rank in ranks}, Seen()))

    places, _ = run(four, where, SHARDS)
    assert places == [a for a in addresses(four) for _ in range(2)]
