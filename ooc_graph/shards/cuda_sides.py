"""The rows of all sides of a store: in which ranges, from what, and through whom to the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.cuda.build.gather import CHANGED
from ooc_graph.kernels.cuda.build.store_rows import Numbering, RowMaker, StoreRows, ranges_of
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.layout.commit import Partial
from ooc_graph.shards.build_options import BuildReport
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_edges import DeviceEdges
from ooc_graph.shards.cuda_plan import DevicePlan, runs_pay, wanted_arcs
from ooc_graph.shards.cuda_runs import RunWriter, sorted_runs, write_runs
from ooc_graph.shards.cuda_tables import SideWriter, StoreLayout
from ooc_graph.shards.range_runs import KEY_BYTES, RangeRuns, RunReader, spill_bytes
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import Progress

Range = tuple[int, int, int]
"""First row of a range in store order, the one after the last, and its arcs at most."""
RowSource = Callable[[str, int], StoreRows]
"""Makes the rows of a side's range by its number."""


class RunRows:
    """Rows of each range from what all runs have of it, in the order of the store, once."""

    def __init__(
        self, runs: RangeRuns, reader: RunReader, maker: RowMaker, ranges: list[Range]
    ) -> None:
        self._runs, self._reader, self._maker, self._ranges = runs, reader, maker, ranges

    def rows(self, side: str, number: int) -> StoreRows:
        """Rows of a range; if there are more arcs than were counted, that is an `InputError`."""
        low, high, most = self._ranges[number]
        return self._maker.made(high - low, self._read(side, number, low, most))

    def _read(self, side: str, number: int, low: int, most: int) -> list[Any]:
        """Keys, rows counted from ``low``, and words, as the runs follow each other."""
        cupy, arcs, done = cuda(), self._runs.arcs(side, number), 0
        if arcs > most:
            raise InputError(CHANGED)
        keys = cupy.empty(arcs, np.uint64)
        words = None if self._runs.word is None else cupy.empty(arcs, self._runs.word)
        for some, beside in self._reader.pieces(side, number):
            part = slice(done, done + len(some))
            keys[part].set(some)
            if words is not None:
                words[part].set(beside)
            done += len(some)
            # The piece is in ordinary memory, which is gone then.
            cupy.cuda.get_current_stream().synchronize()
        keys -= np.uint64(low << 32)
        return [keys, words]


@dataclass(frozen=True)
class Sides:
    """Makes and writes the rows of a build."""

    partial: Partial
    sink: ChunkSink
    workforce: Workforce
    progress: Progress
    report: BuildReport
    layout: StoreLayout
    plan: DevicePlan
    edges: DeviceEdges
    maker: RowMaker

    def write(self, numbering: Numbering) -> dict[str, int]:
        """Write all rows; arcs of each side. The ``tuples`` of the numbering are dropped."""
        most, run_edges = self._range_arcs(numbering)
        ranges = ranges_of(numbering, self.maker.starts, most)
        with self._row_source(ranges, run_edges) as source:
            return self._write(ranges, source)

    def _range_arcs(self, numbering: Numbering) -> tuple[int, int]:
        """Arcs of a range, and tuples of a sorted run; 0 where each range has a pass of its own."""
        layout, edges, longest, arcs = self.layout, self.edges, numbering.longest, numbering.arcs
        sizes = (arcs, longest, layout.weight_bytes, layout.shards, edges.block_edges)
        fit = self.plan.range_arcs(*sizes, kept=True)
        if not fit:
            edges.forget()
            fit = self.plan.range_arcs(*sizes, kept=False)
        most = min(fit, max(longest, wanted_arcs(arcs, cheap=edges.cheap)))
        run_edges = self._run_edges(arcs, most)
        if run_edges:
            # Further ranges cost nothing then.
            most = min(fit, max(longest, wanted_arcs(arcs, cheap=True)))
        return most, run_edges

    def _run_edges(self, arcs: int, most: int) -> int:
        """Tuples of a sorted run; 0 where a pass for each range is better, or all that can be."""
        layout, edges = self.layout, self.edges
        passes = -(-arcs // most) * len(layout.sides) if arcs else 0
        run_edges = self.plan.run_edges(layout.weight_bytes, layout.shards, edges.block_edges)
        pay = runs_pay(passes, edges.pass_bytes, KEY_BYTES + layout.weight_bytes)
        if not (pay and run_edges):
            return 0
        needed = spill_bytes(arcs, layout.weight_bytes)
        free = shutil.disk_usage(self.partial.spill).free
        if needed > free:
            self.progress.note(
                f"sorted runs need {needed:,} bytes, and the disk has {free:,} left: the edges are "
                f"read once for each range of rows, about {passes:,} times"
            )
            return 0
        return run_edges

    @contextmanager
    def _row_source(self, ranges: list[Range], run_edges: int) -> Iterator[RowSource]:
        """Context in which rows are made: of runs if these have tuples, else by passes."""
        layout, maker = self.layout, self.maker

        def by_pass(side: str, number: int) -> StoreRows:
            with closing(self.edges.blocks()) as blocks:
                return maker.rows(blocks, layout.sides[side], *ranges[number])

        if not run_edges:
            yield by_pass
            return
        runs = self._runs(ranges, run_edges)
        # What was copied there is not read again, and the rows will need the space.
        shutil.rmtree(self.partial.spill / "staged", ignore_errors=True)
        order = [(side, number) for side in layout.sides for number in range(len(ranges))]
        reader = RunReader(runs, self.workforce, order)
        try:
            yield RunRows(runs, reader, maker, ranges).rows
        finally:
            reader.stop()

    def _runs(self, ranges: list[Range], run_edges: int) -> RangeRuns:
        """One pass over the tuples, whose arcs are sorted and written."""
        layout, folder = self.layout, self.partial.spill / "runs"
        folder.mkdir(exist_ok=True)
        runs = RangeRuns(folder, [low for low, _, _ in ranges], self.maker.word)
        with (
            self.report.timed("runs"),
            self.progress.stage("sorting into runs", layout.source.edges, "edges") as bar,
            closing(self.edges.blocks()) as blocks,
            closing(RunWriter(runs, self.workforce.budget)) as writer,
        ):
            found = sorted_runs(blocks, self.maker, layout.sides, layout.rows, run_edges)
            write_runs(found, writer, bar)
        self.report.run_bytes = runs.written_bytes
        return runs

    def _write(self, ranges: list[Range], source: RowSource) -> dict[str, int]:
        """Make and write the rows of all sides; arcs of each."""
        layout, arcs = self.layout, dict[str, int]()
        rows = layout.rows * len(layout.sides)
        columns = (layout.orders, layout.starts, layout.weight_dtype, layout.packings)
        with (
            self.report.timed("rows"),
            self.progress.stage("sorting and writing rows", rows, "rows") as bar,
        ):
            for side in layout.sides:
                writer = SideWriter(self.sink, side, *columns)
                for number, (low, high, _) in enumerate(ranges):
                    found = source(side, number)
                    writer.add(low, high, found)
                    # Before the next ones are made: both together would not fit.
                    del found
                    bar.advance(high - low)
                writer.finish()
                arcs[side] = writer.arcs
            self.sink.finish()
        return arcs
