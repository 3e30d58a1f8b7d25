"""Where the answer of one search goes: into a store, or to columns in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Columns
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.model.task import Trace, Written
from ooc_graph.runtime import process
from ooc_graph.shards.load import Graph

NUMPY, CUPY = "numpy", "cupy"
"""Where an answer that is not written lies: in host memory, or on the CUDA device."""


def measure_dtype(graph: Graph, kernel: str) -> np.dtype[Any]:
    """Type of levels, or of distances."""
    if kernel == "bfs":
        return np.dtype(np.int32)
    return distances_of(graph.weight_dtype)


def answer_bytes(graph: Graph, kernel: str, arrays: str) -> int:
    """Host memory of an answer that is not written: vertices, parents, and levels or distances.

    Components have one column besides the vertices. If the answer stays on a device, it is the
    vertices alone, on their way there.
    """
    if arrays == CUPY:
        return graph.vertices * 8
    measure = 0 if kernel == "components" else measure_dtype(graph, kernel).itemsize
    return graph.vertices * (16 + measure)


def deliver(columns: Columns, folder: str | None, trace: Trace) -> Written:
    """The answer by original id: in a partial store, or as columns if there is none."""
    if folder is None:
        in_memory = columns.in_memory(process.thread_count())
        return Written(trace, columns=in_memory, attributes=columns.attributes)
    specs, entries = columns.write(Path(folder))
    return Written(trace, tuple(specs), tuple(entries), attributes=columns.attributes)
