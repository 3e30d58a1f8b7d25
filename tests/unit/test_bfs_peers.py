"""BFS by ranks that may search together: how they agree, on ranks that only claim to do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ooc_graph.exchange.interface import World
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.decisions import BfsTree
from ooc_graph.kernels.common.peers import BfsPeerRank
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.bfs.peer_rank import _Taken
from ooc_graph.kernels.cuda.runtime import peers
from ooc_graph.kernels.cuda.runtime.peers import can_meet
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
    is_taken: int = -1
    cannot_offer: int = -1
    cannot_join: int = -1
    has_no_answer: int = -1


class Together:
    """A rank on the CPU, whose part in a search together is cut out of one by the whole graph."""

    def __init__(self, board: Board, part: Shard) -> None:
        self._board, self._part, self._rank = board, part, DEVICE.bfs_rank(part)
        self._tree: BfsTree | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rank, name)

    def _note(self, what: str) -> int:
        shard = self._part.dealing.shard
        self._board.done.append((what, shard))
        return shard

    may_meet, agrees, joins, greeting = True, False, False, (0, 0)

    def is_free(self, search: object) -> bool:
        return True

    def has_met(self, greetings: Sequence[int]) -> bool:
        assert greetings == [0, 0]
        return False

    def _for_all(self, word: int) -> tuple[int, ...]:
        return tuple(word * (rank == self._part.dealing.shard) for rank in range(SHARDS))

    def introduce(self, search: object) -> tuple[int, ...]:
        assert isinstance(search, type(DEVICE.bfs_shared(4, 1)))
        return self._for_all(self._part.dealing.shard != self._board.is_taken)

    def can_meet(self, introduced: Sequence[int]) -> bool:
        return all(introduced)

    def offer(self) -> tuple[int, ...]:
        return self._for_all((1 << 63) * (self._note("offer") != self._board.cannot_offer))

    def join(self, offers: Sequence[int]) -> bool:
        return self._note("join") != self._board.cannot_join and all(offers)

    def launch(self, root: int, arcs: int) -> None:
        assert arcs == sum(len(part.out_hub.neighbors) for part in self._board.arcs.shards(SHARDS))
        self._note("launch")
        tree = DEVICE.bfs(self._board.arcs.shards(1)[0]).run(root)
        own = self._part.dealing.owned()
        self._tree = replace(tree, parent=tree.parent[own], level=tree.level[own])

    def finish(self) -> bool:
        # Nobody waits before all have begun.
        assert sum(what == "launch" for what, _ in self._board.done) % SHARDS == 0
        return self._note("finish") != self._board.has_no_answer

    def peer_tree(self) -> BfsTree:
        assert self._tree is not None
        return self._tree

    def part(self, *, may_keep: bool) -> None:
        self._note("kept" if may_keep else "dropped")


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


def of_all(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, SHARDS)


@pytest.mark.parametrize("exchange", ["local", "process"])
def test_ranks_search_together(board: Board, ranks: list[Any], exchange: str) -> None:
    assert all(isinstance(rank, BfsPeerRank) for rank in ranks)
    for root in (7, 8):
        searched(board, ranks, root, exchange)
        assert counted(board) == of_all("offer", "join", "launch", "finish", "kept")


def test_a_rank_that_is_taken_costs_nobody_memory(board: Board, ranks: list[Any]) -> None:
    board.is_taken = 2
    searched(board, ranks, 7)
    assert counted(board) == of_all("kept")


@pytest.mark.parametrize("which", ["cannot_offer", "cannot_join"])
def test_all_drop_what_one_cannot_use(board: Board, ranks: list[Any], which: str) -> None:
    setattr(board, which, 1)
    searched(board, ranks, 7)
    assert counted(board) == of_all("offer", "join", "dropped")


def test_all_drop_it_if_one_has_no_answer(board: Board, ranks: list[Any]) -> None:
    board.has_no_answer = 3
    searched(board, ranks, 7)
    assert counted(board) == of_all("offer", "join", "launch", "finish", "dropped")


def test_a_search_that_is_broken_off_is_parted_from(board: Board, ranks: list[Any]) -> None:
    shared = DEVICE.bfs_shared(board.arcs.vertices, SHARDS)
    coroutine = bfs(ranks[0], 7, shared)
    first = next(coroutine)
    coroutine.send(World((*first.counts[:-3], 0, 0, 0)))
    coroutine.send(World((1, 1, 1, 1)))
    coroutine.close()
    assert counted(board) == {"offer": 1, "dropped": 1}


HOST, DEVICE_A, DEVICE_B = 5, 7, 8


@pytest.mark.parametrize(
    ("identities", "can"),
    [
        ([(HOST, 1, DEVICE_A), (HOST, 2, DEVICE_B)], True),
        ([(HOST, 1, DEVICE_A), (HOST, 1, DEVICE_A), (HOST, 1, DEVICE_B)], True),
        ([(HOST, 1, DEVICE_A), (HOST, 2, DEVICE_A)], False),
        ([(HOST, 1, DEVICE_A), (HOST + 1, 2, DEVICE_B)], False),
        ([(HOST, 1, DEVICE_A), (0, 0, 0)], False),
        (peers.MOST_ON_A_DEVICE * [(HOST, 1, DEVICE_A)], True),
        ((peers.MOST_ON_A_DEVICE + 1) * [(HOST, 1, DEVICE_A)], False),
    ],
    ids=["a device each", "ranks share", "processes share", "hosts", "one cannot", "four", "five"],
)
def test_who_can_meet(identities: list[tuple[int, ...]], can: bool) -> None:
    assert can_meet(identities) == can


@pytest.mark.parametrize("bus", ["0000:07:00.0", "0001:AF:1F.7"])
def test_a_device_is_found_by_its_number(bus: str) -> None:
    number = peers._number_of(bus)
    assert 0 < number < 1 << 63
    assert peers._bus_of(number) == bus.lower()


def test_a_device_is_taken_by_one_search() -> None:
    taken, one, other = _Taken(), object(), object()
    assert taken.take(0, one)
    assert taken.take(0, one)
    assert not taken.take(0, other)
    assert taken.take(1, other)
    taken.give_back(0, one)
    assert not taken.take(0, other)
    taken.give_back(0, one)
    assert taken.take(0, other)
