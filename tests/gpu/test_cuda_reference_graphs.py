"""Real graphs: both searches give the bytes of the CPU's on each of the reference graphs.

SSSP with the weights that a graph has, and with the same as other types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ooc_graph.edges import open_source
from tests.gpu.comparison import compare_bfs, compare_sssp
from tests.gpu.graphs import roots
from tests.shared_data import need_shared
from tests.strategies import Arcs, arcs_of
from tests.unit.test_readers_shared import OPTIONS, REFUSED, graphs

GRAPHS = [graph for graph in graphs() if graph["file"] not in REFUSED] or [None]


def read(file: str) -> Arcs:
    """The graph with its own weights, negative ones turned, or with ones where it has none."""
    source = open_source(need_shared("data/" + file), **OPTIONS.get(file, {}))
    columns: list[list[np.ndarray]] = [[], [], []]
    for unit in source.units(1 << 20):
        for block in source.read(unit, 1 << 16):
            weight = np.ones(len(block)) if block.weight is None else block.weight
            for column, part in zip(columns, (block.source, block.target, weight), strict=True):
                column.append(part.copy())
    ends = [np.concatenate(column) for column in columns]
    return arcs_of(*ends[:2], np.abs(ends[2]), directed=source.directed)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph["name"] if graph else "none")
def test_same_bytes_as_the_cpu(graph: dict[str, Any] | None) -> None:
    if graph is None:
        pytest.skip("reference data not there: set OOC_GRAPH_SHARED")
    arcs = read(graph["file"])
    shard = arcs.shards(1)[0]
    compare_bfs(shard, roots(arcs))
    compare_sssp(shard, roots(arcs))
    for dtype in {"float32", "float64", "int64"} - {str(arcs.weight.dtype)}:
        other = Arcs(**{**vars(arcs), "weight": arcs.weight.astype(dtype)})
        compare_sssp(other.shards(1)[0], roots(arcs)[:3])
