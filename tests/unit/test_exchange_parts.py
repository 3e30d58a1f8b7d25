"""Parts of the scheduler exchange, alone: parcels, routing, postbox, placement, who is there."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from ooc_graph.exchange.interface import Route
from ooc_graph.exchange.parcel import (
    Kind,
    Parcel,
    Postbox,
    StaleParcelError,
    cut_arrays,
    join_arrays,
)
from ooc_graph.exchange.routing import (
    Inbound,
    deal,
    deliver,
    fewest_ranks,
    for_seats,
    seat_of_rank,
    sort_by_seat,
)
from ooc_graph.types import DEAL_BLOCK, owner_of
from tests.toy_ranks import PATIENCE_S


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
    sent = [[sort_by_seat(routes[r], seat_of_rank) for r in ranks] for ranks in held]
    first = 0
    for ranks in held:
        inbound = []
        for senders, outbound in zip(held, sent, strict=True):
            columns, counts = for_seats(outbound, first, first + len(ranks))
            inbound.append(Inbound(columns, counts, senders))
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
        box.begin(0)
        collect = asyncio.ensure_future(box.collect())
        await asyncio.wait_for(box.put(parcel(0, 2, 1000)), PATIENCE_S)
        assert sorted(await collect) == [1, 2]
        await box.put(parcel(1, 1, 1000, part=1, parts=2))
        second = asyncio.ensure_future(box.put(parcel(1, 1, 1000, part=0, parts=2)))
        await asyncio.sleep(0.05)
        assert not second.done()
        box.begin(1)
        collect = asyncio.ensure_future(box.collect())
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


def test_placement_keeps_what_survivors_hold() -> None:
    first = deal(8, ["c", "a", "b", "d"], {})
    assert first == {"a": (0, 1), "b": (2, 3), "c": (4, 5), "d": (6, 7)}
    second = deal(8, ["a", "c", "d"], first)
    assert sorted(rank for ranks in second.values() for rank in ranks) == list(range(8))
    assert all(set(first[w]) <= set(second[w]) for w in second)
    assert sorted(map(len, second.values())) == [2, 3, 3]
    assert deal(2, ["c", "a", "b"], {}) == {"a": (0,), "b": (1,)}


@pytest.mark.parametrize("shards", [1, 4, 64])
def test_joined_shards_are_dealt_as_evenly_as_single_ones(shards: int) -> None:
    def busiest(ranks: int, workers: list[str]) -> int:
        return max(map(len, deal(ranks, workers, {}).values())) * shards // ranks

    for count in range(1, 10):
        workers = [str(number) for number in range(count)]
        ranks, least = fewest_ranks(shards, count, 1), busiest(shards, workers)
        assert busiest(ranks, workers) == least
        assert len(deal(ranks, workers, {})) == min(count, shards)
        assert ranks // 2 < count or busiest(ranks // 2, workers) > least
    assert (fewest_ranks(64, 8, 1), fewest_ranks(64, 8, 3), fewest_ranks(64, 8, 9)) == (8, 32, 64)
