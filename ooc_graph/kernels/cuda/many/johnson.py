"""Johnson's algorithm on a CUDA device that holds a graph whole: twin of `CpuJohnson`.

Potentials are those of the CPU, so that distances have the same bits whatever device gives them;
finding them takes little time beside the searches. New weights, searches and reductions are the
device's. Parents follow from the distances, on the CPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ooc_graph.kernels.common.completion import OnDone, batches_of, raise_if_cancelled
from ooc_graph.kernels.common.many.bellman_ford import restore, reweighted
from ooc_graph.kernels.common.many.bellman_ford_search import Potentials, potentials
from ooc_graph.kernels.common.many.parents import find_parents
from ooc_graph.kernels.common.many.sources import ManySources
from ooc_graph.kernels.common.sssp.distances import (
    distance_dtype,
    longest_reweighted,
    require_fit,
    unreached,
)
from ooc_graph.kernels.common.sssp.rows import LightRows, plain_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cuda.many.core import rows_of_arcs
from ooc_graph.kernels.cuda.many.host import HostAnswers
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.many.search_plan import BLOCK_GROUPS
from ooc_graph.kernels.cuda.runtime.modules import cuda, within_memory
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows, on_device, rows_on_device
from ooc_graph.kernels.cuda.sssp.sums import require_weights
from ooc_graph.types import AnyArray, IntArray, Rows


class CudaJohnson(ManySources):
    """Distances from any number of sources, over weights of any sign.

    Rows are light-first, of out- and in-arcs with weights, in host memory (the same object when
    undirected). ``threads`` of the CPU copy answers, and find parents. A cycle of negative weight
    is a `NegativeCycleError`; paths that might not fit the distances' dtype are an `InputError`;
    rows without weights, or with ids of 64 bits, a `UsageError`.
    """

    def __init__(self, out: Rows, into: Rows, *, threads: int = 1) -> None:
        cuda()
        require_weights(out)
        assert out.weights is not None
        self._host, self._threads = (out, into), threads
        self.potentials: Potentials | None = None
        longest = None
        if out.weights.min(initial=0) < 0:
            plain = plain_rows(out)
            self.potentials = potentials(plain)
            longest = longest_reweighted(plain, self.potentials.potential)
        dtype = distance_dtype(out.weights)
        with within_memory("many sources on this graph"):
            loaded = self._load(out, dtype, into=False)
            heaviest = loaded.weights.max().item() if loaded.arcs else 0
            require_fit(heaviest, loaded.rows, dtype, longest)
            is_reweighted = self.potentials is not None
            other = loaded if into is out else self._load(into, dtype, into=True)
            by = on_device(self.potentials.potential) if self.potentials else None
            self.search = CudaManySearch(loaded, other, is_sorted=not is_reweighted, potential=by)
        self._answers = HostAnswers(self.search, threads)
        self.dtype, self.vertices = self.search.dtype, self.search.vertices
        self.ids = out.neighbors.dtype

    def _load(self, rows: Rows, dtype: np.dtype[Any], *, into: bool) -> DeviceRows:
        """Rows on the device; with new weights, of which light ones need not be first."""
        loaded = rows_on_device(rows, weighted=True)
        weights = loaded.weights.astype(dtype, copy=False)
        if self.potentials is not None:
            cupy, row = cuda(), rows_of_arcs(replace(loaded, weights=weights))
            by = on_device(self.potentials.potential)
            source, target = (loaded.neighbors, row) if into else (row, loaded.neighbors)
            # In this order in both directions, and as on the CPU.
            weights = cupy.maximum((weights + by[source]) - by[target], dtype.type(0))
        return replace(loaded, weights=weights)

    @property
    def has_matrix(self) -> bool:
        """Whether all pairs were found at once, by Floyd-Warshall."""
        return self.search.has_matrix

    def expect(self, sources: int, matrix_sources: int = 0) -> None:
        """Prepare for so many sources in all runs to come; see `CudaManySearch.expect`."""
        with within_memory("many sources on this graph"):
            self.search.expect(sources, matrix_sources)

    def _find(
        self,
        sources: IntArray,
        answer: AnyArray,
        parents: AnyArray | None,
        batch_size: int | None,
        on_done: OnDone | None,
    ) -> None:
        del batch_size  # the device has its own
        self.expect(len(sources))
        if parents is None:
            with within_memory("distances from many sources"):
                self._answers.run(sources, answer, on_done=on_done)
            return
        if not len(sources):
            # What no source is asked for gets ready for others.
            self._find_trees(sources, answer, parents)
        for part in batches_of(len(sources), BLOCK_GROUPS * self.search.slots, on_done):
            raise_if_cancelled()
            self._find_trees(sources[part], answer[part], parents[part])

    def _find_trees(self, sources: IntArray, answer: AnyArray, parents: AnyArray) -> None:
        """Distances and parents of some sources; the parents are found on the CPU."""
        with within_memory("distances from many sources"):
            self._answers.run(sources, answer, self.search.columns(restored=False))
        find_parents(*self._searched, self._team, sources, answer, parents)
        if self.potentials is not None:
            restore(answer, self.potentials.potential, sources, unreached(answer.dtype)[0])

    def run_columns(
        self,
        sources: IntArray,
        targets: IntArray,
        own: IntArray,
        most: float | None = None,
        *,
        answer: AnyArray | None = None,
        at: IntArray | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """Distances from internal ids to some vertices, in their order: (sources, columns).

        ``targets``, int64 (columns,), are internal ids, -1 for vertices without a row, which nobody
        reaches. ``own``, int64 (sources,), is the column of each source, whose distance is 0; -1 if
        it has none. ``most`` is the largest distance that counts as reached (None: any). ``at``,
        int64 (sources,), is the row of ``answer`` of each source; other rows stay as they are.
        ``on_done`` is called when rows are in ``answer``, before others are searched.
        """
        if answer is None:
            answer = np.empty((len(sources), len(targets)), self.dtype)
        with within_memory("distances from many sources"):
            self.expect(len(sources))
            columns = self.search.columns(targets, most)
            self._answers.run(sources, answer, columns, own.astype(np.uint32), on_done, at)
        return answer

    def reduce(
        self, sources: IntArray, targets: IntArray, own: IntArray, most: float | None = None
    ) -> AnyArray:
        """Reductions of the searches, made on the device; parameters as of `run_columns`.

        They are (sources,) of `many.search_plan.part_dtype`: how many columns are ``reached``, the
        source's own included, the ``largest`` of their distances, and their ``sum``, of integers
        ``exact``, modulo 2^64. Sums of floats are rounded in an order of the device's own.
        """
        with within_memory("reductions of many sources"):
            self.expect(len(sources))
            columns = self.search.columns(targets, most)
            return self.search.reduce(sources, columns, own.astype(np.uint32))

    @cached_property
    def _team(self) -> Team:
        return Team(self._threads)

    @cached_property
    def _searched(self) -> tuple[LightRows, LightRows]:
        """The rows in host memory, with the weights that are searched."""
        out, into = (plain_rows(rows) for rows in self._host)
        if self.potentials is None:
            return out, into
        by = self.potentials.potential
        return reweighted(out, by, into=False), reweighted(into, by, into=True)
