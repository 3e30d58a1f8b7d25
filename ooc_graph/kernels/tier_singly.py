"""Many sources one after the other by a search from one source, on whichever device.

The searches are those whose arcs stay outside memory, and those of CUDA devices.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ooc_graph.kernels.given_up import leave_if_given_up
from ooc_graph.kernels.interface import BfsTree, SsspTree
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray


class Single(Protocol):
    """A search from one source, of BFS or SSSP."""

    def run(self, root: int) -> BfsTree | SsspTree:
        """Search; the arrays are the search's until the next run."""


class TierSingly:
    """Distances, or levels, from any number of sources; what was fetched is kept for the next.

    Parameters
    ----------
    search
        Searches from one source, with all threads.
    vertices
        Rows of the graph.
    dtype
        Of the distances; int32 for levels.
    ids
        Dtype of parents.
    """

    def __init__(
        self, search: Single, vertices: int, dtype: np.dtype[Any], ids: np.dtype[Any]
    ) -> None:
        self._search, self.vertices, self.dtype, self._ids = search, vertices, dtype, ids

    def run(self, sources: IntArray, *, lanes: int = 1) -> AnyArray:  # noqa: ARG002
        """Search from each of the internal ids ``sources``: (sources, vertices).

        What is not reached has +inf, or the largest integer of the dtype.
        """
        return self._run(sources, None)

    def run_with_parents(
        self,
        sources: IntArray,
        *,
        lanes: int = 1,  # noqa: ARG002
    ) -> tuple[AnyArray, AnyArray]:
        """Distances as `run` gives them, and parents: ids (sources, vertices).

        A source is its own parent; all ones: not reached.
        """
        parents = np.empty((len(sources), self.vertices), self._ids)
        return self._run(sources, parents), parents

    def _run(self, sources: IntArray, parents: AnyArray | None) -> AnyArray:
        answer: AnyArray = np.empty((len(sources), self.vertices), self.dtype)
        for place, source in enumerate(sources.tolist()):
            # A search out of the store may take seconds, and a task has many.
            leave_if_given_up()
            tree = self._search.run(source)
            if isinstance(tree, SsspTree):
                answer[place] = tree.distance
            else:
                answer[place] = tree.level
                answer[place][tree.level < 0] = INT32_UNREACHED
            if parents is not None:
                parents[place] = tree.parent
        return answer
