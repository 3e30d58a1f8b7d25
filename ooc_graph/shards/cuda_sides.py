"""The rows of some shards of a store: in which ranges, from what, and through whom to the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.errors import InputError
from ooc_graph.kernels.cuda.build.gather import CHANGED
from ooc_graph.kernels.cuda.build.store_rows import RowMaker, StoreRows, arcs_up_to, ranges_of
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.layout.names import TUPLES
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_process import DeviceProcess
from ooc_graph.shards.cuda_runs import RunWriter, sorted_runs, write_runs
from ooc_graph.shards.cuda_shard_ranges import Fit, Span
from ooc_graph.shards.cuda_tables import SideWriter, StoreLayout
from ooc_graph.shards.cuda_work import Numbered
from ooc_graph.shards.range_runs import RangeRuns, RunReader, spill_bytes
from ooc_graph.types import Advance

Range = tuple[int, int, int]
"""First row of a range in store order, the one after the last, and its arcs at most."""
RowSource = Callable[[str, int], StoreRows]
"""Makes the rows of a side's range by its number."""


class RunRows:
    """Rows of each range from what all runs have of it, in the order of the store, once."""

    def __init__(
        self, runs: RangeRuns, reader: RunReader, maker: RowMaker, ranges: dict[str, list[Range]]
    ) -> None:
        self._runs, self._reader, self._maker, self._ranges = runs, reader, maker, ranges

    def rows(self, side: str, number: int) -> StoreRows:
        """Rows of a range; if there are more arcs than were counted, that is an `InputError`."""
        low, high, most = self._ranges[side][number]
        return self._maker.made(high - low, self._read(side, number, most))

    def _read(self, side: str, number: int, most: int) -> list[Any]:
        """Keys, rows counted from the range's first, and words, as the runs follow each other."""
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
        keys -= np.uint64(self._runs.lows[side][number] << 32)
        return [keys, words]


@dataclass(frozen=True)
class Written:
    """Arcs of each side that were written; and bytes of sorted runs, and the seconds these took."""

    arcs: dict[str, int]
    run_bytes: int = 0
    run_s: float = 0.0


@dataclass(frozen=True)
class Sides:
    """Makes and writes the rows of some shards of each side, in the process that has them."""

    folder: Path  # where chunks go, and sorted runs meanwhile
    process: DeviceProcess
    numbered: Numbered
    layout: StoreLayout
    spans: Sequence[Span]

    def write(self, sink: ChunkSink, advance: Advance) -> Written:
        """Write all rows. ``advance`` hears of how many."""
        fit, begun, run_bytes, run_s = self._fit, perf_counter(), 0, 0.0
        share = self._arcs / max(1, self.numbered.arcs * len(self.layout.sides))
        in_runs = fit.runs_pay(fit.passes(self._span_arcs), share) and self._has_space(fit, share)
        ranges = self._ranges(fit, fit.from_runs if in_runs else fit.by_pass)
        if not in_runs:
            return Written(self._write(sink, ranges, self._by_pass(ranges), advance))
        runs = self._runs(ranges, fit.run_edges)
        run_bytes, run_s = runs.written_bytes, perf_counter() - begun
        order = [(side, number) for side in ranges for number in range(len(ranges[side]))]
        reader = RunReader(runs, self.process.threads, order)
        try:
            rows = RunRows(runs, reader, self._maker, ranges).rows
            return Written(self._write(sink, ranges, rows, advance), run_bytes, run_s)
        finally:
            reader.stop()

    @property
    def _fit(self) -> Fit:
        return self.process.fit(self.numbered, self.layout)

    @property
    def _maker(self) -> RowMaker:
        return self.process.maker(self.numbered, self.layout)

    @property
    def _span_arcs(self) -> list[int]:
        return [sum(self.numbered.shard_arcs[low:high]) for _, low, high in self.spans]

    @property
    def _arcs(self) -> int:
        return sum(self._span_arcs)

    def _has_space(self, fit: Fit, share: float) -> bool:
        """Whether the disk has space for so large a part of all arcs, in runs."""
        needed = int(spill_bytes(self.numbered.arcs, self.layout.weight_bytes) * share)
        # Others write their runs to the same disk meanwhile.
        free = shutil.disk_usage(self.folder).free // self.process.work.processes
        if needed > free:
            passes = fit.passes(self._span_arcs)
            self.process.progress.note(
                f"sorted runs need {needed:,} bytes, and the disk has {free:,} left for them: the "
                f"edges are read once for each range of rows, about {passes:,} times"
            )
        return needed <= free

    def _ranges(self, fit: Fit, wanted: int) -> dict[str, list[Range]]:
        """Ranges of rows of each side, of so many arcs or a bit more."""
        starts, found, ends = self.layout.starts, dict[str, list[Range]](), None
        for (side, first, stop), arcs in zip(self.spans, self._span_arcs, strict=True):
            low, high = int(starts[first]), int(starts[stop])
            most = fit.range_arcs(arcs, wanted)
            if arcs <= most:
                found[side] = [(low, high, arcs)] if high > low else []
                continue
            if ends is None:
                tuples = [self.process.table(self.numbered.tables[TUPLES], np.uint32)]
                ends = arcs_up_to(tuples, self._maker.starts)
            found[side] = ranges_of(ends, low, high, most)
        return found

    def _by_pass(self, ranges: dict[str, list[Range]]) -> RowSource:
        """Rows by a pass over the tuples for each range."""

        def rows(side: str, number: int) -> StoreRows:
            with closing(self.process.blocks(self.numbered.space)) as blocks:
                return self._maker.rows(blocks, self.layout.sides[side], *ranges[side][number])

        return rows

    def _runs(self, ranges: dict[str, list[Range]], run_edges: int) -> RangeRuns:
        """One pass over the tuples, whose arcs are sorted and written."""
        layout, folder = self.layout, self.folder / "runs"
        folder.mkdir()
        sides, lows = {}, {}
        for side, first, stop in self.spans:
            low, high = int(layout.starts[first]), int(layout.starts[stop])
            sides[side] = layout.sides[side], low, high
            lows[side] = [begin - low for begin, _, _ in ranges[side]]
        runs = RangeRuns(folder, lows, self._maker.word)
        with (
            self.process.progress.stage("sorting into runs", layout.source.edges, "edges") as bar,
            closing(self.process.blocks(self.numbered.space)) as blocks,
            closing(RunWriter(runs, self.process.threads.budget)) as writer,
        ):
            write_runs(sorted_runs(blocks, self._maker, sides, run_edges), writer, bar)
        return runs

    def _write(
        self,
        sink: ChunkSink,
        ranges: dict[str, list[Range]],
        source: RowSource,
        advance: Advance,
    ) -> dict[str, int]:
        """Make and write the rows of all sides; arcs of each."""
        layout, arcs = self.layout, dict[str, int]()
        columns = (layout.orders, layout.starts, layout.weight_dtype, layout.packings)
        for side, first, stop in self.spans:
            writer = SideWriter(sink, side, *columns, (first, stop))
            for number, (low, high, _) in enumerate(ranges[side]):
                self.process.work.require_going_on()
                found = source(side, number)
                writer.add(low, high, found)
                # Before the next ones are made: both together would not fit.
                del found
                advance(high - low)
            writer.finish()
            arcs[side] = writer.arcs
        sink.finish()
        return arcs
