"""Edges -> a committed graph store on CUDA devices, with the bytes of the CPU's build.

One process counts the tuples at each vertex, numbers the vertices and writes their tables. Then
whole shards are dealt to all processes. Each of them makes passes over the tuples: the arcs of a
range of rows are gathered, sorted and cut of duplicates on the device, while threads write chunks.
Where many passes would cost more, one pass writes the arcs of the rows to the disk, in sorted runs,
and each range gathers its own from these. What is written is recorded, task by task.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.checkpoints import Checkpoint, NoCheckpoints
from ooc_graph.layout.commit import Partial
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.cuda_process import DeviceProcess
from ooc_graph.shards.cuda_shard_ranges import PREFIX, ShardRange, apart, dealt, shard_ranges_of
from ooc_graph.shards.cuda_stages import (
    TABLES,
    fit_on_device,
    number_on_device,
    write_rows,
)
from ooc_graph.shards.cuda_tables import StoreLayout
from ooc_graph.shards.cuda_work import DeviceWork, Done, Numbered, specs_of
from ooc_graph.shards.cuda_worker import forget_idle
from ooc_graph.shards.input_stages import InputStages
from ooc_graph.shards.workforce import Workforce, in_turn, run_all
from ooc_graph.types import NoProgress, Progress, unseen

Given = ParamSpec("Given")
Found = TypeVar("Found")


def build_into(
    partial: Partial,
    source: EdgeSource,
    *,
    options: BuildOptions,
    workforce: Workforce,
    progress: Progress,
    device_memory_bytes: int | None = None,
    host_bytes: int | None = None,
    others_bytes: int | None = None,
    on_host: int = 1,
) -> BuildReport:
    """Build the store of a graph on CUDA devices, and commit it.

    On that of each process of the ``workforce``, or on the current one if it has this process
    alone. The store, ``partial``, is begun; its bytes are those of the CPU's build. If it has
    checkpoints, what they record is not done again. A source with a method ``generate_into``
    (`ooc_graph.edges.kronecker.Kronecker`) has devices make its edges; others are read by threads
    and copied. ``device_memory_bytes`` are of each process (None: nearly all that is free),
    never more than are free, unless an allocator of its own (RMM) has them.
    ``host_bytes`` are of each process, if not all that the workforce may use is one's; as many as
    ``on_host`` of them share the cores of a host. ``others_bytes`` of a device are in use by others
    (None: what is in use when a process begins).

    It refuses (`UsageError`) what `ooc_graph.shards.build.build` does, more than `MOST_ROWS`
    vertices, and 2**32 tuples at a vertex. If a device refuses memory, its process begins its task
    again within less; the least that will do is 24 bytes a vertex, and 12 (4 if ids have no gaps)
    with 48 to 80 for each arc of the longest row. Other errors are those of the CPU's build.
    """
    report = BuildReport()
    given = partial, workforce, progress, report, options
    host_bytes = workforce.budget.limit_bytes if host_bytes is None else host_bytes
    shares = device_memory_bytes, host_bytes, workforce.budget.processes, on_host, others_bytes
    DeviceBuild(*given, shares).run(source)
    return report


@dataclass(frozen=True)
class DeviceBuild(InputStages):
    """The stages of one build on the devices of all processes."""

    shares: tuple[int | None, int, int, int, int | None]  # as `DeviceWork` has them

    @property
    def _device_workforce(self) -> Workforce:
        """Who does tasks on devices: workers; or this thread, as the caller chose its device."""
        executor = self.workforce.executor if self.workforce.remote else AtOnce()
        return replace(self.workforce, executor=executor, on_error=self._end)

    def _end(self) -> None:
        """Have tasks that run on workers end at their next block, and write nothing more."""
        if self.partial.checkpoints is not None:
            with suppress(OSError):
                self.partial.checkpoints.end()

    def forget(self) -> None:
        """Have all processes of the workforce give memory back, also that of their devices."""
        super().forget()
        if self.workforce.remote:
            self.workforce.everywhere(forget_idle)

    def _run(self, source: EdgeSource, description: Future[dict[str, Any]]) -> None:
        checkpoints = self.partial.checkpoints
        work = DeviceWork(
            source,
            self.options,
            NoCheckpoints(self.partial.folder) if checkpoints is None else checkpoints,
            uuid.uuid4().hex,
            *self.shares,
        )
        given = self._device_workforce, description
        if self.workforce.remote:
            self._stages(work, None, *given)
            return
        own = DeviceProcess(work, self.workforce, self.progress)
        try:
            self._stages(work, own, *given)
        finally:
            own.close()

    def _stages(
        self,
        work: DeviceWork,
        own: DeviceProcess | None,
        workforce: Workforce,
        description: Future[dict[str, Any]],
    ) -> None:
        tables = self._number(work, own, workforce)
        numbered = Numbered.of(tables)
        layout = work.layout(numbered)
        written = self._write(work, numbered, layout, own, workforce)
        of_parts = [part.facts["arcs"] for part in written]
        arcs = {side: sum(some.get(side, 0) for some in of_parts) for side in layout.sides}
        (described,) = in_turn(self.workforce, [description])
        parts = tables, *written
        self._commit_store(
            layout.attributes(arcs, described.result()),
            arcs,
            [spec for part in parts for spec in specs_of(part)],
            [entry for part in parts for entry in part.entries],
        )

    def _number(
        self, work: DeviceWork, own: DeviceProcess | None, workforce: Workforce
    ) -> Checkpoint:
        """The tables of the vertices, written by one process."""
        checkpoints, counted = self.partial.checkpoints, None
        is_done = checkpoints is not None and checkpoints.found(TABLES) is not None
        if work.source.id_range is None and not is_done:
            counted = self._count(work.source)
        # A task of this thread shows its stages itself.
        given = workforce, self.progress if own is None else NoProgress(), "numbering vertices"
        (done,) = run_all(*given, number_on_device, [(work, counted, own)])
        self._hear(done)
        self.report.add(done.seconds)
        self.report.edges = int(done.checkpoint.facts["total"]["edges"])
        if work.source.id_range is not None:
            self.report.read_s = done.checkpoint.facts["read_s"]
        return done.checkpoint

    def _write(
        self,
        work: DeviceWork,
        numbered: Numbered,
        layout: StoreLayout,
        own: DeviceProcess | None,
        workforce: Workforce,
    ) -> list[Checkpoint]:
        """All rows, written by all processes; what is recorded is taken as it is."""
        given = workforce, NoProgress(), ""
        (fit,) = run_all(*given, fit_on_device, [(work, numbered, own)])
        found, processes = self._recorded(), workforce.budget.processes
        tasks = dealt(numbered.shard_arcs, [*layout.sides], found, fit, processes)
        begun, rows = perf_counter(), sum(layout.rows_of(task) for task in tasks)
        with self.progress.stage("sorting and writing rows", rows, "rows") as bar:

            def advance(done: Done) -> int:
                self._hear(done)
                # Tasks of this thread do so themselves, range by range.
                if own is None:
                    bar.advance(done.checkpoint.facts["rows"])
                return 0

            show = unseen if own is None else bar.advance
            items = [(work, numbered, task, own, show) for task in tasks]
            written = run_all(*given, write_rows, items, amount=advance)
        self.report.run_bytes = sum(done.run_bytes for done in written)
        runs_s = max((done.seconds.get("runs", 0.0) for done in written), default=0.0)
        rows_s = perf_counter() - begun - runs_s
        self.report.add({"runs": runs_s, "rows": rows_s} if runs_s else {"rows": rows_s})
        return [*found.values(), *(done.checkpoint for done in written)]

    def _recorded(self) -> dict[ShardRange, Checkpoint]:
        """Rows that an earlier attempt has written, and that are there."""
        checkpoints = self.partial.checkpoints
        if checkpoints is None:
            return {}
        recorded = shard_ranges_of(checkpoints.names(PREFIX))
        found = {some: checkpoints.found(some.name) for some in recorded}
        there = {some: one for some, one in found.items() if one is not None}
        return {some: there[some] for some in apart(there)}

    def _hear(self, done: Done) -> None:
        for note in done.notes:
            self.progress.note(note)


class AtOnce(Executor):
    """Makes calls when they are given to it, in the thread that does so; errors are its own."""

    def submit(
        self, fn: Callable[Given, Found], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Found]:
        """Make a call."""
        future = Future[Found]()
        future.set_result(fn(*args, **kwargs))
        return future
