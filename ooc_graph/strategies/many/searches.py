"""The searches of one task, each of which says whose answers it has found as soon as it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ooc_graph.answers.columns import SourceColumns
from ooc_graph.answers.pairs import SourceRows, largest_reached, own_columns
from ooc_graph.answers.reduced import SourceNumbers, SourceParts, SourceTallies
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.answers.scatter import Ids
from ooc_graph.kernels.common.cancellation import raise_if_cancelled
from ooc_graph.kernels.common.completion import OnDone, batches_of
from ooc_graph.kernels.common.many.tallies import empty_tallies
from ooc_graph.kernels.cuda.many.search import CREWS, part_dtype
from ooc_graph.model.resources import CUDA
from ooc_graph.runtime.process import threads_here
from ooc_graph.strategies.many.recording import Recording
from ooc_graph.strategies.many.reductions import BEYOND, ON_DEVICE
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray

Rows: TypeAlias = SourceRows | SourceColumns | SourceTallies | SourceParts | SourceNumbers


@dataclass(frozen=True)
class Searches:
    """A search from many sources that is loaded, and the sources that it is asked for.

    Parameters
    ----------
    task
        What is asked of each source.
    search
        The device's search, such as `ooc_graph.kernels.cpu.many.johnson.CpuJohnson`.
    ids
        Id tables.
    positions
        int64 (sources,): positions of the sources among all vertices.
    recording
        Hears of those that are found; None: nothing is recorded.
    room
        (sources, columns): where distances go if nothing else is asked for; None: to new memory.
    told
        Hears of sources that have arcs when the CPU has written their rows to ``room``.
    """

    task: ManyTask
    search: Any
    ids: Ids
    positions: IntArray
    recording: Recording | None = None
    room: AnyArray | None = None
    on_done: OnDone | None = None

    def in_memory(self) -> Rows:
        """What is asked for, with all arcs in memory, or in that of a CUDA device.

        Raises
        ------
        MemoryBudgetError
            The device's memory is too small.
        InputError
            A sum of floats is beyond float64, as the CPU finds it.
        """
        task, asked, is_on_device = self.task, self.task.asked, self.task.device == CUDA
        if asked.hops and (not is_on_device or asked.reduce is not None):
            return self._levels()
        if not asked.hops:
            self.search.expect(task.sources, task.reserved.closing)
        if asked.parents:
            return self._rows()
        if not is_on_device:
            return self._columns(self.room is not None, batch_size=task.lanes)
        return self._reduced() if asked.reduce in ON_DEVICE else self._columns()

    def batch_by_batch(self) -> Rows:
        """The same of a search that does not reduce by itself.

        A batch is reduced before the next is begun.
        """
        asked, lanes = self.task.asked, self.task.lanes
        if asked.reduce is None:
            return self._rows()
        rows = SourceNumbers([None] * len(self.positions))
        on_done = self._on_done_of(rows, of_all=True)
        for part in batches_of(len(self.positions), lanes, on_done):
            batch = self.positions[part]
            answer = self.search.run(internal_ids(self.ids, batch), batch_size=lanes)
            rows.put(part.start, SourceRows(answer, batch, self.ids, asked).reduced(asked.reduce))
        return rows

    def _on_done_of(self, rows: Any, *, of_all: bool = False) -> OnDone | None:
        """What is to hear of the sources of rows; of all, or of those that have arcs."""
        if self.recording is None:
            return None
        is_searched = self.ids.internal_of[self.positions] >= 0
        return self.recording.of(rows, is_searched | of_all)

    def _rows(self, **most: Any) -> SourceRows | SourceColumns:
        """Distances or levels by internal id, and parents if wanted; few columns alone."""
        task, search = self.task, self.search
        if 0 < task.reserved.stretch < len(self.positions):
            return self._few_columns()
        internal = internal_ids(self.ids, self.positions)
        if task.asked.parents:
            answers = search.empty(len(internal))
            rows = SourceRows(answers[0], self.positions, self.ids, task.asked, answers[1])
            search.run_with_parents(
                internal, answers, batch_size=task.lanes, on_done=self._on_done_of(rows)
            )
            return rows
        answer = np.empty((len(internal), search.vertices), search.dtype)
        rows = SourceRows(answer, self.positions, self.ids, task.asked)
        search.run(internal, answer, batch_size=task.lanes, on_done=self._on_done_of(rows), **most)
        return rows

    def _few_columns(self) -> SourceColumns:
        """Distances or levels to the targets; those to all vertices of some sources at a time."""
        task, search, positions = self.task, self.search, self.positions
        assert task.asked.targets is not None
        room = self.room
        if room is None:
            room = np.empty((len(positions), len(task.asked.targets)), search.dtype)
        rows = SourceColumns(room, positions, self.ids, task.asked, is_whole=True)
        # Sources without arcs have their rows when the others searched with them have.
        on_done = self._on_done_of(rows, of_all=True)
        wide: AnyArray = np.empty((task.reserved.stretch, search.vertices), search.dtype)
        for part in batches_of(len(positions), task.reserved.stretch, on_done):
            raise_if_cancelled()
            some = positions[part]
            internal = internal_ids(self.ids, some)
            answer = wide[: len(internal)]
            search.run(internal, answer, batch_size=task.lanes)
            found = SourceRows(answer, some, self.ids, task.asked)
            for row, one in zip(room[part], found, strict=True):
                row[:] = one
        return rows

    def _columns(self, reports: bool = False, **how: Any) -> SourceColumns:
        """Distances, or levels of a device, to what they are asked for to, as a search orders them.

        If there is room these are of all sources in their order, with those without arcs among
        them. ``how`` goes to the search; ``reports`` has it say whose rows are in the room.
        """
        sources, aimed, own, most = self._asked_of_columns()
        at = None
        if self.room is None:
            answer: AnyArray = np.empty((len(sources), len(aimed)), self.search.dtype)
        else:
            answer = self.room
            assert answer.dtype == self.search.dtype
            if len(sources) < len(self.positions):
                at = np.flatnonzero(self.ids.internal_of[self.positions] >= 0)
        is_whole = self.room is not None
        rows = SourceColumns(answer, self.positions, self.ids, self.task.asked, is_whole=is_whole)
        how["on_done"] = self.on_done if reports else self._on_done_of(rows)
        self.search.run_columns(sources, aimed, own, most, answer=answer, at=at, **how)
        rows.fill_isolated(threads_here())
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
        """Reductions; those of all sources at once if nobody is to hear of them before the end."""
        search, asked = self.search, self.task.asked
        sources, aimed, own, most = self._asked_of_columns()
        found = np.zeros(len(sources), part_dtype(search.dtype))
        rows = SourceParts(found, self.positions, self.ids, asked)
        on_done = self._on_done_of(rows)
        if not len(sources):
            # What no source is asked for gets ready for others.
            search.reduce(sources, aimed, own, most)
        length = max(len(sources), 1) if on_done is None else CREWS * self.task.lanes
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
            found = replace(self, positions=some, recording=None, room=None)._columns()
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
            internal, batch_size=self.task.lanes, on_done=self._on_done_of(rows), **counted
        )
        return rows


def internal_ids(ids: Ids, positions: IntArray) -> IntArray:
    """Internal ids of the sources that have arcs, int64, given by positions among all vertices."""
    internal = ids.internal_of[positions]
    found: IntArray = internal[internal >= 0].astype(np.int64)
    return found
