"""Validation of whole answers on the device; shares no code with the searches.

Every arc of the graph is looked at. A level is one more than the smallest level of a neighbour; a
distance is the smallest sum of a neighbour's distance and the arc's weight in float32; parents are
the ones that the rules of docs/storage.md name. Rows are undirected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cupy
import numpy as np

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
        rows = graph.out_hub
        arguments = (graph.original_of, tree.parent, level)
        return self._count(self._bfs, root, rows, (rows.offsets, rows.neighbors, *arguments))

    def sssp(self, graph: Any, root: int, tree: Any) -> tuple[int, int]:
        """Rows that are wrong, and rows on plateaus."""
        rows = graph.out_light
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
