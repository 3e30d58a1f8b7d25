"""Fixtures of several files of tests; `conftest` makes them known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model import rank_memory
from ooc_graph.runtime import engine_cache
from ooc_graph.runtime.cluster import local_cluster, local_cuda_cluster
from ooc_graph.search import single
from tests.gpu import stores
from tests.gpu.cases import GAP, Case, make


@pytest.fixture
def released() -> Iterator[None]:
    """Nothing is held for the next search, before the test and after it."""
    engine_cache.release()
    yield
    engine_cache.release()


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Addresses of memory that is pinned now, and bytes."""
    runtime, held = cuda_modules.cuda().cuda.runtime, {}
    register, unregister = runtime.hostRegister, runtime.hostUnregister

    def noted(begin: int, size: int, flags: int) -> None:
        register(begin, size, flags)
        held[begin] = size

    def forgotten(begin: int) -> None:
        unregister(begin)
        del held[begin]

    monkeypatch.setattr(runtime, "hostRegister", noted)
    monkeypatch.setattr(runtime, "hostUnregister", forgotten)
    engine_cache.release()
    return held


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, released: None) -> list[str]:
    """Strategies by which searches are carried out."""
    found: list[str] = []
    plain = single.search_by

    def noted(plan: Any, *rest: Any) -> Any:
        found.append(plan.strategy.name)
        return plain(plan, *rest)

    monkeypatch.setattr(single, "search_by", noted)
    return found


@pytest.fixture
def only_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process searches by ranks, as if the graph had ids of 64 bits."""
    monkeypatch.setattr(rank_memory, "only_ranks", lambda _: True)


@pytest.fixture(scope="module")
def workers() -> Iterator[Client]:
    """Two workers that have a device in common."""
    with local_cluster(2) as client, not_current(client) as ours:
        yield ours


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """The graph whose searches are refused memory, allocation by allocation."""
    return stores.kronecker(tmp_path_factory, 13, shards=4)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """With float32 weights, which may be in pinned memory."""
    path = tmp_path_factory.mktemp("stores") / "light.zarr"
    return og.build(stores.skewed("float32"), path, rows="both", shards=4, device="cpu")


@pytest.fixture(
    scope="module",
    params=[("float32", False, 0), ("float64", True, 5), ("int64", True, GAP), ("int32", False, 1)],
    ids=lambda said: said[0],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Types of weights, directed or not, ids from 0 on, with gaps, and large."""
    dtype, directed, gap = request.param
    return make(tmp_path_factory.mktemp("cases"), dtype, directed=directed, gap=gap)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """One case, for what does not depend on the graph."""
    return make(tmp_path_factory.mktemp("plain"), "float32", directed=False, gap=0)


@pytest.fixture(scope="module")
def cuda_workers() -> Iterator[Any]:
    with local_cuda_cluster() as client, not_current(client) as ours:
        yield ours


@contextmanager
def not_current(client: Client) -> Iterator[Client]:
    """Another client of the cluster, in its stead, which only calls that are given it use."""
    client.close()
    with Client(client.cluster.scheduler_address, set_as_default=False) as ours:
        yield ours
