"""What a newcomer tries in the first hour, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ooc_graph as og
from ooc_graph.errors import UsageError

EDGES = np.array([0, 1, 2]), np.array([1, 2, 3])


@pytest.fixture
def graph() -> og.Graph:
    return og.from_edges(*EDGES)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "give a path, not int"),
        (b"g.zarr", "give a path, not bytes"),
        ("", "an empty word is no path"),
        ("s3://bucket/g.zarr", "s3://bucket/g.zarr is a URL, and a path is needed here"),
    ],
)
def test_outputs_are_paths(graph: og.Graph, given: Any, said: str) -> None:
    answer = og.bfs(graph, 0)
    with pytest.raises(UsageError, match=f"^out: {said}"):
        og.build(EDGES, given)
    with pytest.raises(UsageError, match=f"^out: {said}"):
        og.bfs(graph, 0, out=given)
    with pytest.raises(UsageError, match=f"^path: {said}"):
        og.export(answer, given)


def test_a_build_into_nothing_is_told_of_graphs_in_memory() -> None:
    with pytest.raises(UsageError, match=r"^out: .* from_edges"):
        og.build(EDGES, None)  # type: ignore[arg-type]
