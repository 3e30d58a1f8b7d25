"""Every way to carry out a search gives the same bytes, and they are the oracle's.

Ways: one rank; all ranks in one process; the ranks of a Dask cluster of 1, 2 and 4 workers; rows
hub-first, light-first or both; built with any number of shards. One of four workers is killed in
the middle, and the answer's bytes do not change.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.exchange import scheduler
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.search.ranks import MakeRanks, WritePart
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.strategies.cpu.in_memory import InMemory
from ooc_graph.strategies.cpu.owned import Owned
from ooc_graph.strategies.ranks import OfRanks, Ranks
from tests import oracles
from tests.local_ranks import by_ranks

VERTICES = 9_000
EDGES = 30_000
SHARDS = 8


@dataclass(frozen=True)
class Case:
    """A graph as edges, in original ids."""

    name: str
    source: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    directed: bool

    def build(self, folder: Path, **options: Any) -> og.Graph:
        edges = (self.source, self.target, self.weight)
        return og.build(edges, folder, directed=self.directed, overwrite=True, **options)


def make_case(directed: bool, dtype: str) -> Case:
    """Skewed, with ids that have gaps, loops, duplicates, ties and weights of zero."""
    random = np.random.default_rng(7)
    source = (VERTICES * random.random(EDGES) ** 3).astype(np.int64) * 3 + 5
    target = random.integers(0, VERTICES, EDGES) * 3 + 5
    if dtype.startswith("int"):
        weight = random.integers(0, 50, EDGES).astype(dtype)
    else:
        weight = (random.integers(0, 4096, EDGES) / 4096).astype(dtype)
    return Case(
        f"{'directed' if directed else 'undirected'}-{dtype}", source, target, weight, directed
    )


CASES = [
    make_case(directed, dtype)
    for directed, dtype in [(False, "float32"), (True, "float64"), (True, "int64")]
]


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.slow), 4])
def cluster(request: pytest.FixtureRequest) -> Iterator[Client]:
    with local_cluster(request.param) as client:
        yield client


FORMS: dict[str, dict[str, Any]] = {
    "g": {"shards": SHARDS},
    "one": {"shards": 1},
    "light": {"shards": 2, "rows": "light"},
}


class Stores:
    """Cases in all forms, and their answers by the oracle, each made once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._expected = folder, dict[tuple[str, str], dict[str, bytes]]()

    def graphs(self, case: Case) -> Iterator[og.Graph]:
        for form, options in FORMS.items():
            path = self.folder / f"{case.name}-{len(case.source)}-{form}.zarr"
            yield og.open(path) if path.exists() else case.build(path, **options)

    def expected(self, case: Case, graph: og.Graph, kernel: str, root: int) -> dict[str, bytes]:
        key = case.name, kernel
        if key not in self._expected:
            self._expected[key] = oracle_columns(case, graph, kernel, root)
        return self._expected[key]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def columns(result: og.Result) -> dict[str, bytes]:
    return {name: result.read(name).tobytes() for name in result.names}


def oracle_columns(case: Case, graph: og.Graph, kernel: str, root: int) -> dict[str, bytes]:
    """The plain answer, from the edges alone, in original ids."""
    proper = case.source != case.target
    ends = np.concatenate([case.source[proper], case.target[proper]])
    ids, tuples = np.unique(ends, return_counts=True)
    order = np.lexsort((ids, -tuples))
    internal = {int(original): rank for rank, original in enumerate(ids[order])}
    arcs: dict[int, dict[int, Any]] = {rank: {} for rank in internal.values()}
    for u, v, w in zip(case.source[proper], case.target[proper], case.weight[proper], strict=True):
        pairs = [(u, v)] if case.directed else [(u, v), (v, u)]
        for a, b in pairs:
            row = arcs[internal[int(a)]]
            neighbor = internal[int(b)]
            row[neighbor] = min(row.get(neighbor, w), w)
    adjacency = [sorted(arcs[rank].items()) for rank in range(len(arcs))]
    start = internal[root]
    vertices = graph.original_ids()
    if kernel == "bfs":
        parent, measure = oracles.bfs(adjacency, start)
        out, unreached = np.full(len(vertices), -1, np.int32), -1
    else:
        dtype = np.dtype(np.int64 if case.weight.dtype.kind == "i" else case.weight.dtype)
        measure = oracles.distances(adjacency, start, dtype)
        parent = oracles.sssp_parents(adjacency, start, measure, dtype)
        unreached = np.iinfo(np.int64).max if dtype.kind == "i" else np.inf
        out = np.full(len(vertices), unreached, dtype)
    parents = np.full(len(vertices), -1, np.int64)
    original = ids[order]
    for rank, vertex in enumerate(original):
        place = int(np.searchsorted(vertices, vertex))
        if parent[rank] >= 0:
            out[place] = measure[rank]
            parents[place] = original[parent[rank]]
    name = "level" if kernel == "bfs" else "distance"
    return {"vertex": vertices.tobytes(), "parent": parents.tobytes(), name: out.tobytes()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
def test_every_way_gives_the_oracles_bytes(
    case: Case, kernel: str, cluster: Client, stores: Stores, tmp_path: Path
) -> None:
    search = getattr(og, kernel)
    graph, one_shard, light = stores.graphs(case)
    root = int(case.source[0])
    expected = stores.expected(case, graph, kernel, root)
    assert columns(search(graph, root)) == expected
    assert columns(search(one_shard, root)) == expected
    assert columns(search(light, root)) == expected
    assert columns(by_ranks(graph, kernel, root)) == expected
    assert columns(search(graph, root, client=cluster)) == expected
    assert columns(search(graph, root, client=cluster, exchange="scheduler")) == expected
    stored = search(light, root, client=cluster, exchange="scheduler", out=tmp_path / "r.zarr")
    assert columns(stored) == expected


def oracle_components(case: Case) -> dict[str, bytes]:
    """The plain answer: loops count as vertices, directions do not matter."""
    pairs = list(zip(case.source.tolist(), case.target.tolist(), strict=True))
    vertices = sorted({vertex for pair in pairs for vertex in pair})
    columns = {"vertex": vertices, "component": oracles.components(vertices, pairs)}
    return {name: np.array(column, np.int64).tobytes() for name, column in columns.items()}


def thinned(case: Case) -> Case:
    """A third of the edges: a large component, small ones, vertices with a loop alone."""
    some = slice(0, EDGES // 3)
    weights = case.weight[some]
    loops = np.arange(3) * 3 + 2  # ids that no edge has
    source = np.concatenate([case.source[some], loops])
    target = np.concatenate([case.target[some], loops])
    weight = np.concatenate([weights, np.ones(3, weights.dtype)])
    return Case(case.name, source, target, weight, case.directed)


@pytest.mark.parametrize("case", [thinned(case) for case in CASES], ids=lambda case: case.name)
def test_components_have_the_oracles_bytes_in_every_way(
    case: Case, cluster: Client, stores: Stores, tmp_path: Path
) -> None:
    graph, one_shard, light = stores.graphs(case)
    expected = oracle_components(case)
    assert columns(og.components(graph)) == expected
    assert columns(og.components(one_shard)) == expected
    assert columns(og.components(light)) == expected
    assert columns(by_ranks(graph, "components")) == expected
    assert columns(og.components(graph, client=cluster)) == expected
    assert columns(og.components(graph, client=cluster, exchange="scheduler")) == expected
    ways: list[dict[str, Any]] = [
        {},
        {"client": cluster},
        {"client": cluster, "exchange": "scheduler"},
    ]
    identities = set()
    for way in ways:
        stored = og.components(graph, out=tmp_path / "r.zarr", overwrite=True, **way)
        assert columns(stored) == expected
        identities.add(stored.columns.manifest.sha256)
    assert len(identities) == 1
    edges = (case.source, case.target)
    verdict = og.validate(stored, edges, directed=case.directed)
    assert verdict.components == stored.count == len(set(stored.component.tolist()))


def killed_once(coroutine: Any, flag: Path) -> Generator[Any, Any, Any]:
    """The same coroutine, whose process is killed before the third superstep, once in all."""
    request = next(coroutine)
    for superstep in count():
        if superstep == 2 and flag.exists():
            # Whoever comes first takes it away.
            with suppress(FileNotFoundError):
                flag.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        answer = yield request
        try:
            request = coroutine.send(answer)
        except StopIteration as end:
            return end.value


@dataclass(frozen=True)
class MakeFatalRanks:
    """`MakeRanks` of which one kills its process, while there is a file."""

    make: MakeRanks
    flag: Path

    @contextmanager
    def __call__(
        self, mine: Sequence[int], ranks: int | None = None
    ) -> Iterator[tuple[dict[int, Any], Any]]:
        with self.make(mine, ranks) as (coroutines, shared):
            yield {r: killed_once(one, self.flag) for r, one in coroutines.items()}, shared


def make_ranks(kernel: str, task: SearchTask) -> MakeRanks:
    return MakeRanks(task, ALGORITHMS[kernel].start)


def ranks_task(
    graph: og.Graph, kernel: str, root: int | None, *, messages_bytes: int = 0
) -> SearchTask:
    """A search by the ranks of a cluster; with memory for messages, each has its own distances."""
    inner: OfRanks = Owned() if messages_bytes else InMemory()
    whom, ranks = (str(graph.path), graph.identity), Ranks(inner)
    reserved = Reservation(ranks.name, exchange="scheduler", messages_bytes=messages_bytes)
    return SearchTask(*whom, Request(kernel), root, None, ranks, reserved)


@pytest.mark.parametrize(
    ("kernel", "joins", "messages_bytes"),
    [("bfs", "", 0), ("sssp", "", 0), ("bfs", "thread", 0), ("sssp", "thread", 1 << 20)],
)
def test_a_killed_worker_changes_no_byte(
    kernel: str, joins: Any, messages_bytes: int, tmp_path: Path
) -> None:
    """Four worker processes with eight shards each; one of them is killed in the middle.

    Of joined shards three workers have smaller ones than four.
    """
    source = og.Kronecker(15, edge_factor=4)
    graph = og.build(source, tmp_path / "g.zarr", shards=32)
    root = int(source.search_keys(1)[0])
    expected = by_ranks(graph, kernel, root)
    task = ranks_task(graph, kernel, root, messages_bytes=messages_bytes)
    flag = tmp_path / "kill"
    flag.touch()
    make = MakeFatalRanks(make_ranks(kernel, task), flag)
    with local_cluster(4) as client:
        write = WritePart(kernel, ALGORITHMS[kernel].arrays, str(tmp_path))
        traces, _ = scheduler.run(client, make, 32, joins=joins, finish=write)
    assert not flag.exists(), "nobody was killed"
    # A worker that came in place of the one that was killed leaves four.
    assert len(traces) in ((4, 32) if joins else (32,))
    assert columns_from_parts(graph, len(traces), task, tmp_path) == columns(expected)


@pytest.mark.slow
def test_a_killed_worker_changes_no_component(tmp_path: Path) -> None:
    source = og.Kronecker(15, edge_factor=1)
    graph = og.build(source, tmp_path / "g.zarr", shards=32)
    expected = og.components(graph)
    task = ranks_task(graph, "components", None)
    flag = tmp_path / "kill"
    flag.touch()
    make = MakeFatalRanks(make_ranks("components", task), flag)
    with local_cluster(4) as client:
        scheduler.run(client, make, 32, finish=WritePart("components", ("label",), str(tmp_path)))
    assert not flag.exists(), "nobody was killed"
    assert expected.count > 1000
    label = dict(zip(expected.vertex.tolist(), expected.component.tolist(), strict=True))
    original_of = graph.original_of()
    named: dict[int, set[int]] = {}
    for shard in range(graph.shards):
        labels = np.load(tmp_path / f"{shard}-of-32-label.npy")
        blocks = range(shard * 1024, graph.rows, graph.shards * 1024)
        owned = [row for first in blocks for row in range(first, min(first + 1024, graph.rows))]
        for row, representative in zip(owned, labels.tolist(), strict=True):
            assert representative <= row
            named.setdefault(representative, set()).add(label[int(original_of[row])])
    # One component for each representative, and one representative for each component.
    assert all(len(names) == 1 for names in named.values())
    assert len(set.union(*named.values())) == len(named)


def columns_from_parts(
    graph: og.Graph, ranks: int, task: SearchTask, folder: Path
) -> dict[str, bytes]:
    """Put the ranks' parts together, as plainly as can be."""
    original_of, vertices = graph.original_of(), graph.original_ids()
    place = {int(vertex): number for number, vertex in enumerate(vertices)}
    bfs = task.kernel == "bfs"
    name = "level" if bfs else "distance"
    parent = np.full(len(vertices), -1, np.int64)
    measure = np.full(len(vertices), -1, np.int32) if bfs else np.full(len(vertices), np.inf, "f4")
    for rank in range(ranks):
        parents = np.load(folder / f"{rank}-of-{ranks}-parent.npy")
        values = np.load(folder / f"{rank}-of-{ranks}-{name}.npy")
        blocks = range(rank * 1024, graph.rows, ranks * 1024)
        owned = [row for first in blocks for row in range(first, min(first + 1024, graph.rows))]
        for row, by, value in zip(owned, parents, values, strict=True):
            if by != np.iinfo(parents.dtype).max:
                here = place[int(original_of[row])]
                parent[here], measure[here] = original_of[by], value
    return {"vertex": vertices.tobytes(), "parent": parent.tobytes(), name: measure.tobytes()}
