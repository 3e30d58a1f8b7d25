"""What the API promises beyond a single search: paths, identities, concurrency, losses."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import numpy as np
import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.errors import (
    ClusterLostError,
    InputError,
    MemoryBudgetError,
    OutputExistsError,
    StoreReplacedError,
    UsageError,
)
from ooc_graph.exchange.cluster import Cluster
from ooc_graph.exchange.tasks import Tasks
from ooc_graph.kernels.common.sssp.rows import first_rows, survey
from ooc_graph.kernels.cpu.sssp.near_far_search import suits_near_far
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Reservation
from ooc_graph.model.task import SearchTask
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime import workplace as workplaces
from ooc_graph.runtime.cluster import local_cluster
from ooc_graph.search.plan import Plan
from ooc_graph.search.trees import ALGORITHMS
from ooc_graph.shards import plan
from ooc_graph.strategies.cpu import in_memory
from ooc_graph.strategies.cpu.in_memory import InMemory, resident_bytes
from ooc_graph.strategies.ranks import Ranks
from tests.made_up_place import chosen
from tests.own_process import in_own_process

PATIENCE_S = 120.0


def until(met: Callable[[], object]) -> None:
    """Wait until something is met; fail after a long while."""
    begun_s = time.monotonic()
    while not met():
        assert time.monotonic() - begun_s < PATIENCE_S
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.build(og.Kronecker(13, edge_factor=4), tmp_path / "g.zarr", shards=8)


def test_searches_at_the_same_time_do_not_mix(graph: og.Graph, cluster: Client) -> None:
    roots = og.Kronecker(13, edge_factor=4).search_keys(6).tolist()
    expected = {root: og.bfs(graph, root) for root in roots}

    def search(root: int) -> og.BfsResult:
        return og.bfs(graph, root, client=cluster, exchange="scheduler")

    with ThreadPoolExecutor(3) as threads:
        for result in threads.map(search, roots * 2):
            assert np.array_equal(result.parent, expected[result.root].parent)
            assert np.array_equal(result.level, expected[result.root].level)


def test_workers_release_what_they_keep(graph: og.Graph, cluster: Client) -> None:
    root = int(og.Kronecker(13, edge_factor=4).search_keys(1)[0])
    expected = og.bfs(graph, root, client=cluster)
    assert any(cluster.run(engine_cache.keeps_any).values())
    og.release(client=cluster)
    assert not any(cluster.run(engine_cache.keeps_any).values())
    assert og.bfs(graph, root, client=cluster) == expected


def test_an_answer_never_replaces_the_graph(graph: og.Graph) -> None:
    with pytest.raises(OutputExistsError, match="holds a graph, which a result does not replace"):
        og.bfs(graph, 0, out=graph.path, overwrite=True)
    assert og.open(graph.path).identity == graph.identity


def test_relative_paths_mean_the_callers_folder(
    tmp_path: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers were started elsewhere."""
    monkeypatch.chdir(tmp_path)
    graph = og.build(og.Kronecker(10), "rel.zarr", client=cluster)
    result = og.bfs(
        "rel.zarr", int(og.Kronecker(10).search_keys(1)[0]), client=cluster, out="r.zarr"
    )
    assert result.reached.any()
    assert graph.path == tmp_path / "rel.zarr"
    assert (tmp_path / "r.zarr" / "manifest.json").is_file()


def test_many_runs_do_not_need_many_open_files(tmp_path: Path) -> None:
    identity = in_own_process(built_with_few_open_files, tmp_path / "many.zarr")
    assert identity == og.build(og.Kronecker(11), tmp_path / "few.zarr").identity


def built_with_few_open_files(path: Path) -> str:
    """Identity of a graph whose build sorts 164 runs and may have 128 files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "run_edges", lambda *_: 200)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            return og.build(og.Kronecker(11), path).identity
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_root_without_arcs_needs_no_rows(
    graph: og.Graph, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolated = int(np.flatnonzero(graph.internal_of() < 0)[0])
    monkeypatch.setattr(og.Graph, "load", lambda *_: pytest.fail("rows were loaded"))
    result = og.sssp(graph, isolated)
    assert result.reached.sum() == 1
    assert result.distance[isolated] == 0
    assert og.bfs(graph, isolated, client=cluster, exchange="scheduler").reached.sum() == 1


def test_too_little_memory_is_refused_or_shared(graph: og.Graph, cluster: Client) -> None:
    whole = resident_bytes(graph, "bfs")
    with pytest.raises(MemoryBudgetError, match="raise memory_limit="):
        og.bfs(graph, 0, memory_limit=whole - 1)
    shared = workplaces.OnCluster(cluster, 2 * (whole - 1))
    assert chosen(graph, "bfs", shared.resources()).exchange == "scheduler"
    with pytest.raises(MemoryBudgetError, match="add workers"):
        og.bfs(graph, 0, client=cluster, memory_limit=whole // 4)


@pytest.mark.parametrize("source", [7.0, "7", None, True])
def test_a_source_is_an_integer(graph: og.Graph, source: object) -> None:
    with pytest.raises(UsageError, match="give one vertex id"):
        og.bfs(graph, source)  # type: ignore[arg-type]


def test_a_numpy_integer_is_a_source(graph: og.Graph, tmp_path: Path) -> None:
    key = og.Kronecker(13, edge_factor=4).search_keys(1)[0]
    assert og.bfs(graph, key, out=tmp_path / "r.zarr").root == int(key)


def test_a_replaced_graph_is_noticed(graph: og.Graph, cluster: Client, tmp_path: Path) -> None:
    og.build(og.Kronecker(12, edge_factor=4), graph.path, shards=8, overwrite=True)
    for options in ({}, {"exchange": "scheduler", "client": cluster}):
        with pytest.raises(StoreReplacedError, match="was replaced since it was opened"):
            og.bfs(graph, 1, **options)


def test_a_graph_replaced_under_a_search_is_noticed(graph: og.Graph, tmp_path: Path) -> None:
    """Ranks' parts are brought to original ids by the tables of the graph they searched."""
    strategy, whom = Ranks(InMemory()), (str(graph.path), graph.identity, Request("bfs"))
    reserved = Reservation(strategy.name, exchange="scheduler")
    task = SearchTask(*whom, 1, str(tmp_path / "r.zarr"), strategy, reserved)
    og.build(og.Kronecker(12, edge_factor=4), graph.path, shards=8, overwrite=True)
    with pytest.raises(StoreReplacedError, match="was replaced since it was opened"):
        ALGORITHMS["bfs"].gather(task, [])


def test_nothing_is_written_after_an_error_was_raised(tmp_path: Path, cluster: Client) -> None:
    lines = [f"{i} {i + 1}\n" for i in range(400_000)]
    lines[5] = "one line is wrong\n"
    text = tmp_path / "edges.txt"
    text.write_text("".join(lines))
    with pytest.raises(InputError):
        og.build(text, tmp_path / "g.zarr", client=cluster)
    assert Tasks(Cluster.of(cluster), print).is_quiet(["stage_unit"])
    assert [path.name for path in tmp_path.iterdir()] == ["edges.txt"]
    time.sleep(0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["edges.txt"]


def test_a_search_does_not_wait_for_workers_that_are_gone(
    tmp_path: Path,
) -> None:
    with local_cluster(1) as client, dask.config.set({"ooc-graph.patience": "1s"}):
        workplace = workplaces.OnCluster(client)
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(workplace.call, time.sleep, 2 * PATIENCE_S)
            until(lambda: any(client.processing().values()))
            client.cluster.scale(0)
            with pytest.raises(ClusterLostError, match="no worker could continue for"):
                waiting.result(timeout=PATIENCE_S)


def test_a_worker_that_restarts_is_waited_for() -> None:
    """Between a worker's end and its return there is none: that is no loss of the cluster."""
    with local_cluster(1) as client, ThreadPoolExecutor(1) as thread:
        workplace = workplaces.OnCluster(client)
        client.cluster.scale(0)
        until(lambda: not Cluster.of(client).look())
        waiting = thread.submit(workplace.call, abs, -3)
        time.sleep(0.5)
        assert not waiting.done()
        client.cluster.scale(1)
        assert waiting.result(timeout=PATIENCE_S) == 3


def test_gapped_ids_keep_to_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are written in several runs where they do not fit at once; the store is the same."""
    random = np.random.default_rng(1)
    edges = (random.integers(0, 1 << 60, 50_000), random.integers(0, 1 << 60, 50_000))
    expected = og.build(edges, tmp_path / "a.zarr").identity
    monkeypatch.setattr("ooc_graph.shards.renumber.COUNTED_ID_BYTES", 1 << 12)
    assert og.build(edges, tmp_path / "b.zarr").identity == expected


def test_graph500_on_ranks_where_no_worker_holds_the_graph(
    tmp_path: Path, cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ooc_graph.graph500 import job, searches
    from ooc_graph.graph500.run import Graph500Options
    from ooc_graph.types import NoProgress

    whole, strategy = "the whole graph was loaded", Ranks(InMemory())

    def by_ranks(workplace: workplaces.Workplace, graph: og.Graph, request: Request) -> Plan:
        resources = workplace.resources(on_cpu=True)
        reserved = Reservation(strategy.name, exchange="scheduler")
        return Plan(graph, request, resources, strategy, reserved)

    monkeypatch.setattr(searches, "try_plan_at", by_ranks)
    monkeypatch.setattr(searches, "warm_up", lambda *_: pytest.fail(whole))
    options = Graph500Options(scale=11, searches=2, shards=4)
    outcome = job.graph500(
        options,
        tmp_path,
        client=cluster,
        memory_limit_bytes=None,
        progress=NoProgress(),
        overwrite=False,
    )
    assert outcome.failure is None
    assert "sssp harmonic_mean_TEPS" in outcome.block


def test_persisted_dask_collections_are_read_from_the_cluster(
    tmp_path: Path, cluster: Client
) -> None:
    pytest.importorskip("pandas")
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame({"source": [1, 2, 3, 9], "target": [2, 3, 4, 1], "weight": [5, 1, 2, 7]})
    held = dd.from_pandas(frame, npartitions=2).persist()
    graph = og.build(held, tmp_path / "g.zarr", client=cluster)
    assert (graph.edges, graph.weight_dtype) == (4, np.dtype(np.int32))
    assert og.sssp(graph, 9).distance.tolist() == [7, 12, 13, 15, 0]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("power", "hubs"), [(1, False), (4, True)])
def test_rows_that_near_far_has_twice_are_counted_if_it_searches(
    tmp_path: Path, directed: bool, power: int, hubs: bool
) -> None:
    """Of floats only where no hubs are; the estimate and the search see the same share."""
    random = np.random.default_rng(power)
    ends = (1_000 * random.random((2, 20_000)) ** power).astype(np.int64)
    weight = (1 + random.random(20_000)).astype(np.float32)
    table = tmp_path / "e.npz"
    np.savez(table, source=ends[0], target=ends[1], weight=weight)
    stored = og.build(table, tmp_path / "g.zarr", directed=directed)
    held = og.from_edges(ends[0], ends[1], weight, directed=directed)
    for graph in (stored, held):
        assert int(graph.attributes["self_loops"]) > 0
        tuples = graph.tuples()
        shard = graph.load("light")
        assert (
            graph.head_share(first_rows(graph.rows)) == survey(shard.out_light, tuples).head_share
        )
        copied = in_memory._copied_bytes(graph, "sssp")
        assert (copied > 0) == suits_near_far(shard.out_light, tuples)
        assert (copied > 0) != hubs
