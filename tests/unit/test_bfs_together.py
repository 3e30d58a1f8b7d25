"""BFS by ranks of several processes in common memory: the bytes of one, and no endless wait."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.cpu import peers
from ooc_graph.kernels.cpu.bfs import peer_rank
from ooc_graph.kernels.cpu.bfs.common import common_bytes
from ooc_graph.kernels.cpu.bfs.peer_rank import CpuPeerBfsRank
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.peers import MOST_FAILURES
from ooc_graph.traverse.bfs import bfs
from tests import together
from tests.apart import Apart
from tests.strategies import Arcs, arcs_of
from tests.together import GRAPHS, make_late, path_in, require_soon_without_one
from tests.toy_ranks import start

ALONE = CpuDevice(1)


class Together:
    """Ranks that have met; each is as if in a process of its own."""

    def __init__(self, arcs: Arcs, threads: Sequence[int], ids: str = "uint32") -> None:
        self.arcs, self.ids, ranks = arcs, ids, len(threads)
        parts = arcs.shards(ranks, ids)
        both = zip(threads, parts, strict=True)
        self.ranks = [CpuDevice(count).bfs_rank(part) for count, part in both]
        memory = np.zeros(common_bytes(arcs.vertices, ranks, np.dtype(ids).itemsize), np.uint8)
        for rank in self.ranks:
            rank.start(0)
            rank._members = sum(threads)
            rank._share_state(memory)

    def run(self, root: int, come: int | None = None) -> list[bool]:
        """Have all ranks search, or only the first; whether each has an answer."""
        every = sum(rank.arcs for rank in self.ranks)
        for rank in self.ranks:
            rank.start(root)
            rank.frontier()
            rank.launch(root, every)
        with ThreadPoolExecutor(len(self.ranks)) as pool:
            return list(pool.map(CpuPeerBfsRank.finish, self.ranks[:come]))

    def require_right(self, root: int) -> None:
        """Compare answers, and what happened in each level, with those of one search."""
        right = CpuDevice(1).bfs(self.arcs.shards(1, self.ids)[0]).run(root)
        for rank in self.ranks:
            tree, own = rank.peer_tree(), rank._dealing.owned()
            assert tree.level.tobytes() == right.level[own].tobytes()
            assert tree.parent.tobytes() == right.parent[own].tobytes()
            for name in ("level_vertices", "level_arcs", "level_direction"):
                assert getattr(tree, name).tolist() == getattr(right, name).tolist()


@pytest.mark.parametrize("threads", [(1, 1), (1, 1, 1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("name", GRAPHS)
def test_bytes(name: str, threads: Sequence[int]) -> None:
    group = Together(GRAPHS[name](), threads)
    last = group.arcs.vertices - 1
    # The memory is that of the search before.
    for root in (0, 7, last, last // 2):
        assert group.run(root) == [True] * len(threads)
        group.require_right(root)


@pytest.mark.slow
def test_ids_of_64_bits() -> None:
    # Compiles all for another type of ids.
    group = Together(GRAPHS["skewed, directed"](), (1, 1), "uint64")
    assert group.run(7) == [True, True]
    group.require_right(7)


def test_more_levels_than_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_rank, "MOST_LEVELS", 100)
    group = Together(GRAPHS["grid"](), (1, 1))
    assert group.run(group.arcs.vertices - 1) == [False, False]


def test_threads_of_a_process_are_for_one_launch() -> None:
    """Nobody waits for those that another search has, or holds them before a launch."""
    group = Together(GRAPHS["skewed"](), (2, 2))
    first, second = group.ranks
    with busy_team(first):
        assert not first.is_free(ALONE.bfs_shared(1, 1))
        assert second.is_free(ALONE.bfs_shared(1, 1))
        assert group.run(7) == [False, False]
        for rank in group.ranks:
            rank.part(may_keep=False)
    # That was no failure.
    assert first.is_free(ALONE.bfs_shared(1, 1))
    assert first._failures == second._failures == 0


@contextmanager
def busy_team(rank: Any) -> Iterator[None]:
    """Another search has the threads of a rank."""
    with rank._team._one_launch:
        yield


def test_nobody_waits_for_a_rank_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "PATIENCE_S", 0)
    group = Together(GRAPHS["skewed"](), (1, 1))
    assert group.run(7, come=1) == [False]
    first, late = group.ranks
    first.part(may_keep=False)
    own = first._tree.parent.copy()
    # Who comes later knows at once, and does no harm.
    monkeypatch.setattr(meeting, "PATIENCE_S", 60)
    begun_s = time.monotonic()
    assert not late.finish()
    assert time.monotonic() - begun_s < 30
    late._common.parent[:] = 0
    assert first._tree.parent.tobytes() == own.tobytes()
    late.part(may_keep=False)
    require_right(group, 7)


def require_right(group: Together, root: int) -> int:
    """Have ranks search that trade coded messages, and compare the bytes; how often they did."""
    ranks, arcs = group.ranks, group.arcs
    apart = Apart(len(ranks), has_memory=False)
    shared = [CpuDevice(1).bfs_shared(arcs.vertices, len(ranks)) for _ in ranks]
    trees = apart.run(lambda member, state: bfs(ranks[member], root, state), shared)
    right = CpuDevice(1).bfs(arcs.shards(1)[0]).run(root)
    for rank, tree in zip(ranks, trees, strict=True):
        assert tree.parent.tobytes() == right.parent[rank._dealing.owned()].tobytes()
    return apart.trades


@pytest.mark.parametrize("busy", [set(), {0}, {2}, {0, 1, 3}, {0, 1, 2, 3}])
def test_who_has_met_the_others_may_find_them_busy(busy: set[int]) -> None:
    """Those who expect to search together share nothing at first, and all share it then."""
    leaves = np.arange(1, 9001)
    star = arcs_of(np.zeros(9000, int), leaves, np.ones(9000, np.float32), directed=False)
    group = Together(star, (1, 1, 1, 1))
    for rank in group.ranks:
        rank._name = 5
    with ExitStack() as stack:
        for number in busy:
            stack.enter_context(busy_team(group.ranks[number]))
        # The first level is pulled, which needs the bit of the root.
        trades = require_right(group, 0)
    # What they need to begin, and that they are done. If all are busy, nobody expects anything.
    assert trades == 2 if not busy else trades == 4 if len(busy) == 4 else trades > 4


def test_group_one_process_go_by_supersteps() -> None:
    arcs, device = GRAPHS["skewed"](), CpuDevice(1)
    shared = device.bfs_shared(arcs.vertices, 2)
    ranks = [device.bfs_rank(part) for part in arcs.shards(2)]
    for _ in range(MOST_FAILURES + 1):
        run_in_process({k: bfs(rank, 7, shared) for k, rank in enumerate(ranks)}, shared)
    # They may be dealt to processes of their own.
    assert all(rank.may_meet and rank.greeting == (0, 0) for rank in ranks)


@pytest.mark.parametrize(
    ("names", "have"), [([5, 5, 5, 5], True), ([5, 5, 5, 6], False), ([0] * 4, False)]
)
def test_ranks_know_whether_all_have_met(names: Sequence[int], have: bool) -> None:
    ranks = [CpuDevice(1).bfs_rank(part) for part in GRAPHS["grid"]().shards(4)]
    for rank, name in zip(ranks, names, strict=True):
        rank._name = name
    sums = [sum(column) for column in zip(*(rank.greeting for rank in ranks), strict=True)]
    assert all(rank.has_met(sums) == have for rank in ranks)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """If ranks went by supersteps, there would be one for each of 1,500 levels."""
    return path_in(tmp_path_factory.mktemp("path"), shards=2)


@pytest.fixture
def client() -> Iterator[Client]:
    with start(2) as cluster, Client(cluster) as client:
        yield client


searched, same = partial(together.searched, "bfs"), partial(together.same, "bfs")


def test_workers_search_together(path: og.Graph, client: Client, tmp_path: Path) -> None:
    for root, most in ((0, 5), (17, 2), (1400, 2)):
        answer, supersteps = searched(path, client, root)
        assert supersteps <= most
        same(answer, path, root)
    client.run(be_late)
    answer, supersteps = searched(path, client, 17)
    assert supersteps > 1400
    same(answer, path, 17)
    # They meet again.
    assert searched(path, client, 17)[1] < 10
    # Also if the answer is written.
    answer, supersteps = searched(path, client, 17, out=tmp_path / "out.zarr")
    assert supersteps <= 2
    same(answer, path, 17)


def test_workers_that_have_met_come_again_without_a_message(path: og.Graph, client: Client) -> None:
    client.run(wait_long)
    searched(path, client, 0)
    for root in (17, 1400):
        answer, supersteps = searched(path, client, root)
        assert supersteps == 0
        same(answer, path, root)


def test_processes_with_several_ranks_do_not_wait(tmp_path: Path) -> None:
    """Of the ranks that have met, the first of a process may be dealt another beside it."""
    graph = path_in(tmp_path, shards=4)
    with start(4) as cluster, Client(cluster) as client:
        client.run(wait_long)
        for root in (0, 17):
            searched(graph, client, root)
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        client.retire_workers([workers[1]])
        for root in (400, 800):
            begun_s = time.monotonic()
            answer, supersteps = searched(graph, client, root)
            assert time.monotonic() - begun_s < LONG_S / 2
            assert supersteps > 1
            same(answer, graph, root)


@pytest.mark.parametrize("step", ["again", "is_free"])
def test_who_does_not_come_again_is_not_waited_for(
    step: str, path: og.Graph, client: Client
) -> None:
    client.run(wait_long)
    searched(path, client, 0)
    client.run(stay_away, step, workers=[min(client.scheduler_info(n_workers=-1)["workers"])])
    begun_s = time.monotonic()
    answer, supersteps = searched(path, client, 17)
    assert time.monotonic() - begun_s < LONG_S / 2
    assert supersteps > 0
    same(answer, path, 17)


@pytest.mark.parametrize("step", ["launch", "again", "finish"])
def test_a_worker_that_dies_before_it_comes(step: str, path: og.Graph, client: Client) -> None:
    client.run(wait_long)
    require_soon_without_one("bfs", path, client, partial(die_at, step))


def test_searches_at_once(path: og.Graph) -> None:
    """Two of them on the same threads."""
    with start(2, threads_per_worker=2) as cluster, Client(cluster) as client:
        searched(path, client, 0)
        with ThreadPoolExecutor(4) as pool:
            roots = [17, 400, 800, 1400]
            answers = list(pool.map(partial(at_once, path, client), roots))
        for root, answer in zip(roots, answers, strict=True):
            same(answer, path, root)
        assert searched(path, client, 17)[1] < 10


def at_once(graph: og.Graph, client: Client, root: int) -> Any:
    return og.bfs(graph, root, client=client, exchange="scheduler")


def be_late() -> None:
    make_late(CpuPeerBfsRank, "finish")


LONG_S = 100.0


def wait_long() -> None:
    peers.GATHERING_S = LONG_S


def stay_away(step: str) -> None:
    """Have a worker's rank not come where it met the others, once."""
    usual = getattr(CpuPeerBfsRank, step)

    def away(*_: Any) -> None:
        setattr(CpuPeerBfsRank, step, usual)

    setattr(CpuPeerBfsRank, step, away)


def die_at(step: str) -> None:
    setattr(CpuPeerBfsRank, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
