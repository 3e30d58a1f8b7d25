"""Tasks of a build on CUDA devices: vertices are counted and numbered, rows are written.

Each can be done by any process, and again: it finds what is recorded, and writes the same bytes.
A process with a build of its own (``own``) is the caller's; others are workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.build.store_rows import (
    MANY_TUPLES,
    Numbering,
    TupleCount,
    arcs_between,
    arcs_up_to,
    number_vertices,
)
from ooc_graph.kernels.cuda.runtime.modules import device_bytes
from ooc_graph.kernels.cuda.runtime.pinned import pinned_buffer
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.names import shards_for
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_edges import Passed
from ooc_graph.shards.cuda_process import DeviceProcess, maker_of
from ooc_graph.shards.cuda_shard_ranges import Fit, ShardRange
from ooc_graph.shards.cuda_sides import Sides, Written
from ooc_graph.shards.cuda_tables import write_tables
from ooc_graph.shards.cuda_work import (
    DeviceWork,
    Done,
    Numbered,
    documents_of,
    facts_of,
    starts_of,
)
from ooc_graph.shards.cuda_worker import process_for
from ooc_graph.shards.renumber import merge_ids
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.tally import Tally
from ooc_graph.types import Advance, NoProgress, unseen

TABLES = "tables"
"""Name of the checkpoint of the vertices' tables."""

Counted = tuple[Sequence[str], Tally]
"""Files of the ids that tasks counted, and what they counted in all."""


class Noted(NoProgress):
    """Keeps what there is to say."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep a line."""
        self.notes.append(text)


def _done(
    work: DeviceWork, own: DeviceProcess | None, task: Callable[[DeviceProcess], Done]
) -> Done:
    """Carry out a task, and bring what it had to say if nobody saw it."""
    with process_for(work, own) as process:
        if own is not None:
            return own.run(task)
        noted = process.progress = Noted()
        found = process.run(task)
        found.notes = noted.notes
        return found


def open_device() -> None:
    """Refuse a device that cannot be used now."""
    device_bytes()


def number_on_device(
    work: DeviceWork, counted: Counted | None, own: DeviceProcess | None = None
) -> Done:
    """Number the vertices and write their tables, unless that is recorded.

    ``counted`` if ids have gaps; else the device counts. `Numbered.of` reads the checkpoint.
    """
    return _done(work, own, partial(_number, work, counted))


def _number(work: DeviceWork, counted: Counted | None, process: DeviceProcess) -> Done:
    seconds, facts, kept = dict[str, float](), dict[str, Any](), list[Any]()

    def write(folder: Path) -> list[FileEntry]:
        space, degree, total, read_s = _counted(process, folder, counted, seconds)
        begun, sink = perf_counter(), ChunkSink(folder, process.threads, pinned_buffer)
        try:
            numbering, originals = _numbered(process, sink, space, degree)
            rows, shard_arcs = len(numbering.tuples), _shard_arcs(work, numbering)
            sink.finish()
        finally:
            sink.stop()
        figures = {"rows": rows, "arcs": numbering.arcs, "longest": numbering.longest}
        known = figures | {"shard_arcs": shard_arcs, "read_s": read_s}
        facts.update(facts_of(space, total, sink.specs, **known))
        kept.extend([numbering.internal_of, originals])
        seconds["renumber"] = perf_counter() - begun
        return sink.entries

    done = work.checkpoints.once(TABLES, write, facts)
    if kept:
        # Rows are made by the same process, if there are not many.
        process.keep(maker_of(work, work.layout(Numbered.of(done)), *kept))
    return Done(done, seconds)


def _counted(
    process: DeviceProcess, folder: Path, counted: Counted | None, seconds: dict[str, float]
) -> tuple[VertexSpace, list[Any], Tally, float]:
    """The vertices, tuples at each, in a list, and in all; seconds that the device's took to read.

    Degrees travel in a list, so that nobody holds them while vertices are numbered.
    """
    source = process.work.source
    if counted is None:
        assert source.id_range is not None
        return _count(process, VertexSpace(*source.id_range), seconds)
    paths, total = counted
    limit = process.threads.budget.limit_bytes
    space, counts = merge_ids(paths, source, folder, limit)
    if len(counts) and int(counts.max()) >= 1 << 32:
        raise UsageError(MANY_TUPLES)
    # Refuses what does not fit.
    process.planned(space)
    return space, [counts.astype(np.uint32)], total, 0.0


def _count(
    process: DeviceProcess, space: VertexSpace, seconds: dict[str, float]
) -> tuple[VertexSpace, list[Any], Tally, float]:
    """Tuples at each position, counted by the device, and what else this pass found."""
    # Refuses what does not fit, before anything is allocated: a smaller budget ends there.
    process.planned(space)
    begun, count, passed = perf_counter(), TupleCount(space.count), Passed()
    with (
        process.progress.stage("counting degrees", process.work.source.edges, "edges") as bar,
        closing(process.blocks(space, passed)) as blocks,
    ):
        for block in blocks:
            count.add(block)
            bar.advance(len(block))
        degree, passed.total.loops = count.finish()
    seconds["degrees"] = perf_counter() - begun
    return space, [degree], passed.total, passed.read_s


def _numbered(
    process: DeviceProcess, sink: ChunkSink, space: VertexSpace, degree: list[Any]
) -> tuple[Numbering, Any]:
    """Number the vertices and write their tables; original ids stay where they have gaps."""
    with process.progress.stage("renumbering", space.count, "vertices") as bar:
        numbering = number_vertices(degree)
        originals = None
        if space.originals:
            originals = on_device(np.load(space.originals).view(np.uint64))
        write_tables(sink, numbering, space.first, originals)
        bar.advance(space.count)
    process.work.options.require_filled(len(numbering.tuples))
    return numbering, originals


def _shard_arcs(work: DeviceWork, numbering: Numbering) -> list[int]:
    """Tuples at the rows of each shard; those at each row are dropped."""
    rows = len(numbering.tuples)
    starts = starts_of(rows, work.options.shards or shards_for(numbering.arcs))
    tuples, numbering.tuples = [numbering.tuples], None
    ends = arcs_up_to(tuples, on_device(starts[:-1].astype(np.uint32)))
    return arcs_between(ends, starts)


def fit_on_device(work: DeviceWork, numbered: Numbered, own: DeviceProcess | None = None) -> Fit:
    """What a process makes at a time."""
    with process_for(work, own) as process:
        return process.run(lambda one: one.fit(numbered, work.layout(numbered)))


def write_rows(
    work: DeviceWork,
    numbered: Numbered,
    shard_range: ShardRange,
    own: DeviceProcess | None = None,
    advance: Advance = unseen,
) -> Done:
    """Write all rows of some shards, unless that is recorded."""
    return _done(work, own, partial(_write, numbered, shard_range, advance))


def _write(
    numbered: Numbered, shard_range: ShardRange, advance: Advance, process: DeviceProcess
) -> Done:
    work, facts, written = process.work, dict[str, Any](), Written({})
    layout = work.layout(numbered)

    def write(folder: Path) -> list[FileEntry]:
        nonlocal written
        sink = ChunkSink(folder, process.threads, pinned_buffer)
        try:
            sides = Sides(folder, process, numbered, layout, layout.spans(shard_range))
            written = sides.write(sink, advance)
        finally:
            sink.stop()
        rows, specs = layout.rows_of(shard_range), documents_of(sink.specs)
        facts.update(arcs=written.arcs, rows=rows, specs=specs)
        return sink.entries

    done = work.checkpoints.once(shard_range.name, write, facts)
    return Done(done, {"runs": written.run_s} if written.run_bytes else {}, written.run_bytes)
