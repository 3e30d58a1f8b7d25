"""Searches by ranks whose workers talk over UCX, if distributed-ucxx is installed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from distributed import Client

from tests.together import path_in, same, searched
from tests.toy_ranks import share_no_memory, start

pytest.importorskip("distributed_ucxx", reason="distributed-ucxx is not installed")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with start(2, protocol="ucxx") as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize("kernel", ["bfs", "sssp"])
@pytest.mark.parametrize("has_memory", [True, False])
def test_same_bytes(kernel: str, has_memory: bool, client: Client, tmp_path: Path) -> None:
    """Also if all that ranks tell each other goes through UCX."""
    if not has_memory:
        client.run(share_no_memory)
    graph, find = path_in(tmp_path, shards=2), partial(searched, kernel)
    for root in (0, 17):
        answer, _ = find(graph, client, root)
        same(kernel, answer, graph, root)
