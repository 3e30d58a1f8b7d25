"""BFS by ranks that reach each other's device memory: the bytes of the CPU, and no endless wait."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ooc_graph as og
from ooc_graph.exchange.interface import World
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs import peers
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.bfs.peer_rank import MOST_FAILURES
from ooc_graph.kernels.cuda.bfs.peers import PeerBfs
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.kernels.cuda.pinned import peer_rank as pinned_peer_rank
from ooc_graph.strategies.cuda import pinned_ranks
from ooc_graph.traverse.bfs import bfs
from tests.gpu import stores
from tests.gpu.graphs import GRAPHS, roots
from tests.gpu.ranked import TogetherBfs
from tests.gpu.searching import columns, hub
from tests.gpu.tiered import PinnedRanks
from tests.strategies import Arcs

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

NAMES = ["kronecker 14", "kronecker 16", "skewed, directed", "dense, directed", "star", "pieces"]
# Small thresholds take searches of small graphs through every part of the kernel.
NEVER_WIDE = {"WIDE_ARCS": 1 << 30, "MANY_ARCS": 1 << 30}
COURSES = {
    "usual": {},
    "all pushed": {"PULL_ABOVE": 1, "PUSH_BELOW": 1, "OPEN_ROWS": 0, **NEVER_WIDE},
    "marked here": {"PULL_ABOVE": 1, "PUSH_BELOW": 1, "OPEN_ROWS": 0, "WIDE_ARCS": 0},
    "very many": {"PULL_ABOVE": 1, "PUSH_BELOW": 1, "OPEN_ROWS": 0, "WIDE_ARCS": 0, "MANY_ARCS": 0},
    "all pulled": {"PULL_ABOVE": 1 << 30, "MAPS": "1u"},
    "by list": {"OPEN_BELOW": 1, "HUB_WORDS": 8, "PULL_ABOVE": 1000},
}
SHARDS = [2, 4]


@cache
def arcs(name: str) -> Arcs:
    return GRAPHS[name]()


@cache
def right(name: str, root: int) -> BfsTree:
    return CpuDevice(2).bfs(arcs(name).shards(1)[0]).run(root)


def compile_with(monkeypatch: pytest.MonkeyPatch, changed: dict[str, int | str]) -> None:
    usual = peers.constants
    monkeypatch.setattr(peers, "constants", lambda *a, **b: {**usual(*a, **b), **changed})
    if "MAPS" in changed:
        monkeypatch.setattr(peers, "_MAPS", int(str(changed["MAPS"])[:-1]))
    if "OPEN_BELOW" in changed:
        monkeypatch.setattr(peers, "_OPEN_BELOW", changed["OPEN_BELOW"])


def count_launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each search that a rank has finished with others."""
    done: list[int] = []
    finish = PeerBfs.finish

    def noted(self: PeerBfs) -> Any:
        course = finish(self)
        done.extend([] if course is None else [1])
        return course

    monkeypatch.setattr(PeerBfs, "finish", noted)
    return done


def same(found: BfsTree, expected: BfsTree) -> None:
    assert found.parent.tobytes() == expected.parent.tobytes()
    assert found.level.tobytes() == expected.level.tobytes()
    assert found.level_vertices.tolist() == expected.level_vertices.tolist()


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("name", NAMES)
def test_bytes(name: str, shards: int, course: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_with(monkeypatch, COURSES[course])
    done = count_launches(monkeypatch)
    parts = arcs(name).shards(shards)
    search, tried = TogetherBfs(CudaDevice(), parts), roots(arcs(name))[:4]
    for root in tried:
        same(search.run(root), right(name, root))
    # Ranks without rows have no part in it.
    can = all(part.dealing.rows for part in parts)
    assert len(done) == can * shards * len(tried)


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("share", [BfsShare(2), BfsShare(3, 20, 30), BfsShare(7, 5, 5)], ids=str)
@pytest.mark.parametrize("name", ["kronecker 16", "skewed, directed", "pieces"])
def test_bytes_of_pinned_rows(
    name: str, share: BfsShare, course: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_with(monkeypatch, COURSES[course])
    done = count_launches(monkeypatch)
    search = TogetherBfs(PinnedRanks(3, 2, share), arcs(name).shards(2))
    tried = roots(arcs(name))[:4]
    for root in tried:
        same(search.run(root), right(name, root))
    assert len(done) == 2 * len(tried)


def test_both_directions_are_among_these() -> None:
    found = TogetherBfs(CudaDevice(), arcs("kronecker 16").shards(2)).run(5)
    assert set(found.level_direction.tolist()) == {0, 1}


def test_too_many_levels_are_searched_by_supersteps(monkeypatch: pytest.MonkeyPatch) -> None:
    done = count_launches(monkeypatch)
    search = TogetherBfs(CudaDevice(), arcs("path").shards(2))
    for root in (0, arcs("path").vertices // 2):
        same(search.run(root), right("path", root))
    assert not done


@pytest.mark.parametrize("refused", [1, 2])
def test_refused_memory_leaves_pinned_rows_as_they_were(
    refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is opened to others is refused, or the whole share afterwards as well."""
    done, opened = count_launches(monkeypatch), peers.Opened
    shares, refusals = pinned_peer_rank.TieredRows.of, []

    def refuse(*_: Any) -> Any:
        refusals.append("opened")
        raise MemoryError("refused")

    def refuse_share(outside: Any, least: int, shift: int) -> Any:
        if refused == 2 and refusals and least > 1:
            refusals.append("share")
            raise MemoryError("refused")
        return shares(outside, least, shift)

    search = TogetherBfs(PinnedRanks(3, 2, BfsShare(2, 10, 10)), arcs("kronecker 14").shards(2))
    monkeypatch.setattr(peers, "Opened", refuse)
    monkeypatch.setattr(pinned_peer_rank.TieredRows, "of", refuse_share)
    same(search.run(5), right("kronecker 14", 5))
    assert len(refusals) == 2 * refused
    kept = [len(rank._out.shares.neighbors) / rank._dealing.rows for rank in search._ranks]
    assert all((ratio > 2) == (refused == 1) for ratio in kept)
    assert not done
    monkeypatch.setattr(peers, "Opened", opened)
    same(search.run(7), right("kronecker 14", 7))
    assert len(done) == 2


@pytest.mark.parametrize("is_pinned", [False, True], ids=["on the device", "pinned"])
def test_a_rank_that_does_not_come_is_not_waited_for(
    is_pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_with(monkeypatch, {"PATIENCE_NS": "200000000ull"})
    done = count_launches(monkeypatch)
    launch, finish = PeerBfs.launch, PeerBfs.finish

    def only_the_first(self: PeerBfs, *given: Any) -> None:
        if self._dealing.shard == 0:
            launch(self, *given)

    monkeypatch.setattr(PeerBfs, "launch", only_the_first)
    monkeypatch.setattr(
        PeerBfs, "finish", lambda self: None if self._dealing.shard else finish(self)
    )
    device = PinnedRanks(3, 2, BfsShare(2, 10, 10)) if is_pinned else CudaDevice()
    search = TogetherBfs(device, arcs("kronecker 14").shards(2))
    for root in range(2, 2 + MOST_FAILURES + 1):
        same(search.run(root), right("kronecker 14", root))
    assert not done
    for rank in search._ranks if is_pinned else ():  # as much of the rows as before
        assert len(rank._out.shares.neighbors) > 2 * rank._dealing.rows


def test_a_search_that_was_broken_off_is_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank has launched, and no other; both go on with the memory that they have, or anew."""
    compile_with(monkeypatch, {"PATIENCE_NS": "200000000ull"})
    parts = arcs("kronecker 14").shards(2)
    device, search = CudaDevice(), TogetherBfs(CudaDevice(), parts)
    same(search.run(5), right("kronecker 14", 5))
    shared = device.bfs_shared(parts[0].dealing.vertices, 2)
    coroutines = [bfs(rank, 6, shared) for rank in search._ranks]
    answers: list[Any] = [None, None]
    # The vote about joining is the only superstep with one count.
    while len(answers[0].counts if answers[0] else ()) != 1:
        asked = [one.send(answer) for one, answer in zip(coroutines, answers, strict=True)]
        if asked[0].payload:
            shared.merge([share.payload for share in asked])
        counts = tuple(map(sum, zip(*(share.counts for share in asked), strict=True)))
        answers = 2 * [World(counts)]
    coroutines[0].send(answers[0])
    for one in coroutines:
        one.close()
    done = count_launches(monkeypatch)
    same(search.run(7), right("kronecker 14", 7))
    assert len(done) == 2


def test_two_searches_at_once_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    done = count_launches(monkeypatch)
    parts = arcs("kronecker 14").shards(2)
    first, second = TogetherBfs(CudaDevice(), parts), TogetherBfs(CudaDevice(), parts)
    shared = CudaDevice().bfs_shared(parts[0].dealing.vertices, 2)
    coroutines = [bfs(rank, 6, shared) for rank in first._ranks]
    first_asked = [next(one) for one in coroutines]
    counts = tuple(map(sum, zip(*(share.counts for share in first_asked), strict=True)))
    shared.merge([share.payload for share in first_asked])
    for one in coroutines:
        one.send(World(counts))  # has the device now
    same(second.run(5), right("kronecker 14", 5))
    assert not done
    for one in coroutines:
        one.close()
    same(second.run(5), right("kronecker 14", 5))
    assert len(done) == 2


def test_limited_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done = count_launches(monkeypatch)
    pool = cupy.get_default_memory_pool()
    pool.set_limit(size=8 << 30)
    try:
        same(
            TogetherBfs(CudaDevice(), arcs("kronecker 14").shards(2)).run(5),
            right("kronecker 14", 5),
        )
    finally:
        pool.set_limit(size=0)
    assert not done


def test_ranks_without_rows_search_by_supersteps(monkeypatch: pytest.MonkeyPatch) -> None:
    done = count_launches(monkeypatch)
    same(TogetherBfs(CudaDevice(), arcs("kronecker 10").shards(4)).run(5), right("kronecker 10", 5))
    assert not done


@pytest.fixture
def two_devices() -> None:
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("two devices of one host are needed")


@pytest.mark.usefixtures("two_devices")
@pytest.mark.parametrize("shards", [2, 4])
def test_workers_with_a_device_each(shards: int, tmp_path_factory: Any, cuda_workers: Any) -> None:
    graph = stores.kronecker(tmp_path_factory, 16, shards=shards)
    options = {"client": cuda_workers, "device": "cuda", "exchange": "scheduler"}
    for root in (hub(graph), int(graph.original_of()[-1])):
        expected = columns(og.bfs(graph, root, device="cpu", client=False))
        for _ in range(2):
            assert columns(og.bfs(graph, root, **options)) == expected
    assert sum(cuda_workers.run(_epochs).values()) > 0


@pytest.mark.usefixtures("two_devices")
def test_workers_with_pinned_rows(tmp_path: Path, cuda_workers: Any) -> None:
    """Within so much of each device that most arcs are in host memory alone."""
    graph = og.build(og.Kronecker(20), tmp_path / "g.zarr", shards=2, client=False)
    facts = max(pinned_ranks.facts_of_any(graph, "bfs", 1), key=lambda one: one.pinned_bytes)
    budget = pinned_ranks.least_bytes(facts) + (40 << 20)
    options: dict[str, Any] = {"client": cuda_workers, "device": "cuda", "exchange": "scheduler"}
    for root in (hub(graph), int(graph.original_of()[-1])):
        expected = columns(og.bfs(graph, root, device="cpu", client=False))
        for _ in range(2):
            assert columns(og.bfs(graph, root, device_memory=budget, **options)) == expected
    assert sum(cuda_workers.run(_pinned_epochs).values()) > 0


@pytest.mark.usefixtures("two_devices")
def test_a_worker_that_dies_before_it_launches(tmp_path: Path, cuda_workers: Any) -> None:
    graph = og.build(og.Kronecker(15), tmp_path / "g.zarr", shards=2, device="cpu")
    options = {"client": cuda_workers, "device": "cuda", "exchange": "scheduler"}
    expected = columns(og.bfs(graph, 5, device="cpu", client=False))
    before = set(cuda_workers.scheduler_info(n_workers=-1)["workers"])
    cuda_workers.run(_die_at_launch, workers=[min(before)])
    assert columns(og.bfs(graph, 5, **options)) == expected
    assert min(before) not in cuda_workers.scheduler_info(n_workers=-1)["workers"]
    # Those that are left search together again.
    assert sum(cuda_workers.run(_epochs).values()) > 0


def _epochs() -> int:
    """Meetings that devices of this process have had."""
    import gc

    return sum(one.epoch for one in gc.get_objects() if isinstance(one, PeerBfs))


def _pinned_epochs() -> int:
    """The same of devices whose rows are in pinned host memory."""
    import gc

    return sum(one.epoch for one in gc.get_objects() if isinstance(one, PeerBfs) and one._near)


def _die_at_launch() -> None:
    PeerBfs.launch = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign,misc]
