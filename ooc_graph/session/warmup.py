"""Compile a graph's kernels on a graph of two vertices, so that no search's time has it in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.exchange import local
from ooc_graph.kernels.cpu import CpuDevice
from ooc_graph.layout.names import id_dtype
from ooc_graph.shards.load import Graph
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.components import components
from ooc_graph.traverse.sssp import sssp
from ooc_graph.types import Dealing, Rows, Shard

_done: set[tuple[Any, ...]] = set()


def warm(kernel: str, graph: Graph, device: CpuDevice, *, ranks: bool) -> None:
    """Run a search of the same types, once in a process.

    Parameters
    ----------
    ranks
        Whether the search is one of many ranks, or one that holds the whole graph.
    """
    key = (kernel, graph.directed, id_dtype(graph.rows), graph.weight_dtype, ranks)
    if key in _done:
        return
    tiny = _pair(graph)
    if not ranks:
        root = () if kernel == "components" else (0,)
        getattr(device, kernel)(tiny).run(*root)
    else:
        coroutine, shared = _ranks(kernel, graph, device, tiny)
        local.run([coroutine], shared, 1)
    _done.add(key)


def _ranks(kernel: str, graph: Graph, device: Any, tiny: Shard) -> tuple[Any, Any]:
    """The coroutine of the one rank that holds both vertices, and what it shares."""
    if kernel == "bfs":
        shared = device.bfs_shared(2, 1)
        return bfs(device.bfs_rank(tiny), 0, shared), shared
    if kernel == "components":
        shared = device.components_shared(2)
        return components(device.components_rank(tiny), shared), shared
    dtype = graph.weight_dtype or np.dtype(np.float32)
    shared = device.sssp_shared(2, dtype if dtype.kind == "f" else np.dtype(np.int64))
    return sssp(device.sssp_rank(tiny), 0, shared), shared


def _pair(graph: Graph) -> Shard:
    """Two vertices that are neighbours of each other, in the types of a graph."""
    offsets = np.array([0, 1, 2], np.uint64)
    neighbors = np.array([1, 0], id_dtype(graph.rows))
    hub = Rows(offsets, neighbors)
    light = None
    if graph.weight_dtype is not None:
        light = Rows(offsets, neighbors, np.ones(2, graph.weight_dtype))
    tuples = np.ones(2, np.uint32)
    return Shard(Dealing(2), graph.directed, tuples, hub, hub, light, light)
