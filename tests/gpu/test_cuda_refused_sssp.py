"""SSSP whose answers stay on a device that refuses memory at any allocation, the answers' too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ooc_graph as og
from ooc_graph.session import resident
from tests.gpu.test_cuda_refused import BEGUN, built, refuse_in_turn


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return built(tmp_path_factory)


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    resident.release()
    yield
    resident.release()


@pytest.mark.parametrize("begun", BEGUN)
def test_device_memory_refused_at_any_allocation_is_done_without(
    begun: str, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_in_turn("sssp", begun, "cupy", graph, monkeypatch)
