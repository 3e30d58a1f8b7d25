"""Validation of whole answers on the device; shares no code with the searches.

`Checks` looks at every arc of undirected rows. A level is one more than the smallest level of a
neighbour; a distance is the smallest sum of a neighbour's distance and the arc's weight in float32;
parents are the ones that the rules of docs/reference/storage.md name. `Validated` looks at
Graph500's edges, by the package's validator.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from harness.device import DeviceGraph, edge_blocks, free_memory
from harness.timing import measure_of, reached_by

import ooc_graph as og
from ooc_graph.model.engine import load_ids
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.validate.cuda_loader import largest_batch
from ooc_graph.validate.cuda_validator import NO_LEVEL, CudaBfsValidator, CudaSsspValidator

BLOCK_EDGES = 1 << 26
# Of the device beside answers that wait for validation: a block of edges, and one answer's columns.
BESIDE_EDGE_BYTES, BESIDE_VERTEX_BYTES = {"bfs": 12, "sssp": 24}, 64
VALIDATORS = {"bfs": CudaBfsValidator, "sssp": CudaSsspValidator}
SOURCE = Path(__file__).with_name("gpu_checks.cu")


class Checks:
    """Checks of answers that are named by original ids."""

    def __init__(self) -> None:
        module = cupy.RawModule(code=SOURCE.read_text(), options=("-std=c++17",))
        self._bfs, self._sssp = (module.get_function(f"check_{name}") for name in ("bfs", "sssp"))

    def bfs(self, graph: Any, root: int, tree: Any) -> tuple[int, int]:
        """Rows that are wrong, and 0."""
        level = tree.level.astype(np.uint32)
        if tree.level.dtype == np.uint8:
            level[tree.level == 255] = np.uint32(0xFFFFFFFF)
        rows = graph.rows
        arguments = (graph.original_of, tree.parent, level)
        return self._count(self._bfs, root, rows, (rows.offsets, rows.neighbors, *arguments))

    def sssp(self, graph: Any, root: int, tree: Any) -> tuple[int, int]:
        """Rows that are wrong, and rows on plateaus."""
        rows = graph.rows
        assert graph.internal_of.dtype == np.int32
        arguments = (graph.original_of, graph.internal_of, tree.parent, tree.distance)
        held = (rows.offsets, rows.neighbors, rows.weights)
        return self._count(self._sssp, root, rows, (*held, *arguments))

    @staticmethod
    def _count(check: Any, root: int, rows: Any, arguments: tuple[Any, ...]) -> tuple[int, int]:
        wrong = cupy.zeros(2, np.uint64)
        numbers = (np.uint32(len(rows.offsets) - 1), np.uint32(root))
        check((4096,), (512,), (*numbers, *arguments, wrong))
        return int(wrong[0]), int(wrong[1])


def checked(
    graph: DeviceGraph,
    kernel: str,
    roots: Sequence[int],
    search: Any,
    seen: Callable[[Any], None] = lambda _: None,
) -> dict[str, Any]:
    """Time and check one search a root; parents are original ids. ``seen`` is given each answer."""
    check = getattr(Checks(), kernel)
    times, tuples, wrong, flat = [], [], 0, 0
    search.run_on_device(roots[0])
    for root in roots:
        tree = search.run_on_device(root)
        times.append(tree.elapsed_s)
        seen(tree)
        tuples.append(int(graph.tuples[reached_by(tree)].sum(dtype="uint64")) // 2)
        found = check(graph, root, tree)
        wrong, flat = wrong + found[0], flat + found[1]
    if wrong:
        raise SystemExit(f"{kernel}: {wrong} rows of the answers are wrong")
    return {
        "times_s": times,
        "edges": tuples,
        "teps": teps_statistics(times, tuples).to_dict(),
        "rows_checked": len(roots) * len(graph.original_of),
        "plateau_rows": flat,
    }


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
            self._validator = VALIDATORS[self._kernel](self._source.vertices, self._room)
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
        """Validate what waits; SystemExit: an answer is wrong."""
        if not self._waiting:
            return
        for block in edge_blocks(self._source, self._kernel == "sssp", BLOCK_EDGES):
            self._validator.block(block.source, block.target, block.weight)
        wrong = [verdict for verdict in self._validator.finish() if not verdict.ok]
        if wrong:
            raise SystemExit(f"{len(wrong)} answers are wrong, the first: {wrong[0]}")
        self.right, self._waiting, self._validator = self.right + self._waiting, 0, None
        free_memory()
