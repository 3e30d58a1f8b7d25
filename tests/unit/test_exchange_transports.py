"""Every transport of the scheduler exchange against ranks in one process; shared memory alone."""

from __future__ import annotations

import gc
import mmap
import os
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from distributed import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ooc_graph.exchange import doors, party, shared_memory, written
from ooc_graph.exchange.doors import Door, LeftError
from ooc_graph.exchange.interface import ExchangeStats, Route, Share
from ooc_graph.exchange.scheduler import run
from ooc_graph.types import DEAL_BLOCK
from tests import local_exchange
from tests.toy_ranks import (
    PATIENCE_S,
    SHARDS,
    Seen,
    addresses,
    make_joining,
    make_sharing,
    share_no_memory,
    start,
)

CUT_BYTES, MAPPED_BYTES = 1000, 16_000


def cut_small(dask_worker: Any) -> None:
    """Have parcels be cut at `CUT_BYTES`, and little memory, which headers outgrow, be used."""
    party.PART_BYTES = CUT_BYTES
    shared_memory.EARLY_BYTES, shared_memory._SLACK_BYTES = MAPPED_BYTES, 0
    written.SMALL_BYTES, written.MESSAGE_BYTES = 64, 700


def be_elsewhere(dask_worker: Any) -> None:
    doors._host = lambda: ("another host",)


@pytest.fixture(scope="module", params=["memory", "messages", "both"])
def cut_four(request: pytest.FixtureRequest) -> Iterator[tuple[str, Client]]:
    """Four workers that share memory, or do not, or only the first two and the last two do."""
    with start(4) as cluster, Client(cluster) as client:
        client.run(cut_small)
        if request.param == "messages":
            client.run(share_no_memory)
        elif request.param == "both":
            client.run(be_elsewhere, workers=addresses(client)[2:])
        yield request.param, client


def drawn(rank: int, seed: int, superstep: int) -> tuple[np.random.Generator, Callable[[], Any]]:
    """Arrays of a rank, of sizes around the cut, and what draws more of them."""
    rng = np.random.default_rng([seed, superstep, rank])
    sizes = [0, 1, 7, 124, 125, 126, 250, 501, 1500]

    def array() -> Any:
        kind = rng.choice(["u1", "i4", "f8"])
        return rng.integers(0, 250, size=int(rng.choice(sizes))).astype(kind)

    return rng, array


def scripted(rank: int, seed: int, seen: Seen) -> Generator[Any, Any, Any]:
    """Questions that the seed alone decides; what each was answered."""
    got: list[Any] = []
    script = np.random.default_rng(seed)
    for superstep in range(int(script.integers(1, 6))):
        kind = script.choice(["counts", "share", "route", "both"])
        rng, array = drawn(rank, seed, superstep)
        counts = tuple(rng.integers(0, 100, size=3).tolist())
        target = rng.integers(0, 64 * DEAL_BLOCK, size=int(rng.choice([0, 3, 90, 700])))
        route = Route(target, (np.full(len(target), rank, np.int16), rng.random(len(target))))
        payload = tuple(array() for _ in range(3))
        if kind == "route":
            arrived = yield route
        elif kind == "counts":
            arrived = (yield Share(counts)).arrived
        else:
            world = yield Share(counts, payload, route if kind == "both" else None)
            got.append(world.counts)
            arrived = world.arrived
            # It may be overwritten, and so may what it was sent in.
            for mine in payload:
                mine[:] = 251
        if arrived is not None:
            # Kept without a copy until the end.
            got.append((arrived.target, arrived.columns))
    return got, seen.payloads


def make_scripted(seed: int, mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    seen = Seen()
    return nullcontext(({rank: scripted(rank, seed, seen) for rank in mine}, seen))


def plain(value: Any) -> Any:
    """Arrays with their dtypes as lists, so that they can be compared."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 1 << 30), workers=st.integers(1, 4), shards=st.sampled_from([4, 8]))
def test_ranks_find_the_same_by_every_transport(
    cut_four: tuple[str, Client], seed: int, workers: int, shards: int
) -> None:
    kind, client = cut_four
    chosen = addresses(client)[:workers]
    found, stats = run(client, partial(make_scripted, seed), shards, workers=chosen)
    seen = Seen()
    coroutines = [scripted(rank, seed, seen) for rank in range(shards)]
    expected, _ = local_exchange.run(coroutines, seen, shards)
    assert plain(found) == plain(expected)
    shared = {"memory": workers - 1, "messages": 0, "both": 1}[kind]
    if kind == "both" and workers > 1:
        assert stats.links_shared == 2 * (workers // 2)
    else:
        assert stats.links_shared == workers * shared * (workers > 1)
    assert stats.links == workers * (workers - 1)
    if stats.links_shared == stats.links:
        assert stats.bytes_shared == stats.bytes_sent


@pytest.mark.parametrize(("workers", "refusing"), [(1, -1), (2, -1), (3, -1), (4, -1), (2, 3)])
def test_ranks_of_one_host_have_one_state_if_all_join(
    cut_four: tuple[str, Client], workers: int, refusing: int
) -> None:
    kind, client = cut_four
    chosen = addresses(client)[:workers]
    found, _ = run(client, partial(make_joining, refusing), SHARDS, workers=chosen)
    are_near = kind == "memory" or workers == 1 or (kind == "both" and workers == 2)
    seen = list(range(SHARDS)) if are_near and refusing < 0 else None
    assert found == [seen] * SHARDS


@pytest.mark.parametrize(
    ("links", "shared", "said"),
    [
        (2, 2, "exchange by shared memory within hosts: 9 supersteps, 1,234,567 bytes, 0.500 s"),
        (2, 0, "exchange by Dask's connections: 9 supersteps, 1,234,567 bytes, 0.500 s"),
        (6, 2, "exchange by shared memory within hosts and Dask's connections: 9 supersteps, "
         "1,234,567 bytes, 0.500 s"),
    ],
)  # fmt: skip
def test_what_users_are_told(links: int, shared: int, said: str) -> None:
    assert ExchangeStats(9, 1_234_567, 0, links, shared, 0.5).summary == said


def open_things(dask_worker: Any) -> int:
    """Memory that is shared or mapped, and sockets of the kind that nobody else uses."""
    gc.collect()
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    packets = {f"socket:[{row[6]}]" for row in rows if int(row[4]) == socket.SOCK_SEQPACKET}
    count = Path("/proc/self/maps").read_text().count("memfd:ooc-graph")
    for descriptor in Path("/proc/self/fd").iterdir():
        # The folder's own descriptor is gone by now.
        with suppress(FileNotFoundError):
            target = str(descriptor.readlink())
            count += target in packets or target.startswith("/memfd:ooc-graph")
    return count


def failing(rank: int) -> Generator[Share, Any, None]:
    yield Share((0,), (np.zeros(100_000),))
    if rank == 2:
        raise ValueError("no more")
    yield Share((0,), (np.zeros(100_000),))


def make_failing(mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: failing(rank) for rank in mine}, Seen()))


def test_nothing_stays_open() -> None:
    with start(3) as cluster, Client(cluster) as client:
        for _ in range(8):
            assert run(client, make_large, 3)[0] == [3, 3, 3]
            with pytest.raises(ValueError, match="no more"):
                run(client, make_failing, 3)
        deadline_s = time.monotonic() + PATIENCE_S
        while any(client.run(open_things).values()):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)


def large(rank: int) -> Generator[Share, Any, int]:
    for _ in range(3):
        yield Share((0,), (np.full(100_000, rank),))
    # Something is open as long as ranks trade.
    return min(3, open_things(None))


def make_large(mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: large(rank) for rank in mine}, Seen()))


def share_little(dask_worker: Any) -> None:
    """Have so little memory be used that a round has space for less than a part."""
    shared_memory.EARLY_BYTES, shared_memory._SLACK_BYTES = MAPPED_BYTES * 40, 0


def mapped_bytes() -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = (line.split()[0].split("-") for line in lines if "memfd:ooc-graph" in line)
    return sum(int(end, 16) - int(begin, 16) for begin, end in spans)


def sizeable(rank: int) -> Generator[Share, Any, int]:
    for _ in range(2):
        yield Share((0,), (np.full(200_000, rank),))
    return mapped_bytes()


def make_sizeable(mine: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: sizeable(rank) for rank in mine}, Seen()))


def test_no_more_is_mapped_than_may_be() -> None:
    with start(3) as cluster, Client(cluster) as client:
        client.run(share_little)
        mapped, _ = run(client, make_sizeable, 3)
    # Memory is mapped in whole pages, so that a little more is there than the arrays take.
    assert all(0 < size <= MAPPED_BYTES * 40 + 6 * mmap.PAGESIZE for size in mapped)


def cannot_connect(dask_worker: Any) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError("not allowed")

    doors._dialled = refused


def test_workers_that_cannot_connect_do_without() -> None:
    said: list[str] = []
    with start(3) as cluster, Client(cluster) as client:
        client.run(cannot_connect, workers=addresses(client)[1:2])
        for _ in range(2):
            results, stats = run(client, partial(make_sharing, 2), 3, note=said.append)
            assert results[0][0] == [(3, 0, 3), (3, 3, 3)]
            # All but the second can.
            assert (stats.links, stats.links_shared) == (6, 2)
    assert len(said) == 1
    assert "cannot share memory: not allowed; the search begins again without" in said[0]


def refuse_among(number: int, dask_worker: Any) -> None:
    """Refuse a worker's connections if it makes them to ``number`` others."""
    link = Door.link

    def refused(self: Door, member: int, others: Any, check: Any) -> Any:
        if len(others) == number:
            raise PermissionError("not allowed")
        return link(self, member, others, check)

    Door.link = refused  # type: ignore[method-assign]


def test_any_number_of_workers_may_be_refused() -> None:
    said: list[str] = []
    with start(4) as cluster, Client(cluster) as client:
        for number, address in zip((3, 2, 1), addresses(client), strict=False):
            client.run(partial(refuse_among, number), workers=[address])
        results, stats = run(client, partial(make_sharing, 2), 4, note=said.append)
    assert results[0][0] == [(6, 0, 4), (6, 4, 4)]
    assert (stats.links, stats.links_shared) == (12, 0)
    assert len(said) == 3
    assert not any("lost" in line for line in said)


def no_check() -> None:
    pass


@pytest.fixture
def two_doors() -> Iterator[tuple[Door, Door]]:
    first, second = Door(), Door()
    yield first, second
    first.shut()
    second.shut()


def test_callers_wait_for_a_door_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "_CALLERS", 0)
    opened = [Door() for _ in range(6)]
    everyone = {member: door.address for member, door in enumerate(opened)}
    waiting = Barrier(6)

    def link(member: int) -> int:
        door, tries = opened[member], iter([waiting.wait] if member > 1 else [])
        others = {other: address for other, address in everyone.items() if other != member}

        def check() -> None:
            next(tries, no_check)()

        if member < 2:
            # The others find its door full before it lets anyone in.
            waiting.wait(PATIENCE_S)
        links = door.link(member, others, check)
        for one in links.values():
            one.close()
        return len(links)

    with ExitStack() as stack:
        for door in opened:
            stack.callback(door.shut)
        with ThreadPoolExecutor(6) as executor:
            assert list(executor.map(link, range(6))) == [5] * 6


def is_refused(stranger: socket.socket) -> bool:
    try:
        return stranger.recv(1) == b""
    except ConnectionResetError:
        return True


def test_strangers_are_refused(two_doors: tuple[Door, Door]) -> None:
    first, second = two_doors
    with ExitStack() as opened:
        kind = socket.AF_UNIX, socket.SOCK_SEQPACKET
        strangers = [opened.enter_context(socket.socket(*kind)) for _ in range(4)]
        for stranger in strangers:
            stranger.settimeout(PATIENCE_S)
            stranger.connect(first.address.name)
        _silent, wrong, unknown, short = strangers
        wrong.send(doors._HELLO.pack(second.address.token, b"", 1))
        unknown.send(doors._HELLO.pack(first.address.token, b"", 7))
        short.send(b"x")
        with ThreadPoolExecutor(1) as executor:
            linking = executor.submit(first.link, 0, {1: second.address}, no_check)
            (mine,) = second.link(1, {0: first.address}, no_check).values()
            (theirs,) = linking.result(PATIENCE_S).values()
        opened.enter_context(mine)
        opened.enter_context(theirs)
        mine.send(b"it is me")
        assert theirs.recv(100) == b"it is me"
        assert all(map(is_refused, strangers))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_other_users_are_refused(two_doors: tuple[Door, Door]) -> None:
    first, _ = two_doors
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        os.seteuid(65534)
        try:
            stranger.connect(first.address.name)
            with pytest.raises(PermissionError, match="belongs to another user"):
                doors._dialled(0, first.address, 1, no_check)
        finally:
            os.seteuid(0)
        stranger.send(doors._HELLO.pack(first.address.token, b"", 1))
        checks = iter([no_check, no_check])

        def give_up() -> None:
            if next(checks, None) is None:
                raise TimeoutError

        with pytest.raises(TimeoutError):
            first.link(0, {1: first.address}, give_up)
        stranger.settimeout(PATIENCE_S)
        assert is_refused(stranger)


def test_a_door_that_was_shut_is_told_from_one_that_does_not_work(
    two_doors: tuple[Door, Door],
) -> None:
    first, second = two_doors
    first.shut()
    with pytest.raises(LeftError):
        second.link(1, {0: first.address}, no_check)
