"""Components of a graph that one rank holds whole: the rows, the labels and the fused call (CPU).

Memory in addition to the rows: the labels, 4 bytes a vertex (8 from 2**32 vertices).
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from ooc_graph.kernels.common.components import ComponentLabels
from ooc_graph.kernels.common.team import Team, new_control
from ooc_graph.kernels.cpu.bfs.search import out_rows
from ooc_graph.kernels.cpu.components.forest import SAMPLE
from ooc_graph.kernels.cpu.components.fused import REST_ARCS, SAMPLE_ARCS, search
from ooc_graph.types import Rows


class CpuComponentsSearch:
    """Weakly connected components of one whole graph; the labels are allocated once.

    ``out`` and ``into`` are hub-first rows (the same object when undirected).
    """

    def __init__(self, out: Rows, into: Rows, team: Team) -> None:
        self._out, self._into, self._directed = out_rows(out), out_rows(into), into is not out
        self._label = np.empty(len(out.offsets) - 1, out.neighbors.dtype)
        self._team = team

    def run(self) -> ComponentLabels:
        """Find them; the array stays this search's until the next run."""
        control, sample = new_control(), np.empty(SAMPLE, np.int64)
        start = perf_counter()
        if len(self._label):
            self._team.launch(
                search,
                control,
                self._out,
                self._into,
                self._directed,
                self._label,
                sample,
            )
        elapsed_s = perf_counter() - start
        arcs = {"sample": int(control[SAMPLE_ARCS]), "rest": int(control[REST_ARCS])}
        return ComponentLabels(self._label, elapsed_s, arcs)
