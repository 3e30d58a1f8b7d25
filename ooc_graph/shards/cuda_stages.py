"""Stages of a build on a CUDA device: vertices are counted and numbered, all rows are written."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import UsageError
from ooc_graph.kernels.cuda.build.store_rows import (
    MANY_TUPLES,
    Numbering,
    RowMaker,
    TupleCount,
    number_vertices,
)
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.layout.names import LIGHT, shards_for
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
from ooc_graph.shards.cuda_plan import DevicePlan
from ooc_graph.shards.cuda_sides import Sides
from ooc_graph.shards.cuda_tables import StoreLayout, write_tables
from ooc_graph.shards.input_stages import InputStages
from ooc_graph.shards.renumber import merge_ids
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.tally import Tally, stored_weight_dtype
from ooc_graph.types import rows_of_shard


@dataclass(frozen=True)
class DeviceStages(InputStages):
    """The stages of one attempt, within a limit of device memory."""

    limit_bytes: int

    def attempt(
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
        shared = self.partial, sink, self.workforce, self.progress, self.report
        arcs = Sides(*shared, layout, plan, edges, maker).write(numbering)
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
