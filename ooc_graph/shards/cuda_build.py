"""Edges -> a committed graph store on a CUDA device, with the bytes of the CPU's build.

Two passes over the tuples. The first counts them at each vertex and numbers the vertices. The
second is made once for each range of rows: the arcs of these rows are gathered, sorted and cut of
duplicates on the device. Where many passes would cost more, one pass writes the arcs of all ranges
to the disk, in sorted runs, and each range gathers its own from these. Ranges follow the order of
the store, shard by shard, so that whole shards share a range, or ranges a shard, as memory allows.
Threads write chunks meanwhile.
"""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import MemoryBudgetError, UsageError
from ooc_graph.kernels.cuda.build.store_rows import (
    MANY_TUPLES,
    Numbering,
    RowMaker,
    TupleCount,
    number_vertices,
)
from ooc_graph.kernels.cuda.runtime.modules import (
    cuda,
    device_bytes,
    forget_frames,
    is_of_host,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.pinned import free_pinned, pinned_buffer
from ooc_graph.kernels.cuda.runtime.pool import own_pool
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.layout.commit import Partial
from ooc_graph.layout.names import LIGHT, shards_for
from ooc_graph.shards.build import Build
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_edges import (
    ID_BYTES,
    MOST_GENERATED,
    MOST_READ,
    DeviceEdges,
    Generated,
    HostRead,
    Passed,
)
from ooc_graph.shards.cuda_plan import DevicePlan, usable_bytes, within_pages
from ooc_graph.shards.cuda_sides import Sides
from ooc_graph.shards.cuda_tables import StoreLayout, write_tables
from ooc_graph.shards.renumber import merge_ids
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.tally import Tally, stored_weight_dtype
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import Progress, rows_of_shard

SMALLER = 3, 4
"""What part of the memory a build goes on within that the device refused."""


def build_into(
    partial: Partial,
    source: EdgeSource,
    *,
    options: BuildOptions,
    workforce: Workforce,
    progress: Progress,
    device_memory_bytes: int | None = None,
) -> BuildReport:
    """Build the store of a graph on the current CUDA device, and commit it.

    The store, ``partial``, is begun, perhaps by another process; its bytes are those of the CPU's
    build. A source with a method ``generate_into`` (`ooc_graph.edges.kronecker.Kronecker`) has the
    device make its edges; others are read by threads and copied. ``device_memory_bytes`` is the
    device memory to use (None: nearly all that is free). Give it if an allocator of its own (RMM)
    holds the memory, which then seems to be in use.

    It refuses (`UsageError`) what `ooc_graph.shards.build.build` does, more than `MOST_ROWS`
    vertices, and 2**32 tuples at a vertex. If the device refuses memory, the build begins again
    within less, as long as its edges can be read again; the least that will do is 24 bytes a
    vertex, and 12 (4 if ids have no gaps) with 48 to 80 for each arc of the longest row. Other
    errors are those of the CPU's build; nothing of the store is kept then.
    """
    cuda()
    report = BuildReport()
    if device_memory_bytes is None:
        limit = usable_bytes(device_bytes()[0])
    else:
        limit = within_pages(device_memory_bytes)
    with within_memory("the build of this store"), own_pool(device_memory_bytes):
        try:
            DeviceBuild(partial, workforce, progress, report, options, limit).run(source)
        finally:
            free_pinned()
    return report


@dataclass(frozen=True)
class DeviceBuild(Build):
    """One build, within a limit of device memory."""

    limit_bytes: int

    def _run(self, source: EdgeSource, description: Future[dict[str, Any]]) -> None:
        ids = None if source.id_range is not None else self._count_ids(source)
        staged = self.partial.spill / "staged"
        was_staged, build, refused = staged.exists(), self, None
        counted = len(self.report.stages)
        while True:
            sink = ChunkSink(self.partial.folder, self.workforce, pinned_buffer)
            try:
                layout, arcs = build._attempt(sink, source, ids)
                break
            except MemoryError as error:  # CuPy's own is one; its sort raises the plain one
                if is_of_host(error):
                    raise
                forget_frames(error)
                refused = error
            except MemoryBudgetError:
                # Of a plan: what is there may be less than what was asked for by now.
                if refused is None:
                    raise
                raise refused from None
            finally:
                sink.stop()
            if was_staged and not staged.exists():
                raise refused  # The edges cannot be read again.
            self._remove_rows(counted)
            build = replace(build, limit_bytes=build.limit_bytes * SMALLER[0] // SMALLER[1])
            self.progress.note(
                f"memory was refused while the store was built ({refused}): it is begun again "
                f"within {build.limit_bytes:,} bytes of the device's"
            )
        self._finish(sink, layout, arcs, description.result())

    def _remove_rows(self, stages: int) -> None:
        """Remove all that an attempt has written, and said beside the first so many stages."""
        del self.report.stages[stages:]
        self.report.run_bytes = 0
        for path in (*self.partial.folder.iterdir(), self.partial.spill / "runs"):
            if path != self.partial.spill:
                shutil.rmtree(path, ignore_errors=True)

    def _attempt(
        self,
        sink: ChunkSink,
        source: EdgeSource,
        ids: tuple[VertexSpace, Path, Tally] | None,
    ) -> tuple[StoreLayout, dict[str, int]]:
        """Write all rows; what they are, and the arcs of each side."""
        # Degrees travel in a list, so that nobody holds them while rows are made.
        if ids is None:
            assert source.id_range is not None
            space = VertexSpace(*source.id_range)
            plan, edges = self._planned(source, space)
            degree, total = self._degrees(source, edges, space)
        else:
            space, counted, total = ids
            plan, edges = self._planned(source, space)
            degree = [np.load(counted)]
        numbering, originals = self._number(sink, space, degree)
        layout = self._layout(source, space, total, numbering)
        maker = RowMaker(
            numbering.internal_of,
            originals,
            cuda().asarray(layout.starts[:-1].astype(np.uint32)),
            None if layout.weight_dtype is None else source.weight_dtype,
            layout.weight_dtype,
        )
        arcs = Sides(
            self.partial,
            sink,
            self.workforce,
            self.progress,
            self.report,
            layout,
            plan,
            edges,
            maker,
        ).write(numbering)
        return layout, arcs

    def _count_ids(self, source: EdgeSource) -> tuple[VertexSpace, Path, Tally]:
        """The vertices that edges or lists name; a file of their degrees; what was counted."""
        paths, total = self._count(source)
        limit = self.workforce.budget.limit_bytes
        space, counts = merge_ids(paths, source, self.partial.spill, limit)
        if len(counts) and int(counts.max()) >= 1 << 32:
            raise UsageError(MANY_TUPLES)
        degrees = self.partial.spill / "degrees.npy"
        np.save(degrees, counts.astype(np.uint32))
        return space, degrees, total

    def _planned(self, source: EdgeSource, space: VertexSpace) -> tuple[DevicePlan, DeviceEdges]:
        weighted = LIGHT in self.options.orders(source.weighted)
        made = hasattr(source, "generate_into")
        weight_bytes = source.weight_dtype.itemsize if weighted and source.weight_dtype else 0
        plan = DevicePlan(
            self.limit_bytes,
            space.count,
            bool(space.originals),
            2 * ID_BYTES[made] + weight_bytes,
            None if made else source.edges,
        )
        if made:
            return plan, Generated(source, weighted, plan.block_edges(MOST_GENERATED))
        first = 0 if space.originals else space.first
        most = plan.block_edges(MOST_READ)
        return plan, HostRead(source, self.workforce, first, weighted, most, plan.keep)

    def _degrees(
        self, source: EdgeSource, edges: DeviceEdges, space: VertexSpace
    ) -> tuple[list[Any], Tally]:
        """Tuples at each position, and what the first pass counted."""
        count, passed = TupleCount(space.count), Passed()
        with (
            self.report.timed("degrees"),
            self.progress.stage("counting degrees", source.edges, "edges") as bar,
            closing(edges.blocks(passed)) as blocks,
        ):
            for block in blocks:
                count.add(block)
                bar.advance(len(block))
            degree, passed.total.loops = count.finish()
        self.report.edges, self.report.read_s = passed.total.edges, passed.read_s
        return [degree], passed.total

    def _number(
        self, sink: ChunkSink, space: VertexSpace, degree: list[Any]
    ) -> tuple[Numbering, Any]:
        """Number the vertices and write their tables; original ids stay where they have gaps."""
        with (
            self.report.timed("renumber"),
            self.progress.stage("renumbering", space.count, "vertices") as bar,
        ):
            numbering = number_vertices(degree)
            originals = None
            if space.originals:
                originals = on_device(np.load(space.originals).view(np.uint64))
            write_tables(sink, numbering, space.first, originals)
            bar.advance(space.count)
        return numbering, originals

    def _layout(
        self, source: EdgeSource, space: VertexSpace, total: Tally, numbering: Numbering
    ) -> StoreLayout:
        orders = self.options.orders(source.weighted)
        rows = len(numbering.tuples)
        self.options.require_filled(rows)
        shards = self.options.shards or shards_for(numbering.arcs)
        lengths = [rows_of_shard(rows, shards, shard) for shard in range(shards)]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        dtype = stored_weight_dtype(source, total) if LIGHT in orders else None
        packings = self.options.packings(rows, numbering.arcs, dtype, total)
        return StoreLayout(source, space, total, orders, dtype, starts, packings)

    def _finish(
        self,
        sink: ChunkSink,
        layout: StoreLayout,
        arcs: dict[str, int],
        description: dict[str, Any],
    ) -> None:
        self.report.arcs = sum(arcs.values())
        with self.report.timed("commit"):
            self.report.manifest = self.partial.commit(
                "graph",
                layout.attributes(arcs, description),
                sink.specs,
                sink.entries,
            )
