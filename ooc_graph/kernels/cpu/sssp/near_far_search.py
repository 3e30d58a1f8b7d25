"""SSSP by near-far on a whole graph: when it applies, its rows, buffers and fused call (CPU)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.decisions import SsspTree, hubs_are_large
from ooc_graph.kernels.common.sssp.distances import distance_dtype, unreached
from ooc_graph.kernels.common.sssp.rows import may_pull, survey
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.sssp import near_far
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.types import AnyArray, Rows

FAR_SHARE = 4
"""A list holds one in this many of the rows; a graph that has more beyond the bound is slower."""


def suits_near_far(out: Rows, tuples: AnyArray) -> bool:
    """Tell whether to search by near-far: weights above zero of 32 bits, and nothing to pull for.

    It relaxes whole rows, which cost it less than the general search's cursors cost that, in long
    rows too. What it does not see is that a hub's arcs beyond the bound can wait: a hub that a
    path comes nearer to with each of its vertices is relaxed each time. Floats are searched so only
    where there are no hubs, whatever their weights: so it is known before rows are read.
    """
    weights = out.weights
    assert weights is not None
    if not may_pair_rows(weights.dtype, len(out.offsets) - 1, len(weights)):
        return False
    if out.neighbors.dtype != np.uint32:
        return False
    if len(weights) and (weights.min() <= 0 or _farthest(weights) <= 0):
        return False
    found = survey(out, tuples)
    return not (hubs_are_large(found.head_share) if weights.dtype.kind == "f" else may_pull(found))


def _farthest(weights: AnyArray) -> int:
    """32 bits of the longest distance to which each of the weights may be added; 0: of none."""
    heaviest = weights.max(initial=0)
    if weights.dtype.kind != "f":
        return max(0, near_far.UNREACHED - 1 - int(heaviest))
    longest = np.float32(np.finfo(np.float32).max / 2)
    return int(longest.view(np.uint32)) if heaviest <= longest else 0


def may_pair_rows(weights: np.dtype[Any], rows: int, arcs: int) -> bool:
    """Tell whether rows of such a graph may get `PairedRows`; ``arcs`` of one direction."""
    has_type = weights.kind != "f" or weights == np.float32
    return has_type and not rows >> near_far.PARENT_BITS and not arcs >> 32


def paired_bytes(rows: int, arcs: int) -> int:
    """Memory of `PairedRows`."""
    return 8 * arcs + 4 * (rows + 1)


def paired_rows(out: Rows) -> PairedRows:
    """Rows with neighbour and weight of an arc side by side: 8 bytes an arc, 4 a row."""
    assert out.weights is not None
    bits = out.weights.view(np.uint32) if out.weights.dtype.kind == "f" else out.weights
    arcs = bits.astype(np.uint64)
    arcs <<= np.uint64(32)
    arcs |= out.neighbors
    return PairedRows(out.offsets.astype(np.uint32), arcs)


class CpuNearFarSearch:
    """SSSP searches of one whole graph by near-far, one at a time; buffers are allocated once.

    In addition to the rows and the answer it has 2 bytes a vertex: the queue lies in the memory of
    the parents, which are made last; 6 bytes if distances are float32. A search that gives up is
    repeated by `CpuSsspSearch`, which does all others from then on. ``paired`` rows may be those of
    another search of the same graph.
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        tuples: AnyArray,
        team: Team,
        paired: PairedRows | None = None,
    ) -> None:
        self._general: CpuSsspSearch | None = None
        self._make_general = lambda: CpuSsspSearch(out, into, tuples, team)
        rows = len(out.offsets) - 1
        self.paired = paired_rows(out) if paired is None else paired
        """The rows; another search of the graph may have the same."""
        assert out.weights is not None
        self._farthest = _farthest(out.weights)
        self._step = survey(out, tuples).step
        dtype, words = distance_dtype(out.weights), np.empty(rows, np.uint64)
        self._top = unreached(dtype)[0]
        self._distance = words.view(dtype)[:rows]
        self._parent = np.empty(rows, np.uint32)
        self._state = near_far.NearFar(
            words,
            self._parent,
            np.empty((2, rows // FAR_SHARE), np.uint32),
            np.zeros(6, np.int64),
        )

    def run(self, root: int) -> SsspTree:
        """As `CpuSsspSearch.run`."""
        if self._general is not None:
            return self._general.run(root)
        start = perf_counter()
        given = self.paired, self._state, self._distance, self._parent, self._top
        examined = near_far.search_near_far(*given, self._farthest, self._step, root)
        elapsed_s = perf_counter() - start
        if examined == near_far.GAVE_UP:
            del self.paired, self._state, self._distance, self._parent
            self._general = self._make_general()
            tree = self._general.run(root)
            return replace(tree, elapsed_s=elapsed_s + tree.elapsed_s)
        phase_arcs = {"push": int(examined), "pull": 0, "finish": 0, "parents": 0}
        return SsspTree(self._parent, self._distance, elapsed_s, phase_arcs)


class PairedRows(NamedTuple):
    """Rows with ``weight << 32 | neighbor`` as uint64 (arcs,); ``offsets`` (rows + 1,) integers.

    A weight is an integer or the bits of a float32.
    """

    offsets: AnyArray
    arcs: AnyArray
