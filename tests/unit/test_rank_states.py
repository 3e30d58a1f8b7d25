"""Ranks that are stopped, and others, as many or not, that go on from what they wrote."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common import decisions
from ooc_graph.kernels.common.sssp.distances import distance_dtype
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.checkpoints import Checkpoints
from ooc_graph.layout.spilled import SpillWriter
from ooc_graph.memory.heads import HeadRule
from ooc_graph.search import rank_states
from ooc_graph.search.rank_states import Before, Pace, RankStates, before, remove_all
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.components import components
from ooc_graph.traverse.sssp import sssp
from ooc_graph.traverse.sssp_owned import sssp_owned
from ooc_graph.types import AnyArray, Dealing
from tests import local_exchange
from tests.gpu.ranked import CommonSteps
from tests.strategies import Arcs, grid, skewed, small_arcs
from tests.unit.test_sssp_owned_tiers import TAILS
from tests.unit.test_tier_ranks import bound

DEVICE = CpuDevice(1)
ALGORITHMS: dict[str, Any] = {"bfs": bfs, "sssp": sssp, "components": components}
MEMORY, DISK, JOINED = "memory", "disk", "joined"
OWNED, OWNED_DISK = "owned", "owned disk"
COMMON = "common steps"
"""Of every device."""
ARRAYS = {
    "bfs": ("parent", "level"),
    "sssp": ("parent", "distance"),
    "components": ("label",),
}


class LostError(Exception):
    """A rank has come so far."""


def dying(coroutine: Any, supersteps: int) -> Iterator[Any]:
    """The same coroutine for so many supersteps."""
    question = next(coroutine)
    for _ in range(supersteps):
        answer = yield question
        try:
            question = coroutine.send(answer)
        except StopIteration as end:
            return end.value
    coroutine.close()
    raise LostError


def made(arcs: Arcs, kernel: str, kind: str, shards: int) -> tuple[list[Any], Any]:
    """Ranks, and what they share."""
    if kind == DISK:
        ranks, share = bound(arcs, kernel, HeadRule(1), shards, window=64, look=3)
        return ranks, share()
    if kind in (OWNED, OWNED_DISK):
        device = DEVICE if kind == OWNED else TAILS
        owned = [device.owned_sssp_rank(part) for part in arcs.shards(shards)]
        dtype = distance_dtype(arcs.weight)
        return owned, DEVICE.owned_sssp_shared(arcs.vertices, shards, dtype)
    ranks = [getattr(DEVICE, f"{kernel}_rank")(part) for part in arcs.shards(shards)]
    if kernel == "bfs":
        return ranks, DEVICE.bfs_shared(arcs.vertices, shards)
    if kernel == "components":
        return ranks, DEVICE.components_shared(arcs.vertices)
    if kind == COMMON:
        ranks = [*map(CommonSteps, ranks)]
    return ranks, DEVICE.sssp_shared(arcs.vertices, distance_dtype(arcs.weight))


class Attempts:
    """Attempts at one search, one after the other, each with what the last one left."""

    made = staticmethod(made)

    def __init__(self, arcs: Arcs, kernel: str, folder: Path, root: int = 0) -> None:
        (folder / "spill").mkdir()
        self.arcs, self.kernel, self.folder = arcs, kernel, folder
        self.given = () if kernel == "components" else (root,)
        self.checkpoints = Checkpoints(folder, "0", "key")
        self.supersteps = 0

    def run(
        self, kind: str, shards: int, dies: tuple[int, int] | None = None, pace: Pace | None = None
    ) -> list[Any] | None:
        """What ranks find; None if the last number of ``dies`` did, at the superstep before."""
        ranks, shared = self.made(self.arcs, self.kernel, kind, shards)
        found, pace = before(self.checkpoints), pace or Pace(0)
        coroutines: list[Any] = []
        owned = partial(sssp_owned, most_listed=1 << 12)
        algorithm = owned if kind in (OWNED, OWNED_DISK) else ALGORITHMS[self.kernel]
        for number, rank in enumerate(ranks):
            dealing = Dealing(self.arcs.vertices, shards, number)
            states = RankStates(self.checkpoints, found, dealing, pace)
            coroutines.append(algorithm(rank, *self.given, shared, states=states))
        if dies is not None:
            superstep, number = dies
            coroutines[number % shards] = dying(coroutines[number % shards], superstep)
        try:
            if kind == JOINED:
                return run_in_process(dict(enumerate(coroutines)), shared)
            trees, stats = local_exchange.run(coroutines, shared, shards)
            self.supersteps = stats.supersteps
        except LostError:
            return None
        return trees

    def check(self, trees: Sequence[Any] | None) -> None:
        """Ranks must have found what one process finds."""
        assert trees is not None
        (whole,) = self.arcs.shards(1)
        wanted = getattr(DEVICE, self.kernel)(whole).run(*self.given)
        for name in ARRAYS[self.kernel]:
            expected = getattr(wanted, name)
            assert together([getattr(tree, name) for tree in trees], expected) == expected.tobytes()
        if self.kernel == "bfs":
            levels = [trees[0].level_vertices.tolist(), wanted.level_vertices.tolist()]
            assert levels[0] == levels[1]
            assert len(trees[0].level_arcs) == len(trees[0].level_direction) == len(levels[0])


def together(parts: Sequence[AnyArray], like: AnyArray) -> bytes:
    found = np.empty_like(like)
    for rank, part in enumerate(parts):
        assert part.dtype == like.dtype
        found[Dealing(len(like), len(parts), rank).owned()] = part
    return found.tobytes()


@pytest.fixture(autouse=True)
def at_every_superstep(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always time to write."""
    monkeypatch.setattr(rank_states, "LEAST_S", 0.0)
    monkeypatch.setattr(rank_states, "TIMES", 0)


SHARDS = st.sampled_from([1, 2, 4])
DEATHS = st.tuples(st.integers(0, 12), st.integers(0, 3))


@pytest.mark.parametrize(
    ("kernel", "dtype", "kinds"),
    [
        ("bfs", "float32", [MEMORY, DISK]),
        ("sssp", "float32", [MEMORY, DISK, JOINED, OWNED, OWNED_DISK, COMMON]),
        ("sssp", "int64", [MEMORY, JOINED, OWNED]),
        # Compiles what reads arcs out of the store for this type.
        pytest.param("sssp", "int64", [MEMORY, DISK], marks=pytest.mark.slow),
        ("components", "float32", [MEMORY]),
    ],
)
def test_small_graphs(
    kernel: str, dtype: str, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = st.sampled_from(kinds)

    @settings(max_examples=10, deadline=None)
    @given(
        small_arcs(dtype), st.lists(st.tuples(kind, SHARDS, DEATHS), max_size=3), kind, st.data()
    )
    def run(arcs: Arcs, harmed: list[Any], last: str, data: Any) -> None:
        root, pulls = data.draw(st.integers(0, arcs.vertices - 1)), data.draw(st.booleans())
        monkeypatch.setattr(decisions, "pull_pays", lambda *_: pulls)
        with TemporaryDirectory() as folder:
            attempts = Attempts(arcs, kernel, Path(folder), root)
            for one in harmed:
                attempts.run(*one)
            attempts.check(attempts.run(last, data.draw(SHARDS)))

    run()


def graphs() -> dict[str, Arcs]:
    """Of more rows than a block: one that is pulled, directed and not, and one that is pushed."""
    return {
        "hubs": skewed(6000, 90_000, "float32", directed=False, seed=1),
        "directed": skewed(9000, 30_000, "float32", directed=True, seed=2),
        "grid": grid(33, "float32"),
    }


QUICK = {
    ("bfs", MEMORY, DISK): ("hubs", "grid"),
    ("sssp", MEMORY, DISK): ("hubs", "directed"),
    ("sssp", JOINED, COMMON): ("hubs",),
    ("sssp", COMMON, DISK): (),
    ("sssp", MEMORY, OWNED): ("hubs", "grid"),
    ("sssp", OWNED, MEMORY): ("directed",),
    ("sssp", OWNED_DISK, OWNED_DISK): ("directed",),
    ("components", MEMORY, MEMORY): ("directed", "grid"),
}
"""What each pair of tiers is tried on; the others are slow tests."""


@pytest.mark.parametrize(
    ("kernel", "kinds", "name"),
    [
        pytest.param(kernel, kinds, name, marks=[pytest.mark.slow] * (name not in quick))
        for (kernel, *kinds), quick in QUICK.items()
        for name in graphs()
    ],
)
def test_lost_at_each_superstep(
    kernel: str,
    kinds: Sequence[str],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those who go on are fewer ranks, in another tier, and have less and less to do."""
    monkeypatch.setattr(decisions, "pull_pays", lambda *_: name == "hubs")
    arcs, root = graphs()[name], 3
    supersteps = []
    for number, by in enumerate([(kinds[0].replace(JOINED, MEMORY), 8), (kinds[1], 2)]):
        fresh = Attempts(arcs, kernel, _folder(tmp_path, f"fresh-{number}"), root)
        fresh.check(fresh.run(*by))
        supersteps.append(fresh.supersteps)
    pulled, left = set(), supersteps[1:]
    for superstep in range(1, supersteps[0], 1 + supersteps[0] // 6):
        attempts = Attempts(arcs, kernel, _folder(tmp_path, str(superstep)), root)
        if attempts.run(kinds[0], 8, (superstep, 7)) is None:
            pulled |= {_pulls(attempts)}
            attempts.check(attempts.run(kinds[1], 2))
            left.append(attempts.supersteps)
    if kernel != "components":
        assert left[-1] < (left[0] / 2 if name == "grid" else left[0])
    if kernel == "sssp":
        pulls = name == "hubs" and kinds[0] not in (OWNED, OWNED_DISK)
        assert pulled == ({True, False} if pulls else {False})


def _pulls(attempts: Attempts) -> bool:
    found = before(attempts.checkpoints)
    return found.whole is not None and bool(found.facts["state"].get("begun", [False])[-1])


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@pytest.fixture
def grid_search(tmp_path: Path) -> Attempts:
    """A BFS of many levels, of which the first two ranks did some."""
    attempts = Attempts(grid(30, "float32"), "bfs", tmp_path)
    assert attempts.run(MEMORY, 2, (9, 1)) is None
    return attempts


def _numbers(attempts: Attempts) -> list[int]:
    names = attempts.checkpoints.names("state-")
    return sorted({int(name.split("-")[1]) for name in names})


def _depth(attempts: Attempts) -> int:
    return len(before(attempts.checkpoints).facts["state"]["levels"][0])


def test_the_last_two_states_stay(grid_search: Attempts) -> None:
    assert len(_numbers(grid_search)) == 2
    assert len([*grid_search.folder.glob("spill/state-*")]) == 2 * 2 * len(ARRAYS["bfs"])
    assert before(grid_search.checkpoints).number == _numbers(grid_search)[-1] + 1
    depth = _depth(grid_search)
    assert grid_search.run(MEMORY, 4, (4, 3)) is None
    assert _depth(grid_search) > depth
    assert len(_numbers(grid_search)) == 2


@pytest.mark.parametrize("harm", ["byte", "file", "record", "other facts"])
def test_a_damaged_state_is_left_out(grid_search: Attempts, harm: str) -> None:
    """The one before is gone on from; without any, the search begins at its root."""
    depth = _depth(grid_search)
    for remaining in (1, 0):
        path = grid_search.folder / before(grid_search.checkpoints).entries[1][1].path
        record = grid_search.folder / "spill" / "done" / f"{path.name.rpartition('-')[0]}.json"
        if harm == "byte":
            path.write_bytes(path.read_bytes()[:-1] + b"\7")
        elif harm == "file":
            path.unlink()
        elif harm == "record":
            record.write_bytes(record.read_bytes()[:-5])
        else:
            record.write_text(record.read_text().replace('"levels": [[1', '"levels": [[2'))
        assert (before(grid_search.checkpoints).whole is not None) == bool(remaining)
        if remaining:
            assert _depth(grid_search) == depth - 1
    grid_search.check(grid_search.run(MEMORY, 4))


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space left"), MemoryError("refused")])
def test_a_search_goes_on_where_nothing_can_be_written(
    grid_search: Attempts,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing stays of a state that two ranks have written, and a third cannot."""
    depth, whole = _depth(grid_search), before(grid_search.checkpoints).whole
    arrays, write = [2 * 2], SpillWriter.write

    def fail(self: SpillWriter, data: AnyArray) -> None:
        if not arrays[0]:
            raise error
        arrays[0] -= 1
        write(self, data)

    with monkeypatch.context() as patched:
        patched.setattr(SpillWriter, "write", fail)
        assert grid_search.run(MEMORY, 4, (30, 3)) is None
    assert arrays == [0]
    assert [record.message for record in caplog.records] == [
        f"no state of the search can be written any more: {error!r}"
    ]
    assert (_depth(grid_search), before(grid_search.checkpoints).whole) == (depth, whole)
    names = {path.name for path in grid_search.folder.glob("spill/state-*")}
    assert len(names) == 2 * 2
    assert all(name.startswith(f"{whole}-") for name in names)
    grid_search.check(grid_search.run(MEMORY, 2))


def test_the_whole_state_stays_until_there_is_a_newer_one(tmp_path: Path) -> None:
    """Rank 0 stops before the other has written, so that two attempts leave halves."""
    attempts = Attempts(grid(30, "float32"), "bfs", tmp_path)
    assert attempts.run(MEMORY, 2, (9, 0)) is None
    depth, numbers = _depth(attempts), _numbers(attempts)
    assert len(attempts.checkpoints.names(f"state-{numbers[-1]}-")) == 1
    for _ in range(2):
        assert attempts.run(MEMORY, 2, (2, 0)) is None
        assert _depth(attempts) == depth
    attempts.check(attempts.run(MEMORY, 2))


def test_attempts_do_not_mix_their_states(grid_search: Attempts) -> None:
    """A slow worker of an earlier attempt neither completes states nor removes them."""
    slow, last = before(grid_search.checkpoints), before(grid_search.checkpoints)
    assert slow.number == last.number

    def states(found: Before, rank: int) -> RankStates:
        dealing = Dealing(grid_search.arcs.vertices, 2, rank)
        return RankStates(grid_search.checkpoints, found, dealing, Pace(0))

    def write(to: RankStates) -> None:
        to.write({"levels": []}, lambda: [np.zeros(450, np.int32)] * 2)

    lazy, *ranks = states(slow, 0), states(last, 0), states(last, 1)
    write(ranks[1])
    write(lazy)
    assert before(grid_search.checkpoints).whole == slow.whole
    write(ranks[0])
    assert before(grid_search.checkpoints).whole == (last.number, last.attempt)
    write(ranks[0])
    write(ranks[1])
    write(lazy)
    assert before(grid_search.checkpoints).whole == (last.number + 1, last.attempt)
    remove_all(grid_search.checkpoints)
    assert not [*grid_search.folder.glob("spill/**/state-*")]


class Clock:
    """Seconds pass when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("write_s", [0.02, 2.0])
def test_states_take_a_small_part_of_the_time(
    write_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ranks of a process write in turn; what the first takes is estimated."""
    monkeypatch.undo()
    clock, written, spent_s = Clock(), list[int](), 0.0
    pace = Pace(10_000_000, clock)

    def write() -> None:
        clock.now_s += write_s

    while clock.now_s < 10_000:
        clock.now_s += 0.1
        if pace.is_due():
            written.append(round(clock.now_s))
            for _ in range(2):
                pace.timed(len(written), write)
                spent_s += write_s
    assert written[0] == 40  # 33 times 1.2 seconds, which 120 MB take
    assert written[1] - written[0] == pytest.approx(max(5, 66 * write_s), abs=5)
    assert 0.005 < spent_s / clock.now_s < 0.031
