"""Fixtures of several files of tests; `conftest` makes them known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client

import ooc_graph as og
from ooc_graph.session import resident
from ooc_graph.session.cluster import local_cluster
from tests.gpu import stores


@pytest.fixture
def released() -> Iterator[None]:
    """Nothing is held for the next search, before the test and after it."""
    resident.release()
    yield
    resident.release()


@pytest.fixture(scope="module")
def workers() -> Iterator[Client]:
    """Two workers that have a device in common."""
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """The graph whose searches are refused memory, allocation by allocation."""
    return stores.kronecker(tmp_path_factory, 13, shards=4)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """With float32 weights, which may be in pinned memory."""
    path = tmp_path_factory.mktemp("stores") / "light.zarr"
    return og.build(stores.skewed("float32"), path, rows="both", shards=4, device="cpu")
