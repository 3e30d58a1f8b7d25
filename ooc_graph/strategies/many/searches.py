"""The searches of one task, each of which says whose answers it has found as soon as it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ooc_graph.answers.asked import largest_reached, own_columns
from ooc_graph.answers.many import SourceColumns, SourceRows
from ooc_graph.answers.reduced import SourceNumbers, SourceParts, SourceTallies
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.common.completion import OnDone, batches_of, raise_if_cancelled
from ooc_graph.kernels.common.many.sources import empty_tallies
from ooc_graph.kernels.cuda.many.search_plan import BLOCK_GROUPS, part_dtype
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime.process import thread_count
from ooc_graph.strategies.many.recording import Recording
from ooc_graph.strategies.many.task import BEYOND, ON_DEVICE, ManyTask
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray

Rows: TypeAlias = SourceRows | SourceColumns | SourceTallies | SourceParts | SourceNumbers


@dataclass(frozen=True)
class Searches:
    """A search from many sources that is loaded, and the sources that it is asked for."""

    task: ManyTask  # what is asked of each source
    search: Any  # the device's search, such as `ooc_graph.kernels.cpu.many.johnson.CpuJohnson`
    ids: Ids  # id tables
    positions: IntArray  # int64 (sources,): positions of the sources among all vertices
    recording: Recording | None = None  # records what is found; None: nothing is
    # (sources, columns): where distances go if nothing else is asked for; None: to new memory.
    into: AnyArray | None = None
    # Called with sources that have arcs when the CPU has written their rows to ``into``.
    on_done: OnDone | None = None

    def in_memory(self) -> Rows:
        """What is asked for, with all arcs in memory, or in that of a CUDA device."""
        task, asked, is_on_device = self.task, self.task.asked, self.task.device == CUDA
        if asked.hops and (not is_on_device or asked.reduce is not None):
            return self._levels()
        if not asked.hops:
            self.search.expect(task.sources, task.reserved.matrix_sources)
        if asked.parents:
            return self._rows()
        if not is_on_device:
            return self._columns(self.into is not None, batch_size=task.batch_size)
        return self._reduced() if asked.reduce in ON_DEVICE else self._columns()

    def batch_by_batch(self) -> Rows:
        """The same of a search that does not reduce by itself: batch after batch."""
        asked, batch_size = self.task.asked, self.task.batch_size
        if asked.reduce is None:
            return self._rows()
        rows = SourceNumbers([None] * len(self.positions))
        on_done = self._on_done_of(rows, of_all=True)
        for part in batches_of(len(self.positions), batch_size, on_done):
            batch = self.positions[part]
            answer = self.search.run(internal_ids(self.ids, batch), batch_size=batch_size)
            rows.put(part.start, SourceRows(answer, batch, self.ids, asked).reduced(asked.reduce))
        return rows

    def _on_done_of(self, rows: Any, *, of_all: bool = False) -> OnDone | None:
        """What to call when sources of rows are found: of all, or of those that have arcs."""
        if self.recording is None:
            return None
        is_searched = self.ids.internal_of[self.positions] >= 0
        return self.recording.of(rows, is_searched | of_all)

    def _rows(self, **most: Any) -> SourceRows | SourceColumns:
        """Distances or levels by internal id, and parents if wanted; few columns alone."""
        task, search = self.task, self.search
        if 0 < task.reserved.slice_sources < len(self.positions):
            return self._few_columns()
        internal = internal_ids(self.ids, self.positions)
        if task.asked.parents:
            answers = search.empty(len(internal))
            rows = SourceRows(answers[0], self.positions, self.ids, task.asked, answers[1])
            on_done = self._on_done_of(rows)
            search.run_with_parents(internal, answers, batch_size=task.batch_size, on_done=on_done)
            return rows
        answer = np.empty((len(internal), search.vertices), search.dtype)
        rows = SourceRows(answer, self.positions, self.ids, task.asked)
        search.run(
            internal, answer, batch_size=task.batch_size, on_done=self._on_done_of(rows), **most
        )
        return rows

    def _few_columns(self) -> SourceColumns:
        """Distances or levels to the targets; those to all vertices of some sources at a time."""
        task, search, positions = self.task, self.search, self.positions
        assert task.asked.targets is not None
        into = self.into
        if into is None:
            into = np.empty((len(positions), len(task.asked.targets)), search.dtype)
        rows = SourceColumns(into, positions, self.ids, task.asked, is_whole=True)
        # Sources without arcs have their rows when the others searched with them have.
        on_done = self._on_done_of(rows, of_all=True)
        wide: AnyArray = np.empty((task.reserved.slice_sources, search.vertices), search.dtype)
        for part in batches_of(len(positions), task.reserved.slice_sources, on_done):
            raise_if_cancelled()
            some = positions[part]
            internal = internal_ids(self.ids, some)
            answer = wide[: len(internal)]
            search.run(internal, answer, batch_size=task.batch_size)
            found = SourceRows(answer, some, self.ids, task.asked)
            for row, one in zip(into[part], found, strict=True):
                row[:] = one
        return rows

    def _columns(self, is_reported: bool = False, **how: Any) -> SourceColumns:
        """Distances, or levels of a device, to what they are asked for to, as a search orders them.

        With ``into`` these are of all sources in their order, with those without arcs among
        them. ``how`` goes to the search; ``is_reported`` has it say whose rows are there.
        """
        sources, aimed, own, most = self._asked_of_columns()
        at = None
        if self.into is None:
            answer: AnyArray = np.empty((len(sources), len(aimed)), self.search.dtype)
        else:
            answer = self.into
            assert answer.dtype == self.search.dtype
            if len(sources) < len(self.positions):
                at = np.flatnonzero(self.ids.internal_of[self.positions] >= 0)
        is_whole = self.into is not None
        rows = SourceColumns(answer, self.positions, self.ids, self.task.asked, is_whole=is_whole)
        how["on_done"] = self.on_done if is_reported else self._on_done_of(rows)
        self.search.run_columns(sources, aimed, own, most, answer=answer, at=at, **how)
        rows.fill_isolated(thread_count())
        return rows

    def _asked_of_columns(self) -> tuple[IntArray, IntArray, IntArray, Any]:
        """Arguments of ``run_columns``."""
        asked, ids, most = self.task.asked, self.ids, None
        if asked.cutoff is not None:
            most = largest_reached(asked.cutoff, self.search.dtype)
        aimed = ids.internal_of if asked.targets is None else ids.internal_of[asked.targets]
        own = own_columns(self.positions, asked)[ids.internal_of[self.positions] >= 0]
        return internal_ids(ids, self.positions), aimed.astype(np.int64), own, most

    def _reduced(self) -> SourceParts:
        """Reductions; those of all sources at once if they are not recorded before the end."""
        search, asked = self.search, self.task.asked
        sources, aimed, own, most = self._asked_of_columns()
        found = np.zeros(len(sources), part_dtype(search.dtype))
        rows = SourceParts(found, self.positions, self.ids, asked)
        on_done = self._on_done_of(rows)
        if not len(sources):
            # What no source is asked for gets ready for others.
            search.reduce(sources, aimed, own, most)
        length = max(len(sources), 1) if on_done is None else BLOCK_GROUPS * self.task.batch_size
        for part in batches_of(len(sources), length, on_done):
            rows.put(part.start, search.reduce(sources[part], aimed, own[part], most))
            if self.task.sums_on_device:
                self._put_beyond(rows, rows.beyond(part.start, part.stop))
        return rows

    def _put_beyond(self, rows: SourceParts, beyond: IntArray) -> None:
        """Reduce sources whose sums are beyond float64 as the CPU does, from their distances."""
        assert self.task.asked.reduce is not None
        for begin in range(0, len(beyond), BEYOND):
            some = beyond[begin : begin + BEYOND]
            found = replace(self, positions=some, recording=None, into=None)._columns()
            rows.put_instead(some, found.reduced(self.task.asked.reduce))

    def _levels(self) -> Rows:
        """Levels, or if they are reduced what was counted of them."""
        asked, search, most = self.task.asked, self.search, None
        if asked.cutoff is not None:
            most = min(max(math.floor(asked.cutoff), 0), INT32_UNREACHED)
        if asked.reduce is None:
            return self._rows(most=most)
        internal, wanted = internal_ids(self.ids, self.positions), None
        if asked.targets is not None:
            aimed = self.ids.internal_of[asked.targets]
            wanted = np.zeros(search.vertices, np.bool_)
            wanted[aimed[aimed >= 0]] = True
        bins, width = 0, 1
        if asked.reduce == HISTOGRAM:
            bins = asked.bins.count
            width = min(int(asked.bins.width_for(search.dtype)), INT32_UNREACHED)
        tallies = empty_tallies(len(internal), bins)
        rows = SourceTallies(tallies, self.positions, self.ids, asked)
        counted = {"most": most, "wanted": wanted, "bins": bins, "width": width, "tallies": tallies}
        search.tally(
            internal, batch_size=self.task.batch_size, on_done=self._on_done_of(rows), **counted
        )
        return rows


def internal_ids(ids: Ids, positions: IntArray) -> IntArray:
    """Internal ids of the sources that have arcs, int64, given by positions among all vertices."""
    internal = ids.internal_of[positions]
    found: IntArray = internal[internal >= 0].astype(np.int64)
    return found
