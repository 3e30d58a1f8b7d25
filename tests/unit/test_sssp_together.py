"""SSSP by ranks of several processes in common memory: the bytes of one, and no endless wait."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import ooc_graph as og
from ooc_graph.errors import InputError
from ooc_graph.exchange import scheduler
from ooc_graph.kernels.common import meeting
from ooc_graph.kernels.common.peers import SsspPeerRank
from ooc_graph.kernels.common.team import GENERATION, Team
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cpu.peers import MOST_FAILURES
from ooc_graph.kernels.cpu.sssp import common, shared
from ooc_graph.kernels.cpu.sssp.peer_rank import CpuPeerSsspRank
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import INT64_UNREACHED
from tests import together
from tests.apart import Apart
from tests.strategies import Arcs, arcs_of, skewed, small_arcs
from tests.together import FLOAT, make_late, path_in, require_soon_without_one
from tests.toy_ranks import start
from tests.unit.test_sssp import distance_dtype

ALONE = CpuDevice(1)


def without_weight() -> Arcs:
    """Most weights are zero, so that plateaus are wide."""
    arcs = skewed(3000, 12_000, "int64", directed=False, seed=6)
    arcs.weight[arcs.weight % 4 > 0] = 0
    return arcs


GRAPHS = together.GRAPHS | {
    "integers": lambda: skewed(9000, 60_000, "int64", directed=False, seed=5),
    "without weight": without_weight,
}
WITH_ZEROS = {"integers", "without weight"}
"""Parents on plateaus are found by supersteps."""


class Together:
    """Ranks of one search after another; each is as if in a process of its own."""

    def __init__(
        self, arcs: Arcs, threads: Sequence[int], ids: str = "uint32", each: int = 1
    ) -> None:
        self.arcs, self.ids, self.each = arcs, ids, each
        both = zip(threads, arcs.shards(len(threads), ids), strict=True)
        self.ranks = [CpuDevice(count).sssp_rank(part) for count, part in both]
        self.memories = 0

    def run(self, root: int) -> int:
        """Search, and compare the bytes with those of one process; how often ranks traded."""
        processes, dtype = len(self.ranks) // self.each, distance_dtype(self.arcs)
        apart = Apart(processes, each=self.each)
        states = [ALONE.sssp_shared(self.arcs.vertices, dtype) for _ in range(processes)]
        trees = apart.run(lambda member, state: sssp(self.ranks[member], root, state), states)
        self.memories = apart.memories
        right = ALONE.sssp(self.arcs.shards(1, self.ids)[0]).run(root)
        for rank, tree in zip(self.ranks, trees, strict=True):
            own = rank._dealing.owned()
            assert tree.distance.tobytes() == right.distance[own].tobytes()
            assert tree.parent.tobytes() == right.parent[own].tobytes()
        return apart.trades


@pytest.mark.parametrize("threads", [(1, 1), (1, 1, 1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("name", GRAPHS)
def test_bytes(name: str, threads: Sequence[int]) -> None:
    group = Together(GRAPHS[name](), threads)
    last = group.arcs.vertices - 1
    for root in (0, 7, last, last // 2):
        # Beginning, parents that are offered, those that are found; and that all are done.
        trades = group.run(root)
        assert trades <= 4 or name in WITH_ZEROS
        # The first search's memory serves all others.
        assert group.memories == (root == 0)


def test_several_ranks_of_a_process_keep_nothing() -> None:
    """They share memory, but do not search together."""
    group = Together(GRAPHS["skewed"](), [1] * 4, each=2)
    for _ in range(2):
        group.run(7)
        assert group.memories == 1
        assert all(rank.greeting == (0, 0) for rank in group.ranks)


@pytest.mark.parametrize("count", [2, 4])
def test_a_rank_that_has_met_nobody(count: int) -> None:
    """All make new memory with it, as after a worker was replaced."""
    group = Together(GRAPHS["skewed"](), [1] * count)
    usual = group.run(7)
    group.ranks[1] = CpuDevice(1).sssp_rank(group.arcs.shards(count)[1])
    for memories, trades in ((1, usual + 1), (0, usual)):
        assert group.run(7) == trades
        assert group.memories == memories


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "int32", FLOAT])
def test_other_types(dtype: str) -> None:
    ids = "uint64" if dtype == FLOAT else "uint32"
    arcs = skewed(9000, 60_000, dtype, directed=True, seed=2)
    assert Together(arcs, (1, 1), ids).run(7) <= 4


@settings(max_examples=60, deadline=None)
@given(small_arcs(FLOAT), st.sampled_from([2, 4]), st.data())
def test_small_graphs(arcs: Arcs, count: int, data: Any) -> None:
    Together(arcs, [1] * count).run(data.draw(st.integers(0, arcs.vertices - 1)))


@pytest.mark.parametrize("listed", [1, 7, 300])
@pytest.mark.parametrize("name", ["skewed", "grid", "without weight"])
def test_lists_that_are_full(name: str, listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a row, too, and with a ring that begins somewhere."""
    count, ids = 4, 4
    monkeypatch.setattr(shared, "COMMON_BYTES", least_bytes(count) + 2 * count * listed * ids)
    group = Together(GRAPHS[name](), [1] * count)
    for root in (0, group.arcs.vertices - 1):
        assert group.run(root) <= 4 or name in WITH_ZEROS


def least_bytes(ranks: int) -> int:
    """What all but the lists takes."""
    word, memory = 8, np.zeros(1 << 20, np.uint8)
    made = common.common_in(memory, ranks, np.dtype(FLOAT), np.dtype("uint32"))
    assert made is not None
    words = made.control.size + made.counts.size + 2 * ranks * 2 + made.arcs.size
    return word * words


def test_too_many_ranks_for_a_list_go_by_supersteps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "COMMON_BYTES", least_bytes(2))
    assert Together(GRAPHS["skewed"](), (1, 1)).run(7) > 4


def test_a_distance_that_is_too_long() -> None:
    heavy = INT64_UNREACHED // 2
    path = np.arange(4)
    arcs = arcs_of(path, path + 1, np.full(4, heavy), directed=True)
    with pytest.raises(InputError, match="exceeds the largest 64-bit integer"):
        Together(arcs, (1, 1)).run(0)


def test_nobody_waits_for_a_rank_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """All go by supersteps then, and after some such searches do not try any more."""
    group, usual = Together(GRAPHS["skewed"](), (1, 1)), CpuPeerSsspRank._given

    def late(rank: CpuPeerSsspRank, *given: Any) -> Any:
        if rank is group.ranks[1]:
            time.sleep(1.5)
        return usual(rank, *given)

    group.run(7)
    with monkeypatch.context() as patch:
        patch.setattr(meeting, "PATIENCE_S", 0)
        patch.setattr(CpuPeerSsspRank, "_given", late)
        for _ in range(MOST_FAILURES):
            assert group.run(7) > 4
            # Who is late writes to it still.
            assert all(rank.greeting == (0, 0) for rank in group.ranks)
        assert not any(rank.may_meet for rank in group.ranks)
    assert group.run(7) > 4


@pytest.mark.parametrize("busy", [{0}, {0, 1}])
def test_threads_that_another_search_has(busy: set[int]) -> None:
    group = Together(GRAPHS["skewed"](), (1, 1))
    group.run(7)
    with ExitStack() as stack:
        for number in busy:
            stack.enter_context(group.ranks[number]._team._one_launch)
        for _ in range(MOST_FAILURES):
            assert group.run(7) > 4
    # That was no failure.
    assert group.run(7) <= 4


def test_threads_that_another_search_takes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the first superstep and the launch."""
    group = Together(GRAPHS["skewed"](), (1, 2))
    monkeypatch.setattr(Team, "try_launch", lambda *_: False)
    for _ in range(MOST_FAILURES):
        assert group.run(7) > 4
    monkeypatch.undo()
    assert group.run(7) <= 4


@pytest.mark.parametrize("threads", [1, 2])
def test_giving_up_in_the_middle(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Together(skewed(60_000, 500_000, FLOAT, directed=False, seed=1), [threads] * 4)
    usual, launches = Team.try_launch, 0

    def launch(team: Team, kernel: Any, control: Any, shared: Any, *given: Any) -> bool:
        nonlocal launches
        launches += 1
        if launches % 4 == 0:
            # After the others have met a few times.
            Thread(target=give_up_at, args=(shared.control, 3)).start()
        return usual(team, kernel, control, shared, *given)

    monkeypatch.setattr(Team, "try_launch", launch)
    for root in range(MOST_FAILURES):
        group.run(root)


def give_up_at(control: Any, generation: int) -> None:
    while 0 <= control[GENERATION] < generation:
        pass
    control[GENERATION] = meeting.GIVEN_UP


def test_rehearsal_beside_a_search() -> None:
    """Both take the threads of a process in turn."""
    device, part = CpuDevice(3), GRAPHS["skewed"]().shards(1)[0]
    search, rank = device.sssp(part), device.sssp_rank(part)
    state = device.sssp_shared(9000, np.dtype(FLOAT))
    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            both = pool.submit(search.run, 7), pool.submit(rank.rehearse, state)
            assert [one.result() for one in both][1] is None


def test_ranks_are_peers() -> None:
    assert isinstance(ALONE.sssp_rank(GRAPHS["grid"]().shards(2)[0]), SsspPeerRank)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return path_in(tmp_path_factory.mktemp("path"), shards=8)


@pytest.fixture
def client() -> Iterator[Client]:
    with start(2) as cluster, Client(cluster) as client:
        yield client


searched, same = partial(together.searched, "sssp"), partial(together.same, "sssp")


def test_workers_search_together(path: og.Graph, client: Client, tmp_path: Path) -> None:
    for root in (0, 17, 1400):
        answer, supersteps = searched(path, client, root)
        assert supersteps <= 3
        same(answer, path, root)
    client.run(be_late)
    answer, supersteps = searched(path, client, 17)
    assert supersteps > 10
    same(answer, path, 17)
    # They meet again.
    assert searched(path, client, 17)[1] <= 3
    # Also if the answer is written.
    answer, supersteps = searched(path, client, 17, out=tmp_path / "out.zarr")
    assert supersteps <= 3
    same(answer, path, 17)


def test_workers_of_several_threads(path: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has one rank on one host, and a rank for each thread on several."""
    with start(2, threads_per_worker=2) as cluster, Client(cluster) as client:
        answer, supersteps = searched(path, client, 17)
        assert supersteps <= 3
        same(answer, path, 17)
        monkeypatch.setattr(scheduler, "_are_near", lambda *_: False)
        answer, supersteps = searched(path, client, 17)
        assert supersteps > 10
        same(answer, path, 17)


def test_a_worker_that_dies_before_it_comes(path: og.Graph, client: Client) -> None:
    require_soon_without_one("sssp", path, client, die_at_launch)


def be_late() -> None:
    make_late(CpuPeerSsspRank, "_given")


def die_at_launch() -> None:
    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    CpuPeerSsspRank._given = die  # type: ignore[method-assign]
