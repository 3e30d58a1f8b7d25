"""A CUDA device that is made up, for searches from many sources, and graphs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import (
    MemoryBudgetError,
)
from ooc_graph.kernels.common.completion import OnDone, batches_of
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.kernels.cuda.many.search_plan import part_dtype
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.memory.cuda.pinned_plan import least_plan
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime import devices, engine_cache, process
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.strategies.cuda import pinned as pinned_strategy
from ooc_graph.strategies.cuda import pinned_budgets as cuda_pinned
from ooc_graph.strategies.many import dividing
from ooc_graph.types import INT32_UNREACHED

GIB = 1 << 30
BATCHES, RESIDENT, PINNED = "batches", "resident", "pinned"


def build_hubs(path: Path) -> og.Graph:
    """Weights that spread, ids with gaps, and vertices without arcs."""
    random = np.random.default_rng(8)
    ends = (600 * random.random((2, 6000)) ** 3).astype(np.int64) * 3 + 1
    weight = random.random(6000).astype(np.float32)
    return og.build((*ends, weight), path, rows="both", directed=True, shards=2)


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return build_hubs(tmp_path_factory.mktemp("graphs") / "hubs.zarr")


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    random = np.random.default_rng(9)
    u, v = random.integers(0, 300, (2, 3000))
    by = random.integers(0, 100, 300)
    keep = u != v
    weight = (random.integers(1, 50, 3000) + by[u] - by[v])[keep]
    path = tmp_path_factory.mktemp("graphs") / "signed.zarr"
    return og.build((u[keep], v[keep], weight), path, directed=True)


class Single:
    """A search from one source that stands for the device's."""

    heaviest = 1.0

    def __init__(self, made_up: MadeUp, search: Any, kind: str) -> None:
        self._made_up, self._search, self._kind = made_up, search, kind

    def run(self, root: int) -> Any:
        self._made_up.use(self._kind, root)
        return self._search.run(root)


def parts_of(count: int, on_done: OnDone | None, part: int) -> Iterator[slice]:
    """Sources that are told of together; all at once where nobody hears of them."""
    return batches_of(count, max(count, 1) if on_done is None else part, on_done)


class Batches:
    """Batches that stand for the device's."""

    has_matrix = False

    def __init__(self, made_up: MadeUp, search: Any) -> None:
        self._made_up, self._search, self.dtype = made_up, search, search.dtype

    def expect(self, *_: int) -> None:
        pass

    def run_columns(
        self,
        sources: Any,
        targets: Any,
        own: Any,
        most: Any,
        *,
        answer: Any,
        on_done: Any,
        at: Any = None,
    ) -> Any:
        """Some sources at a time, as they arrive in host memory."""
        for part in parts_of(len(sources), on_done, self._made_up.part):
            answer[part if at is None else at[part]] = self._columns(
                sources[part], targets, own[part], most
            )
        return answer

    def _columns(self, sources: Any, targets: Any, own: Any, most: Any) -> Any:
        assert most is None
        self._made_up.use(BATCHES, *sources.tolist())
        found = self._search.run(sources)
        far = np.inf if self.dtype.kind == "f" else np.iinfo(self.dtype).max
        answer = np.where(targets < 0, far, found[:, targets]).astype(self.dtype)
        has_own = own >= 0
        answer[np.flatnonzero(has_own), own[has_own]] = 0
        return answer

    def empty(self, sources: int) -> Any:
        return self._search.empty(sources)

    def run_with_parents(self, sources: Any, answers: Any, *, batch_size: int, on_done: Any) -> Any:
        for part in parts_of(len(sources), on_done, self._made_up.part):
            self._made_up.use(BATCHES, *sources[part].tolist())
            some = tuple(each[part] for each in answers)
            self._search.run_with_parents(sources[part], some, batch_size=batch_size)
        return answers

    def reduce(self, sources: Any, targets: Any, own: Any, most: Any) -> Any:
        found = self._columns(sources, targets, own, most)
        parts = np.zeros(len(sources), part_dtype(self.dtype))
        reached = found < np.inf
        parts["reached"] = reached.sum(axis=1)
        # Other last bits than the CPU's.
        parts["sum"] = np.where(reached, found, 0).sum(axis=1, dtype=np.float64) * (1 + 1e-12)
        return parts


class Levels:
    """Batches of BFS that stand for the device's."""

    is_one_by_one = False

    def __init__(self, made_up: MadeUp, search: Any) -> None:
        self._made_up, self._search, self.dtype = made_up, search, search.dtype

    @property
    def vertices(self) -> int:
        return int(self._search.vertices)

    def tally(self, sources: Any, *, tallies: Any, on_done: Any, **given: Any) -> Any:
        """Some sources at a time, as batches end."""
        for part in parts_of(len(sources), on_done, self._made_up.part):
            self._made_up.use(BATCHES, *sources[part].tolist())
            self._search.tally(sources[part], tallies=tallies[part], **given)
        return tallies

    def run_columns(
        self,
        sources: Any,
        targets: Any,
        own: Any,
        most: Any,
        *,
        answer: Any,
        on_done: Any,
        at: Any = None,
    ) -> Any:
        """Some sources at a time, as they arrive in host memory."""
        del own
        last = INT32_UNREACHED - 1 if most is None else most
        for part in parts_of(len(sources), on_done, self._made_up.part):
            self._made_up.use(BATCHES, *sources[part].tolist())
            found = self._search.run(sources[part])[:, targets]
            found[:, targets < 0] = INT32_UNREACHED
            answer[part if at is None else at[part]] = np.where(found > last, -1, found)
        return answer


class MadeUp:
    """A device: what it was asked for, and refuses.

    ``refuses`` is called with the kind of search, whether it is loaded, and how many sources it had
    so far.
    """

    def __init__(self) -> None:
        self.used: list[str] = []
        self.refuses: Callable[[str, bool, int], Exception | None] = lambda *_: None
        self.graph_held: list[int] = []
        # Sources that arrive at a time.
        self.part = 1 << 30
        self._count = 0

    def use(self, kind: str, *sources: int) -> None:
        self._count += len(sources)
        if error := self.refuses(kind, False, self._count):
            raise error

    def load(self, kind: str) -> None:
        # Nothing that was loaded before is held any more.
        self.graph_held.append(len(engine_cache._engines))
        self.used.append(kind)
        self._count = 0
        if error := self.refuses(kind, True, 0):
            raise error

    def bfs(self, shard: Any, **_: Any) -> Single:
        self.load(RESIDENT)
        return Single(self, CPU.bfs(shard), RESIDENT)

    def sssp(self, shard: Any, **_: Any) -> Single:
        self.load(RESIDENT)
        return Single(self, CPU.sssp(shard), RESIDENT)

    def apsp(self, shard: Any, *, threads: int) -> Batches:
        assert threads
        self.load(BATCHES)
        return Batches(self, CPU.apsp(shard))

    def multi_source_bfs(self, shard: Any, *, threads: int) -> Levels:
        assert threads
        self.load(BATCHES)
        return Levels(self, CPU.multi_source_bfs(shard))

    def search_within(
        self, graph: og.Graph, kernel: str, budget_bytes: int, _: Any, shard: Any, *__: Any
    ) -> tuple[Single, Any]:
        self.load(PINNED)
        plan = least_plan(kernel, cuda_pinned.known_facts(graph, kernel))
        assert plan.bytes <= budget_bytes
        return Single(self, getattr(CPU, kernel)(shard), PINNED), plan


CPU = CpuDevice(1)


def put_in_place(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    """A device of a GiB that is made up, in the place of this process's.

    No arcs can stay in the store for it; where they can: `tests.unit.test_pairs_in_store`.
    """
    made_up, plain = MadeUp(), process.device
    monkeypatch.setattr(devices, "cuda_memory_bytes", lambda: GIB)
    monkeypatch.setattr(cuda_modules, "device_bytes", lambda: (GIB, GIB))
    monkeypatch.setattr(process, "device", lambda n="cpu": made_up if n == CUDA else plain(n))
    monkeypatch.setattr(process, "number_of", lambda _: "0")
    monkeypatch.setattr(pinned_strategy, "PinnedAllocator", lambda _: np.empty)
    monkeypatch.setattr(cuda_pinned, "search_within", made_up.search_within)
    monkeypatch.setattr(cuda_disk, "may_stay", lambda *_: False)
    return made_up


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[MadeUp]:
    made_up = put_in_place(monkeypatch)
    engine_cache.release()
    yield made_up
    engine_cache.release()


def refusing(*kinds: str, loaded: bool, error: type[Exception] = MemoryBudgetError) -> Any:
    """Refuses some kinds of search, when they are loaded or after a few sources."""

    def refuses(kind: str, loads: bool, sources: int) -> Exception | None:
        if kind in kinds and (loads if loaded else sources > 5):
            return error(f"{kind} does not fit the device")
        return None

    return refuses


def columns(result: Any) -> dict[str, bytes]:
    return {name: np.asarray(result.read(name)).tobytes() for name in result.names}


def fewer(monkeypatch: pytest.MonkeyPatch, module: Any = dividing) -> None:
    """Tasks of a few sources."""
    monkeypatch.setattr(module, "CUDA_SOURCES", (4, 2, 1))


FIND = {"apsp": og.johnson, "bfs": og.multi_source_bfs}
