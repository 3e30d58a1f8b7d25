"""Ranks of toy algorithms, what they must find, and clusters that run them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster, get_worker

from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.doors import Door
from ooc_graph.exchange.interface import Arrived, Route, Share
from ooc_graph.exchange.resident import PLUGIN_NAME
from ooc_graph.types import DEAL_BLOCK, owner_of

SHARDS = 8
# For what comes at once unless something is wrong, or the machine is very busy.
PATIENCE_S = 120.0


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


def make_sharing(supersteps: int, ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Seen]]:
    seen = Seen()
    return nullcontext(({rank: sharing(rank, supersteps, seen) for rank in ranks}, seen))


class Slots:
    """A number for each rank, in memory that all ranks have if they join."""

    joined_bytes = 8 * SHARDS

    def __init__(self) -> None:
        self.numbers, self.is_joined = np.full(SHARDS, -1), False

    def merge(self, payloads: Sequence[tuple[Any, ...]]) -> None:
        raise AssertionError("nothing is shared")

    def join(self, memory: Any, part: int, parts: int) -> None:
        self.is_joined = True
        if memory is not None:
            self.numbers = memory.view(np.int64)
            self.numbers[SHARDS * part // parts : SHARDS * (part + 1) // parts] = -1


def joining(rank: int, slots: Slots, refusing: int) -> Generator[Share, Any, Any]:
    """Each rank writes its number; what it sees of all, unless they have not joined."""
    yield Share((), joins=rank != refusing)
    yield Share(())
    slots.numbers[rank] = rank
    yield Share(())
    return slots.numbers.tolist() if slots.is_joined else None


def make_joining(refusing: int, ranks: Sequence[int]) -> nullcontext[tuple[dict[int, Any], Slots]]:
    slots = Slots()
    return nullcontext(({rank: joining(rank, slots, refusing) for rank in ranks}, slots))


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
) -> nullcontext[tuple[dict[int, Any], Seen]]:
    return nullcontext(({rank: routing(rank, supersteps, entries) for rank in ranks}, Seen()))


def sharing_and_routing(rank: int, seen: Seen) -> Generator[Share, Any, list[Any]]:
    """Two supersteps: entries of all ranks beside what is shared, and of all but the first."""
    got = []
    for superstep in range(2):
        route = route_of(rank, superstep, 200) if rank or not superstep else None
        world = yield Share((rank,), payload_of(rank, superstep), route)
        arrived = world.arrived and (world.arrived.target, *world.arrived.columns)
        got.append((world.counts, arrived and [column.tolist() for column in arrived]))
    return got


def make_sharing_and_routing(
    ranks: Sequence[int],
) -> nullcontext[tuple[dict[int, Any], Seen]]:
    seen = Seen()
    return nullcontext(({rank: sharing_and_routing(rank, seen) for rank in ranks}, seen))


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
) -> nullcontext[tuple[dict[int, Any], Frontier]]:
    worker: Any = get_worker()
    worker.times_begun = getattr(worker, "times_begun", 0) + 1
    frontier = Frontier(vertices)
    return nullcontext(
        ({rank: ring_bfs(rank, shards, frontier, pause) for rank in ranks}, frontier)
    )


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


def share_no_memory(dask_worker: Any) -> None:
    """Have the workers of a process reach all others through Dask."""
    Door.works = False


def times_begun(client: Client) -> dict[str, int]:
    """How often `make_ring` was called on each worker."""

    def count(dask_worker: Any) -> int:
        return int(getattr(dask_worker, "times_begun", 0))

    return client.run(count)


def addresses(client: Client) -> list[str]:
    return sorted(Cluster.of(client).look())


def sleep_a_little(rank: int, depth: int) -> None:
    time.sleep(0.02)
