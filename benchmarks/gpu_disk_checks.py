"""Validation of answers in host memory against Graph500's edges, on the device."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from harness.device import edge_blocks, free_memory
from harness.timing import measure_of

import ooc_graph as og
from ooc_graph.model.engine import load_ids
from ooc_graph.validate.cuda_validator import (
    NO_LEVEL,
    CudaBfsValidator,
    CudaSsspValidator,
    largest_batch,
)

BLOCK_EDGES = 1 << 26
# Of the device beside answers that wait for validation: a block of edges, and one answer's columns.
BESIDE_EDGE_BYTES, BESIDE_VERTEX_BYTES = {"bfs": 12, "sssp": 24}, 64
VALIDATORS = {"bfs": CudaBfsValidator, "sssp": CudaSsspValidator}


def reached_by(tree: Any) -> Any:
    """Which rows a search reached."""
    return tree.parent != np.uint32(0xFFFFFFFF)


class Validated:
    """Answers that are validated in batches as large as the device has room for."""

    def __init__(self, source: og.Kronecker, graph: og.Graph, kernel: str, keys: int) -> None:
        self._source, self._kernel = source, kernel
        ids = load_ids(graph)
        self._internal, self._original = (
            cupy.asarray(table) for table in (ids.internal_of, ids.original_of)
        )
        beside = BESIDE_EDGE_BYTES[kernel] * min(BLOCK_EDGES, source.edges)
        beside += BESIDE_VERTEX_BYTES * source.vertices
        self._room = max(1, min(keys, largest_batch(source.vertices, kernel, beside=beside)))
        self._validator: Any = None
        self._waiting = 0
        self.right = 0

    def add(self, key: int, tree: Any) -> None:
        """Take an answer; its batch is validated once it is full."""
        if self._validator is None:
            kind = VALIDATORS[self._kernel]
            self._validator = kind(self._source.vertices, self._room)
        self._validator.add(key, *self._columns(tree))
        self._waiting += 1
        if self._waiting == self._room:
            self.finish()

    def _columns(self, tree: Any) -> tuple[Any, Any]:
        """Parents, and levels or distances, by original id."""
        measure, parent = cupy.asarray(measure_of(tree)), cupy.asarray(tree.parent)
        reached = cupy.asarray(reached_by(tree))
        rows = cupy.where(reached, parent, np.uint32(0))
        named = cupy.where(reached, self._original[rows], -1)
        there = self._internal >= 0
        at = cupy.where(there, self._internal, 0)
        nothing = np.float32(np.inf)
        if self._kernel == "bfs":
            nothing = np.uint8(NO_LEVEL)
            measure = cupy.where(reached, measure, NO_LEVEL).astype(np.uint8)
        return cupy.where(there, named[at], -1), cupy.where(there, measure[at], nothing)

    def finish(self) -> None:
        """Validate what waits.

        Raises
        ------
        SystemExit
            An answer is wrong.
        """
        if not self._waiting:
            return
        for block in edge_blocks(self._source, self._kernel == "sssp", BLOCK_EDGES):
            self._validator.block(*block)
        wrong = [verdict for verdict in self._validator.finish() if not verdict.ok]
        if wrong:
            raise SystemExit(f"{len(wrong)} answers are wrong, the first: {wrong[0]}")
        self.right, self._waiting, self._validator = self.right + self._waiting, 0, None
        free_memory()
