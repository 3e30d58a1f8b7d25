"""What batches of BFS on a CUDA device do on the host, with batches that are made up."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.answers.asked import Asked, answer_specs
from ooc_graph.answers.reductions import Bins
from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.bfs.search import CpuBfsSearch
from ooc_graph.kernels.cpu.many.bfs_search import CpuManyBfs
from ooc_graph.kernels.cuda.many import bfs as cuda_many_bfs
from ooc_graph.kernels.cuda.many import bfs_plan as cuda_many_bfs_plan
from ooc_graph.kernels.cuda.many.bfs import CudaManyBfs
from ooc_graph.kernels.cuda.many.bfs_batch import BATCH_REPORT
from ooc_graph.layout.names import HUB
from ooc_graph.model.request import Job, Many, Request
from ooc_graph.model.resources import CUDA, CudaLimits
from ooc_graph.runtime.this_process import planned
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.many.batches import Batches
from ooc_graph.strategies.many.memory import batches_device_bytes, locked_bytes, process_bytes
from ooc_graph.strategies.many.task import Division
from ooc_graph.types import AnyArray, IntArray, Rows
from tests.gpu.comparison import hub_sides
from tests.strategies import skewed

FAR = np.iinfo(np.int32).max


def test_rows_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_many_bfs_plan, "SHORT", 3)
    monkeypatch.setattr(cuda_many_bfs_plan, "MIDDLE", 6)
    lengths = np.random.default_rng(1).integers(0, 10, 200)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    found = cuda_many_bfs_plan.ordered_rows(offsets)
    kinds = [lengths > 6, (lengths > 3) & (lengths <= 6), (lengths > 0) & (lengths <= 3)]
    expected = [np.flatnonzero(kind) for kind in kinds]
    assert [found.longer, found.middle, found.shorter] == [len(kind) for kind in expected]
    assert found.row.tolist() == np.concatenate(expected).tolist()
    assert found.row.dtype == np.uint32
    empty = cuda_many_bfs_plan.ordered_rows(np.zeros(4, np.uint64))
    assert (empty.longer, empty.middle, empty.shorter, len(empty.row)) == (0, 0, 0, 0)


def test_a_queue_has_room_for_all_rows() -> None:
    random, stretch = np.random.default_rng(2), cuda_many_bfs_plan.PIECE_ARCS
    for high in (1, stretch, stretch + 2, 10 * stretch):
        lengths = random.integers(0, high, 50)
        items = np.maximum(1, -(-lengths // stretch)).sum()
        assert items <= cuda_many_bfs_plan.queue_capacity(50, int(lengths.sum()))


def test_planes_hold_any_level() -> None:
    """Also the one after the last there can be, whose plane may be emptied for nobody."""
    for rows in (1, 2, 3, 4, 255, 256, 257, 1 << 20):
        assert 1 << cuda_many_bfs_plan.planes_of(rows) > rows


def test_memory_of_batches() -> None:
    rows, arcs = 1 << 20, 1 << 24
    state = cuda_many_bfs_plan.state_bytes(rows, arcs)
    # Three sets of 32 bytes, two queues, places of rows, and bitmaps.
    assert 116 * rows + 16 * arcs // 256 < state < 117 * rows + 16 * arcs // 256
    assert cuda_many_bfs_plan.noted_bytes(rows) == 21 * 32 * rows
    assert cuda_many_bfs_plan.LEVEL_BYTES == 5 * 8
    assert [cuda_many_bfs_plan.answer_pitch(n) for n in (0, 1, 8, 9)] == [8, 8, 8, 16]


def test_counts_of_a_histogram_are_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_memory, "cuda_bytes", lambda *_: 1000)
    held: Any = SimpleNamespace(path="g")
    for sources, bins in ((10, 64), (300, 64), (300, 1 << 20)):
        asked = Asked(reduce="histogram", bins=Bins(bins), hops=True)
        specs = answer_specs(asked, sources, 50, np.dtype(np.int32))
        counted = min(sources, 256) * (bins + 3) * 8
        request = Request(asked.kernel, many=Many(specs, asked, in_memory=False))
        assert batches_device_bytes(Job(held, request, planned(1))) == 1000 + counted
    many = Many(specs, Asked(reduce="closeness", hops=True), in_memory=False)
    job = Job(held, Request(many.asked.kernel, many=many), planned(1))
    assert batches_device_bytes(job) == 1000


@pytest.mark.parametrize("reduce", [None, "closeness", "histogram"])
def test_tasks_of_levels(reduce: str | None) -> None:
    """Whole batches of 256, and pinned memory for levels alone."""
    asked = Asked(reduce=reduce, hops=True)
    held: Any = SimpleNamespace(
        path="g", rows=1 << 20, vertices=1 << 20, stored_arcs=10**11, has_negative_weights=True
    )
    held.directed, held.arcs = False, held.stored_arcs
    held.resident_bytes = lambda order: {HUB: 1 << 30}[order]
    place = replace(planned(1 << 50, CUDA, CudaLimits(1 << 40)), threads=4)
    specs = answer_specs(asked, 1 << 20, 1 << 20, np.dtype(np.int32))
    request = Request(asked.kernel, many=Many(specs, asked, in_memory=False))
    job = Job(held, request, place)
    plan = Batches(CUDA).reserve(job)
    assert isinstance(plan, Division)
    assert plan.batch_size == cuda_many_bfs_plan.SLOTS
    assert plan.chunks * specs[0].chunk == 8 * plan.batch_size
    assert not plan.matrix_sources
    assert locked_bytes(job) == (128 << 20 if reduce is None else 0)
    tallies = 2 * plan.chunks * specs[0].chunk * place.threads * (400 + 16 + 48 * 64)
    rows = (1 << 30) + (24 + 36) * (1 << 20) + (128 << 20)
    assert process_bytes(job, CUDA, plan.batch_size) == rows
    if reduce is not None:
        assert rows < plan.needed_bytes <= rows + tallies + 8 * (1 << 20) * 65


class _Counted:
    """An array in the memory of a device."""

    def __init__(self, array: AnyArray) -> None:
        self.array = array

    def get(self) -> AnyArray:
        return self.array


class _Device:
    """What CuPy does for counts."""

    asarray = staticmethod(np.asarray)

    @staticmethod
    def zeros(shape: tuple[int, int], dtype: Any) -> _Counted:
        return _Counted(np.zeros(shape, dtype))


class _Batches:
    """Batches of the CPU in place of the device's."""

    slots = 64
    meets = 1
    elapsed_s = 1.0

    def __init__(self, out: Rows, into: Rows) -> None:
        self._search = CpuManyBfs(out, into, Team(1))
        self.searched: list[int] = []
        self.tried: list[int] = []

    def try_out(self, sources: IntArray) -> tuple[float, AnyArray]:
        self.tried.append(len(sources))
        return self.elapsed_s, np.array((10, 10 * self.meets, 3, 0), BATCH_REPORT)

    def columns(self, places: AnyArray | None, most: int | None, far: int) -> Any:
        if places is None:
            places = np.arange(self._search.vertices)
        return places, FAR - 1 if most is None else most, far

    def count(self, sources: IntArray, most: int, counting: Any) -> None:
        assert len(sources) <= self.slots
        self.searched.append(len(sources))
        bits = np.unpackbits(counting.wanted.view(np.uint8), bitorder="little")
        wanted = bits[: self._search.vertices].astype(np.bool_)
        more = {"wanted": wanted, "bins": counting.bins, "width": counting.width}
        counting.tallies.array[:] = self._search.tally(sources, most=most, **more)

    def levels(self, sources: IntArray, columns: Any) -> AnyArray:
        places, most, far = columns
        self.searched.append(len(sources))
        found = self._search.run(sources)[:, places]
        return np.where((places < 0) | (found > most), far, found)


class _Answers:
    """Brings answers where they belong without a device."""

    def __init__(self, batches: _Batches, threads: int) -> None:
        assert threads == 2
        self._batches = batches

    def run(
        self, sources: IntArray, answer: AnyArray, columns: Any, own: Any, on_done: Any, at: Any
    ) -> None:
        assert own is None
        answer[slice(None) if at is None else at] = self._batches.levels(sources, columns)
        if on_done is not None:
            on_done(0, len(sources))


class _Single:
    """The device's search from one source."""

    elapsed_s = 0.001

    def __init__(self, out: Rows, into: Rows, *, count_arcs: bool) -> None:
        assert not count_arcs
        assert (into is out) == (into.neighbors is out.neighbors)
        self._search = CpuBfsSearch(out, into, Team(1))

    def run(self, root: int) -> Any:
        return self._search.run(root)

    def run_on_device(self, root: int) -> Any:
        self._search.run(root)
        return self


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_many_bfs, "cuda", lambda: _Device)
    monkeypatch.setattr(cuda_many_bfs, "within_memory", lambda _: nullcontext())
    monkeypatch.setattr(cuda_many_bfs, "rows_on_device", lambda rows, weighted: rows)
    monkeypatch.setattr(cuda_many_bfs, "BfsBatches", _Batches)
    monkeypatch.setattr(cuda_many_bfs, "HostAnswers", _Answers)
    monkeypatch.setattr(cuda_many_bfs, "CudaBfsSearch", _Single)


def sides(directed: bool) -> tuple[Rows, Rows]:
    return hub_sides(skewed(400, 900, "float32", directed=directed, seed=3).shards(1)[0])


class Searching:
    """A search as the product sees it."""

    def __init__(self, directed: bool) -> None:
        self.rows = sides(directed)
        self.search: Any = HostRows(*self.rows)
        self.cpu = CpuManyBfs(*self.rows, Team(1))


class HostRows(CudaManyBfs):
    """One whose rows are in host memory."""

    def __init__(self, out: Rows, into: Rows) -> None:
        super().__init__(out, into, threads=2)

    @property
    def vertices(self) -> int:
        return len(self._into.offsets) - 1


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("meets", [1, 100])
@pytest.mark.parametrize("elapsed_s", [0.01, 1.0])
@pytest.mark.parametrize("directed", [True, False])
def test_answers_are_those_of_the_cpu(
    directed: bool, elapsed_s: float, meets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a trial finds: 64 single searches take 0.064 s."""
    monkeypatch.setattr(_Batches, "meets", meets)
    monkeypatch.setattr(_Batches, "elapsed_s", elapsed_s)
    one = Searching(directed)
    sources = np.random.default_rng(4).integers(0, one.cpu.vertices, 150)
    expected = one.cpu.run(sources)
    first = one.search.batches
    few = one.search.tally(sources[:127], most=3)
    assert few.tolist() == one.cpu.tally(sources[:127], most=3).tolist()
    # Not enough of them for a trial.
    assert first.tried == []
    reported: list[tuple[int, int]] = []
    wanted = np.random.default_rng(5).random(one.cpu.vertices) < 0.5
    given: dict[str, Any] = {"most": 4, "wanted": wanted, "bins": 3, "width": 2}
    counted = one.search.tally(
        sources, on_done=OnDone(lambda *part: reported.append(part)), **given
    )
    assert counted.tolist() == one.cpu.tally(sources, **given).tolist()
    assert first.tried == [64]
    is_given_up = meets == 1 and elapsed_s > 0.064
    assert one.search.is_one_by_one == is_given_up
    if is_given_up:
        assert reported == [(n, n + 1) for n in range(150)]
        assert first.searched == [64, 63]
    else:
        assert reported == [(0, 64), (64, 128), (128, 150)]
        assert first.searched == [64, 63, 64, 64, 22]
    assert one.search.run(sources).tobytes() == expected.tobytes()
    near = one.search.run(sources, most=2)
    assert near.tobytes() == np.where(expected > 2, FAR, expected).tobytes()
    assert first.tried == [64]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("elapsed_s", [0.01, 1.0])
@pytest.mark.parametrize("most", [None, 2, -1])
def test_columns_where_the_answer_has_them(
    most: int | None, elapsed_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Batches, "elapsed_s", elapsed_s)
    one = Searching(True)
    sources = np.random.default_rng(6).integers(0, one.cpu.vertices, 150)
    targets = np.random.default_rng(7).permutation(one.cpu.vertices)[:40]
    targets[::5] = -1
    last = FAR - 1 if most is None else most
    levels = one.cpu.run(sources)[:, targets]
    expected = np.where((targets < 0) | (levels > last), -1, levels)
    at = np.sort(np.random.default_rng(8).choice(170, 150, replace=False))
    answer, reported = np.full((170, 40), 77, np.int32), list[int]()
    hear = OnDone(lambda begin, end: reported.extend((begin, end)))
    one.search.run_columns(sources, targets, sources, most, answer=answer, at=at, on_done=hear)
    assert one.search.is_one_by_one == (elapsed_s > 0.064)
    assert answer[at].tolist() == expected.tolist()
    assert (np.delete(answer, at, axis=0) == 77).all()
    assert (min(reported), max(reported)) == (0, 150)
    assert one.search.run_columns(sources, targets, sources, most).tolist() == expected.tolist()


@pytest.mark.usefixtures("device")
def test_batches_go_on_where_single_searches_have_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise cuda_many_bfs.MemoryBudgetError("the search does not fit the device")

    monkeypatch.setattr(cuda_many_bfs, "CudaBfsSearch", refuse)
    one, sources = Searching(False), np.arange(140)
    assert one.search.tally(sources).tolist() == one.cpu.tally(sources).tolist()
    assert not one.search.is_one_by_one
