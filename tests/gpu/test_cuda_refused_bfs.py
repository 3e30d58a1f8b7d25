"""BFS whose answers stay on a device that refuses memory at any allocation, the answers' too."""

from __future__ import annotations

import pytest

import ooc_graph as og
from tests.gpu.refusals import BEGUN, refuse_in_turn

pytestmark = pytest.mark.usefixtures("released")


@pytest.mark.parametrize("begun", BEGUN)
def test_device_memory_refused_at_any_allocation_is_done_without(
    begun: str, small_store: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_in_turn("bfs", begun, "cupy", small_store, monkeypatch)
