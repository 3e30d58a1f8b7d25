"""What a search makes of a device's answers; NumPy stands in for CuPy, a tree for the search."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ooc_graph.answers.late import LateColumns
from ooc_graph.answers.scatter import Ids, Tree, TreeColumns
from ooc_graph.graph500 import on_device
from ooc_graph.kernels.cuda.many import pieces
from ooc_graph.kernels.cuda.runtime import scatter
from ooc_graph.model.resources import Capacity
from ooc_graph.model.task import trace_of
from ooc_graph.runtime import engine_cache
from ooc_graph.search import on_engine
from ooc_graph.sinks import device_columns
from ooc_graph.types import AnyArray

NONE = np.uint32(0xFFFFFFFF)
INTERNAL_OF = np.array([2, -1, 0, 3, 1], np.int32)
ORIGINAL_OF = np.array([2, 4, 0, 3])
PARENT = np.array([0, 0, 1, NONE], np.uint32)  # internal ids; the last row is not reached
UNREACHED = {"uint8": 255, "int32": -1, "float32": np.inf, "int64": np.iinfo(np.int64).max}
BLOCK = 8192


def blocks(vertices: Any, starts: Any) -> Iterator[tuple[int, slice]]:
    for first in range(0, int(vertices), BLOCK):
        low, high = starts[first // BLOCK :][:2].tolist()
        yield first, slice(low, high)


def count_rows(vertices: Any, internal_of: Any, counts: Any) -> None:
    for first in range(0, int(vertices), BLOCK):
        counts[first // BLOCK] = (internal_of[first : first + BLOCK] >= 0).sum()


def sort_rows(vertices: Any, internal_of: Any, starts: Any, row: Any, place: Any) -> None:
    for first, mine in blocks(vertices, starts):
        part = internal_of[first : first + BLOCK]
        row[mine] = np.sort(part[part >= 0])
        place[mine] = np.argsort(part)[np.sum(part < 0) :]


def to_original(vertices: Any, starts: Any, row: Any, place: Any, *given: Any) -> None:
    parent, measure, unreached, names, parent_out, measure_out = given
    none = np.array(unreached).view(measure.dtype)
    parent_out[:] = np.array(-1).astype(parent_out.dtype)
    measure_out[:] = none if measure_out.dtype == measure.dtype else -1
    for first, mine in blocks(vertices, starts):
        at, found = first + place[mine].astype(int), parent[row[mine]]
        reached, far = found != NONE, measure[row[mine]]
        parent_out[at[reached]] = found[reached] if not names.shape else names[found[reached]]
        measure_out[at[far != none]] = far[far != none]


def sum_reached(rows: Any, parent: Any, tuples: Any, sums: Any) -> None:
    sums += np.array([(parent != NONE).sum(), tuples[parent != NONE].sum()], np.uint64)


class Kernel:
    """One of ``scatter.cu``; above is what each is to do."""

    def __init__(self, _: str, name: str, constants: Any = None) -> None:
        self._run = globals()[name]

    def __call__(self, grid: Any, block: Any, given: Any, shared_mem: int = 0) -> None:
        self._run(*given)


@pytest.fixture(autouse=True)
def numpy_for_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (device_columns, on_device, scatter):
        monkeypatch.setattr(module, "cuda", lambda: np)
        monkeypatch.setattr(module, "within_memory", lambda _: nullcontext())
        monkeypatch.setattr(module, "on_device", np.asarray)
    monkeypatch.setattr(scatter, "PART_VERTICES", 2 * BLOCK)
    monkeypatch.setattr(scatter, "kernel", Kernel)
    monkeypatch.setattr(
        scatter, "launch", lambda _, name, count, *given, **__: globals()[name](*given)
    )


def answer(vertices: int, dtype: str) -> tuple[Ids, AnyArray, AnyArray]:
    """Id tables, and an answer by internal id that reaches most rows."""
    rng = np.random.default_rng(vertices)
    internal_of = np.full(vertices, -1, np.int32)
    original_of = rng.choice(vertices, vertices * 2 // 3, replace=False)
    internal_of[original_of] = np.arange(len(original_of))
    parent = rng.integers(0, len(original_of), len(original_of)).astype(np.uint32)
    measure = rng.integers(0, 200, len(original_of)).astype(dtype)
    parent[0], measure[0] = 0, 0
    parent[1::7], measure[1::7] = NONE, UNREACHED[dtype]
    return Ids(internal_of, original_of, 0, None), parent, measure


def engine(
    kernel: str, ids: Ids, parent: AnyArray, measure: AnyArray, original_parents: bool
) -> Any:
    """A made-up engine of a device, which finds this answer from any root."""
    found = SimpleNamespace(parent=parent, level=measure, distance=measure, elapsed_s=0.25)
    return SimpleNamespace(
        kernel=kernel,
        original_parents=original_parents,
        pinned=None,
        ids=ids,
        graph=SimpleNamespace(position_of=lambda root: root),
        search=SimpleNamespace(run_on_device=lambda root: found),
        order=scatter.OriginalOrder(ids.internal_of),
    )


@pytest.mark.parametrize("vertices", [5, BLOCK, 20_000])
@pytest.mark.parametrize("original_parents", [False, True])
@pytest.mark.parametrize("dtype", UNREACHED)
def test_columns_are_those_of_the_cpu(dtype: str, original_parents: bool, vertices: int) -> None:
    kernel = "bfs" if dtype in ("uint8", "int32") else "sssp"
    ids, internal, measure = answer(vertices, dtype)
    reached, parent, root = internal != NONE, internal.copy(), int(ids.original_of[0])
    if original_parents:
        parent[reached] = ids.original_of[parent[reached]]
    held, given = engine(kernel, ids, parent, measure, original_parents), measure
    written = device_columns.search(held, root)
    if kernel == "bfs":
        measure = np.where(reached, measure.astype(np.int32), np.int32(-1))
    tree = Tree(kernel, root, root, internal, measure)
    expected = TreeColumns(tree, ids).in_memory()
    assert written.trace.elapsed_s == 0.25
    assert written.columns is not None
    assert written.columns.keys() == expected.keys()
    names = None if original_parents else ids.original_of.astype(np.uint32)
    narrow = held.order.columns(parent, given, names=names)
    assert [column.dtype for column in narrow] == [np.uint32, dtype]
    assert narrow[0].astype(np.int32).tolist() == expected["parent"].tolist()
    assert (narrow[1] == UNREACHED[dtype]).tolist() == (expected["parent"] < 0).tolist()
    for name, column in expected.items():
        assert written.columns[name].dtype == column.dtype, name
        assert written.columns[name].tolist() == column.tolist(), name


class There(np.ndarray):
    """An array that says where it is as CuPy's do."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


class Stream:
    """One that has nothing to wait for, and an event of it."""

    ptr = 0

    def record(self, _: Any = None) -> Stream:
        return self

    def wait_event(self, event: Any) -> None:
        assert isinstance(event, Stream)

    def synchronize(self) -> None:
        pass


def copy_rows(to: int, step: int, from_: int, pitch: int, width: int, rows: int, *_: int) -> None:
    for row in range(rows):
        ctypes.memmove(to + row * step, from_ + row * pitch, width)


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy in the place of CuPy where columns come from a device, piece by piece."""
    runtime = SimpleNamespace(memcpy2DAsync=copy_rows)
    streams = {"Stream": lambda **_: Stream(), "get_current_stream": Stream}
    cuda = SimpleNamespace(runtime=runtime, Event=lambda **_: Stream(), **streams)
    numbers = {name: getattr(np, name) for name in ("zeros", "cumsum")}
    pool = SimpleNamespace(used_bytes=lambda: 1000)
    numbers["get_default_memory_pool"] = lambda: pool
    cupy = SimpleNamespace(cuda=cuda, empty=lambda *a: np.empty(*a).view(There), **numbers)
    for module in (device_columns, scatter, pieces):
        monkeypatch.setattr(module, "cuda", lambda: cupy)
    monkeypatch.setattr(device_columns, "is_plain_pool", lambda: True)
    monkeypatch.setattr(device_columns, "pinned_buffer", lambda size: np.empty(size, np.uint8))
    monkeypatch.setattr(device_columns, "is_pinned", lambda _: False)
    monkeypatch.setattr(device_columns, "LEAST_VERTICES", BLOCK)
    monkeypatch.setattr(device_columns, "_PIECE", 2 * BLOCK)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("vertices", [BLOCK, 4 * BLOCK, 90_000])
@pytest.mark.parametrize("dtype", UNREACHED)
@pytest.mark.usefixtures("bus")
def test_columns_reach_host_memory_in_order(
    dtype: str, vertices: int, pinned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_columns, "is_pinned", lambda _: pinned)
    if pinned:
        monkeypatch.delattr(device_columns, "pinned_buffer")
    kernel = "bfs" if dtype in ("uint8", "int32") else "sssp"
    ids, internal, measure = answer(vertices, dtype)
    reached, parent, root = internal != NONE, internal.copy(), int(ids.original_of[0])
    parent[reached] = ids.original_of[parent[reached]]
    held = engine(kernel, ids, parent, measure, original_parents=True)
    beside = 64 * BLOCK
    assert device_columns.in_host_memory(held, root, 1000 + beside - 1) is None
    to_make = 6 * len(parent) + 4 * device_columns.PART_VERTICES
    new: Any = SimpleNamespace(**{name: vars(held)[name] for name in vars(held).keys() - {"order"}})
    assert device_columns.in_host_memory(new, root, 1000 + beside + to_make - 1) is None
    with pytest.raises(AttributeError, match="order"):
        device_columns.in_host_memory(new, root, 1000 + beside + to_make)
    written = device_columns.in_host_memory(held, root, 1000 + beside)
    if kernel == "bfs":
        measure = np.where(reached, measure.astype(np.int32), np.int32(-1))
    expected = TreeColumns(Tree(kernel, root, root, internal, measure), ids).in_memory()
    assert written is not None
    assert isinstance(written.columns, LateColumns)
    assert written.columns._left == set(expected)
    assert written.columns.keys() == expected.keys()
    for name, column in expected.items():
        assert written.columns[name].dtype == column.dtype, name
        assert written.columns[name].tobytes() == column.tobytes(), name
    monkeypatch.setattr(device_columns, "process", SimpleNamespace(dask_worker=object))
    settled = device_columns.in_host_memory(held, root, 1000 + beside)
    assert settled is not None
    assert isinstance(settled.columns, LateColumns)
    assert settled.columns._left == {"vertex"}
    assert settled.order_s > 0
    for change in ({"pinned": 1}, {"original_parents": False}):
        other: Any = SimpleNamespace(**{**vars(held), **change})
        assert device_columns.in_host_memory(other, root, 1 << 40) is None


@pytest.mark.parametrize(("limit", "offered"), [(None, sys.maxsize), (5000, 77)])
def test_only_a_limit_keeps_the_device_from_ordering(
    limit: int | None, offered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of the caller's on the device do not count as the package's."""
    given: list[Any] = []
    monkeypatch.setattr(device_columns, "in_host_memory", lambda *asked: given.append(asked))
    monkeypatch.setattr(engine_cache, "reserved_device_bytes", lambda: 77)
    held: Any = object()
    task: Any = SimpleNamespace(
        strategy=SimpleNamespace(device="cuda"),
        root=3,
        is_for_memory=True,
        request=SimpleNamespace(on_device=False),
        capacity=Capacity(device_bytes=limit),
    )
    assert on_engine.by_device(held, task) is None
    assert given == [(held, 3, offered)]


class Search:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._counts = False

    def count_arcs(self, on: bool) -> None:
        self._counts = on

    def run_on_device(self, root: int) -> Any:
        self.asked.append((root, self._counts))
        phases = {"push": root, "pull": 2, "finish": 0, "parents": 1}
        return SimpleNamespace(
            parent=PARENT,
            level=np.array([0, 1, 2, 255], np.uint8),
            elapsed_s=1.0 + root,
            phase_arcs=phases,
        )

    def level_trace(self) -> Any:
        assert self._counts
        kinds = [(name, np.int64) for name in ("found", "pushed", "examined", "ns", "pull")]
        rows = [(1, 0, 0, 0, 0), (2, 7, 0, 0, 0), (0, 0, 9, 0, 1)]
        return np.array(rows, kinds)


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_nothing_is_searched_twice_before_it_is_timed(kernel: str) -> None:
    """Levels of a BFS are counted after all timed searches; an SSSP tells of itself."""
    search = Search()
    held: Any = SimpleNamespace(
        kernel=kernel,
        search=search,
        ids=Ids(INTERNAL_OF, ORIGINAL_OF, 0, None),
        tuples=np.array([4, 2, 2, 9], np.uint32),
        graph=SimpleNamespace(first_id=0),
    )
    task: Any = SimpleNamespace(kernel=kernel, validate=False, engine=lambda: nullcontext(held))
    found = on_device.search_batch(task, np.array([2, 4, 0]))
    timed = [(0, False), (1, False), (2, False)]
    counted = [(0, True), (1, True), (2, True)]
    assert search.asked == (timed + counted if kernel == "bfs" else timed)
    assert [one.root for one in found] == [2, 4, 0]
    assert [one.trace.elapsed_s for one in found] == [1.0, 2.0, 3.0]
    assert [(one.edges, one.reached) for one in found] == [(4, 3)] * 3
    if kernel == "bfs":
        assert found[0].trace.levels == ((1, 7, "push"), (2, 9, "pull"))
    else:
        phases = SimpleNamespace(
            phase_arcs={"push": 1, "pull": 2, "finish": 0, "parents": 1}, elapsed_s=2.0
        )
        assert found[1].trace == trace_of("sssp", phases)
