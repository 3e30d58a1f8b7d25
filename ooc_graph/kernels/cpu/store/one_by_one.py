"""Many sources one after the other by a search from one source, on whichever device.

The searches are those whose arcs stay outside memory, and those of CUDA devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.kernels.common.completion import OnDone, batches_of, raise_if_cancelled
from ooc_graph.kernels.common.decisions import SsspTree
from ooc_graph.kernels.common.device import BfsSearch, SsspSearch
from ooc_graph.kernels.common.many.bellman_ford import restore
from ooc_graph.kernels.common.many.sources import ManySources
from ooc_graph.kernels.common.sssp.distances import unreached
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray


@dataclass(eq=False)
class TierSingly(ManySources):
    """Distances, or levels, from any number of sources; what was fetched is kept for the next.

    The search is from one source, with all threads. Levels are int32; ``ids`` is the parents'
    dtype. Weights were reweighted by the ``potential`` (vertices,), if there is one, and distances
    are given without it.
    """

    search: BfsSearch | SsspSearch
    vertices: int
    dtype: np.dtype[Any]
    ids: np.dtype[Any]
    potential: AnyArray | None = None

    def _find(
        self,
        sources: IntArray,
        answer: AnyArray,
        parents: AnyArray | None,
        batch_size: int | None,  # noqa: ARG002 (there are no batches)
        on_done: OnDone | None,
    ) -> None:
        for one in batches_of(len(sources), 1, on_done):
            # A search out of the store may take seconds, and a task has many.
            raise_if_cancelled()
            tree = self.search.run(int(sources[one.start]))
            if isinstance(tree, SsspTree):
                answer[one] = tree.distance
                if self.potential is not None:
                    far = unreached(answer.dtype)[0]
                    restore(answer[one], self.potential, sources[one], far)
            else:
                answer[one] = tree.level
                answer[one][:, tree.level < 0] = INT32_UNREACHED
            if parents is not None:
                parents[one] = tree.parent
