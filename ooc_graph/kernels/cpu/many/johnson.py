"""Johnson's algorithm on a graph in memory: potentials, reweighted rows, many sources (CPU)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.kernels.common.completion import OnDone
from ooc_graph.kernels.common.many.bellman_ford import restore, reweighted
from ooc_graph.kernels.common.many.bellman_ford_search import Potentials, potentials
from ooc_graph.kernels.common.many.parents import find_parents
from ooc_graph.kernels.common.many.sources import ManySources
from ooc_graph.kernels.common.sssp.distances import longest_reweighted, unreached
from ooc_graph.kernels.common.sssp.rows import LightRows, plain_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.common.tuning import BATCH_SIZE
from ooc_graph.kernels.cpu.many.batch import Wanted, all_wanted
from ooc_graph.kernels.cpu.many.choice import Chooser
from ooc_graph.kernels.cpu.many.search import CpuManySearch
from ooc_graph.types import AnyArray, IntArray, Rows


class CpuJohnson(ManySources):
    """Distances from any number of sources, over weights of any sign.

    Without negative weights there are no potentials, and each row has the bits of a single search.
    Else rows are copied, with weights that potentials make >= 0. Integers stay exact; of floats a
    distance is wrong by what rounding made of the reweighted sum and of the two potentials.

    ``out`` and ``into`` are light-first rows with weights (the same object when undirected; then a
    negative weight is a negative cycle). A batch has 64 sources at most. Without ``tuples``, the
    input tuples at each row, sources are never searched from one by one.

    NegativeCycleError: there is a cycle of negative weight; InputError: the longest path might not
    fit the distances' dtype.
    """

    def __init__(
        self,
        out: Rows,
        into: Rows,
        team: Team,
        batch_size: int = BATCH_SIZE,
        tuples: AnyArray | None = None,
    ) -> None:
        assert out.weights is not None
        self.potentials: Potentials | None = None
        longest = None
        if out.weights.min(initial=0) < 0:
            found = reweighted_rows(out, into)
            self.potentials, longest = found.potentials, found.longest
            out, into = found.out, found.into
        self._potential = None if self.potentials is None else self.potentials.potential
        self._batch_size, self.ids = batch_size, out.neighbors.dtype
        self.search = CpuManySearch(out, into, team, batch_size, longest)
        self.dtype, self.vertices = self.search.dtype, self.search.vertices
        self.chooser: Chooser | None = None
        if tuples is not None:
            self.chooser = Chooser(self.search, out, into, tuples, team.threads)

    @property
    def has_matrix(self) -> bool:
        """Whether all pairs were found at once, by Floyd-Warshall."""
        return self.chooser is not None and self.chooser.matrix is not None

    @property
    def is_one_by_one(self) -> bool:
        """Whether sources are searched from one by one, each on a thread."""
        return self.chooser is not None and self.chooser.side_by_side is not None

    def expect(self, sources: int, matrix_sources: int = 0) -> None:
        """Prepare for so many sources in all runs to come, as `Apsp.expect` says."""
        if self.chooser is not None:
            self.chooser.expect(sources, matrix_sources)
        else:
            self.search.expect(sources)

    def run_columns(
        self,
        sources: IntArray,
        targets: IntArray,
        own: IntArray,  # noqa: ARG002 -- a source's own distance is 0 without
        most: Any = None,
        *,
        answer: AnyArray | None = None,
        at: IntArray | None = None,
        batch_size: int | None = None,
        on_done: OnDone | None = None,
    ) -> AnyArray:
        """As `kernels.cuda.many.johnson.CudaJohnson.run_columns`, in batches of ``batch_size``."""
        if answer is None:
            answer = np.empty((len(sources), len(targets)), self.dtype)
        wanted = all_wanted(sources, answer, self._potential)._replace(columns=targets)
        if at is not None:
            wanted = wanted._replace(at=at)
        if most is not None:
            wanted.ends[1] = most
        self._search(wanted, batch_size, on_done)
        return answer

    def _find(
        self,
        sources: IntArray,
        answer: AnyArray,
        parents: AnyArray | None,
        batch_size: int | None,
        on_done: OnDone | None,
    ) -> None:
        if parents is None:
            self._search(all_wanted(sources, answer, self._potential), batch_size, on_done)
            return
        # Which finds those of the sources that it has searched from.
        alone, far = Team(1), unreached(answer.dtype)[0]

        def found(begin: int, end: int) -> None:
            part = slice(begin, end)
            some = sources[part], answer[part]
            find_parents(*self.search.rows, alone, *some, parents[part])
            if self._potential is not None:
                restore(some[1], self._potential, some[0], far)
            if on_done is not None:
                on_done(begin, end)

        finding = OnDone(found) if on_done is None else replace(on_done, tell=found)
        self._search(all_wanted(sources, answer), batch_size, finding)

    def _search(self, wanted: Wanted, batch_size: int | None, on_done: OnDone | None) -> None:
        if self.chooser is None:
            self.search.search(wanted, batch_size, on_done)
        else:
            self.chooser.run(wanted, batch_size or self._batch_size, on_done)


class Reweighted(NamedTuple):
    """Light-first rows with weights, of the distances' dtype, that potentials make 0 or more.

    ``longest`` bounds a path's integer length; None for floats.
    """

    out: Rows
    into: Rows
    potentials: Potentials
    longest: int | None


def reweighted_rows(out: Rows, into: Rows) -> Reweighted:
    """Rows to search instead of rows that have negative weights; raises as `CpuJohnson`."""
    plain = plain_rows(out)
    found = potentials(plain)
    by = found.potential
    longest = longest_reweighted(plain, by)
    out = as_rows(reweighted(plain, by, into=False))
    return Reweighted(out, as_rows(reweighted(plain_rows(into), by, into=True)), found, longest)


def as_rows(rows: LightRows) -> Rows:
    """The way back."""
    return Rows(rows.offsets.view(np.uint64), rows.neighbors, rows.weights)
