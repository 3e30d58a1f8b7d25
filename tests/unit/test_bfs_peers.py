"""BFS by ranks that may search together: how they agree, on ranks that only claim to do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.peers import BfsPeerRank
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.runtime import peers
from ooc_graph.kernels.cuda.runtime.peers import WORDS, can_meet, sharing
from ooc_graph.traverse.bfs import bfs
from ooc_graph.types import Shard
from tests import local_exchange
from tests.strategies import Arcs, skewed

DEVICE = CpuDevice(1)
SHARDS = 4


@dataclass
class Board:
    """What the ranks of a search have done, and what they are to fail at."""

    arcs: Arcs
    done: list[tuple[str, int]] = field(default_factory=list)
    cannot_offer: int = -1
    cannot_join: int = -1
    has_no_answer: int = -1


class Together:
    """A rank on the CPU, whose part in a search together is cut out of one by the whole graph."""

    def __init__(self, board: Board, part: Shard) -> None:
        self._board, self._part, self._rank = board, part, DEVICE.bfs_rank(part)
        self._joined: list[int] = []
        self._tree: BfsTree | None = None
        self._has_left = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rank, name)

    def _note(self, what: str) -> int:
        shard = self._part.dealing.shard
        self._board.done.append((what, shard))
        return shard

    def offer(self) -> tuple[int, ...]:
        mine, can = self._part.dealing.shard, self._board.cannot_offer != self._part.dealing.shard
        can = can and not self._has_left
        return tuple(can * (1 << 63) * (shard == mine) for shard in range(SHARDS))

    def can_reach(self, offers: Sequence[int]) -> bool:
        return all(offers)

    def has_joined(self, offers: Sequence[int]) -> bool:
        return self._joined == offers

    def join(self, offers: Sequence[int]) -> bool:
        if self._note("join") == self._board.cannot_join:
            return False
        self._joined = list(offers)
        return True

    def launch(self, root: int, arcs: int, offers: Sequence[int]) -> None:
        assert arcs == sum(len(part.out_hub.neighbors) for part in self._board.arcs.shards(SHARDS))
        assert offers == self._joined
        self._note("launch")
        tree = DEVICE.bfs(self._board.arcs.shards(1)[0]).run(root)
        own = self._part.dealing.owned()
        self._tree = replace(tree, parent=tree.parent[own], level=tree.level[own])

    def finish(self) -> bool:
        # Nobody waits before all have begun.
        assert sum(what == "launch" for what, _ in self._board.done) % SHARDS == 0
        return self._note("finish") != self._board.has_no_answer

    def leave(self) -> None:
        self._note("leave")
        self._has_left, self._joined = True, []

    def peer_tree(self) -> BfsTree:
        assert self._tree is not None
        return self._tree


@pytest.fixture
def board() -> Board:
    return Board(skewed(SHARDS * 1500, 20_000, "float32", directed=True, seed=4))


@pytest.fixture
def ranks(board: Board) -> list[Any]:
    return [Together(board, part) for part in board.arcs.shards(SHARDS)]


def searched(board: Board, ranks: list[Any], root: int, exchange: str = "local") -> None:
    """The answer is that of one process."""
    shared = DEVICE.bfs_shared(board.arcs.vertices, SHARDS)
    coroutines = [bfs(rank, root, shared) for rank in ranks]
    if exchange == "local":
        trees, _ = local_exchange.run(coroutines, shared, SHARDS)
    else:
        trees = run_in_process(dict(enumerate(coroutines)), shared)
    expected = DEVICE.bfs(board.arcs.shards(1)[0]).run(root)
    for rank, tree in zip(ranks, trees, strict=True):
        own = rank._part.dealing.owned()
        assert tree.parent.tobytes() == expected.parent[own].tobytes()
        assert tree.level.tobytes() == expected.level[own].tobytes()


def counted(board: Board) -> dict[str, int]:
    """How often each has been done since it was asked last."""
    found = {what: sum(one == what for one, _ in board.done) for what, _ in board.done}
    board.done.clear()
    return found


@pytest.mark.parametrize("exchange", ["local", "process"])
def test_ranks_join_once(board: Board, ranks: list[Any], exchange: str) -> None:
    assert all(isinstance(rank, BfsPeerRank) for rank in ranks)
    searched(board, ranks, 7, exchange)
    assert counted(board) == {"join": SHARDS, "launch": SHARDS, "finish": SHARDS}
    searched(board, ranks, 8, exchange)
    assert counted(board) == {"launch": SHARDS, "finish": SHARDS}


def test_a_rank_without_an_offer_keeps_all_from_it(board: Board, ranks: list[Any]) -> None:
    board.cannot_offer = 2
    searched(board, ranks, 7)
    assert counted(board) == {}


def test_a_rank_that_cannot_join_keeps_all_from_it(board: Board, ranks: list[Any]) -> None:
    board.cannot_join = 1
    searched(board, ranks, 7)
    assert counted(board) == {"join": SHARDS}


def test_all_leave_if_one_has_no_answer(board: Board, ranks: list[Any]) -> None:
    board.has_no_answer = 3
    searched(board, ranks, 7)
    assert counted(board) == dict.fromkeys(("join", "launch", "finish", "leave"), SHARDS)
    searched(board, ranks, 8)
    assert counted(board) == {}


def offer(process: int, bus: int, *, host: int | None = None) -> tuple[int, ...]:
    found = peers._host() if host is None else host, process, bus
    return found + (0,) * (WORDS - 3)


@pytest.mark.parametrize(
    ("offers", "can"),
    [
        ([offer(1, 1), offer(2, 2)], True),
        ([offer(1, 1), offer(1, 1), offer(1, 2), offer(2, 3)], True),
        ([offer(1, 1), offer(2, 1)], False),
        ([offer(1, 1), offer(2, 2, host=5)], False),
        ([offer(1, 1), (0,) * WORDS], False),
    ],
    ids=["a device each", "ranks share", "processes share", "hosts", "one cannot"],
)
def test_who_can_meet(offers: list[tuple[int, ...]], can: bool) -> None:
    assert can_meet(offers) == can


def test_ranks_that_share_a_device() -> None:
    offers = [offer(1, 1), offer(1, 2), offer(1, 1), offer(2, 3)]
    assert [sharing(offers, own) for own in offers] == [2, 1, 2, 1]
