"""Validation of answers in host memory against Graph500's edges, on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy
import gpu_graphs
import numpy as np

import ooc_graph as og
from ooc_graph.session.resident import load_ids
from ooc_graph.validate.cuda_validator import NO_LEVEL, CudaBfsValidator, largest_batch

BLOCK_EDGES = 1 << 26
# Of the device beside answers that wait for validation: a block of edges, and one answer's columns.
BESIDE_EDGE_BYTES, BESIDE_VERTEX_BYTES = 12, 64


class Validated:
    """Answers that are validated in batches as large as the device has room for."""

    def __init__(self, source: og.Kronecker, graph: og.Graph, keys: int) -> None:
        self._source = source
        ids = load_ids(graph)
        self._internal, self._original = (
            cupy.asarray(table) for table in (ids.internal_of, ids.original_of)
        )
        beside = BESIDE_EDGE_BYTES * min(BLOCK_EDGES, source.edges)
        beside += BESIDE_VERTEX_BYTES * source.vertices
        self._room = max(1, min(keys, largest_batch(source.vertices, "bfs", beside=beside)))
        self._validator: Any = None
        self._waiting = 0
        self.right = 0

    def add(self, key: int, tree: Any) -> None:
        """Take an answer; its batch is validated once it is full."""
        if self._validator is None:
            self._validator = CudaBfsValidator(self._source.vertices, self._room)
        self._validator.add(key, *self._columns(tree))
        self._waiting += 1
        if self._waiting == self._room:
            self.finish()

    def _columns(self, tree: Any) -> tuple[Any, Any]:
        """Parents and levels by original id."""
        level, parent = (cupy.asarray(column) for column in (tree.level, tree.parent))
        rows = cupy.where(level >= 0, parent, np.uint32(0))
        named = cupy.where(level >= 0, self._original[rows], -1)
        there = self._internal >= 0
        at = cupy.where(there, self._internal, 0)
        level = cupy.where(level < 0, NO_LEVEL, level).astype(np.uint8)
        return cupy.where(there, named[at], -1), cupy.where(there, level[at], np.uint8(NO_LEVEL))

    def finish(self) -> None:
        """Validate what waits.

        Raises
        ------
        SystemExit
            An answer is wrong.
        """
        if not self._waiting:
            return
        for block in self._blocks():
            self._validator.block(*block)
        wrong = [verdict for verdict in self._validator.finish() if not verdict.ok]
        if wrong:
            raise SystemExit(f"{len(wrong)} answers are wrong, the first: {wrong[0]}")
        self.right, self._waiting, self._validator = self.right + self._waiting, 0, None
        gpu_graphs.free_memory()

    def _blocks(self) -> Iterator[tuple[Any, Any, None]]:
        size = min(BLOCK_EDGES, self._source.edges)
        ends = [cupy.empty(size, np.uint32) for _ in range(2)]
        for start in range(0, self._source.edges, size):
            count = min(size, self._source.edges - start)
            block = ends[0][:count], ends[1][:count], None
            self._source.generate_into(start, *block)
            yield block
