"""Real graphs: both searches give the bytes of the CPU's on each of the reference graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ooc_graph.edges import open_source
from tests.gpu import test_cuda_bfs, test_cuda_sssp
from tests.gpu.graphs import roots
from tests.shared_data import need_shared
from tests.strategies import Arcs, arcs_of
from tests.unit.test_readers_shared import OPTIONS, REFUSED, graphs

GRAPHS = [graph for graph in graphs() if graph["file"] not in REFUSED] or [None]


def read(file: str) -> Arcs:
    """The graph with weights of float32, negative ones turned."""
    source = open_source(need_shared("data/" + file), **OPTIONS.get(file, {}))
    columns: list[list[np.ndarray]] = [[], [], []]
    for unit in source.units(1 << 20):
        for block in source.read(unit, 1 << 16):
            weight = np.ones(len(block)) if block.weight is None else block.weight
            for column, part in zip(columns, (block.source, block.target, weight), strict=True):
                column.append(part.copy())
    ends = [np.concatenate(column) for column in columns]
    return arcs_of(*ends[:2], np.abs(ends[2]).astype(np.float32), directed=source.directed)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph["name"] if graph else "none")
def test_same_bytes_as_the_cpu(graph: dict[str, Any] | None) -> None:
    if graph is None:
        pytest.skip("reference data not there: set OOC_GRAPH_SHARED")
    arcs = read(graph["file"])
    shard = arcs.shards(1)[0]
    test_cuda_bfs.compare(shard, roots(arcs))
    test_cuda_sssp.compare(shard, roots(arcs))
