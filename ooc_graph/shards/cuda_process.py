"""What a process keeps of a build between its tasks: a share of its device, tables, tuples."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any, TypeVar

import numpy as np

from ooc_graph.errors import DeviceBusyError, MemoryBudgetError
from ooc_graph.kernels.cuda.build.gather import DeviceBlock
from ooc_graph.kernels.cuda.build.store_rows import RowMaker
from ooc_graph.kernels.cuda.runtime.modules import (
    cuda,
    device_bytes,
    forget_frames,
    free_unused,
    is_of_host,
    is_plain_pool,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.pool import allocating, pool_within
from ooc_graph.layout.chunks import read_chunk
from ooc_graph.layout.names import INTERNAL_OF, ORIGINALS
from ooc_graph.shards.cuda_edges import (
    ID_BYTES,
    MOST_GENERATED,
    MOST_READ,
    DeviceEdges,
    Generated,
    HostRead,
    Passed,
)
from ooc_graph.shards.cuda_plan import DevicePlan, usable_bytes, wanted_arcs, within_pages
from ooc_graph.shards.cuda_shard_ranges import Fit
from ooc_graph.shards.cuda_tables import StoreLayout
from ooc_graph.shards.cuda_work import DeviceWork, Numbered, StoredTable
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.range_runs import KEY_BYTES
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.workforce import Workforce
from ooc_graph.threads import Threads, cores
from ooc_graph.types import NoProgress, Progress

SMALLER = 3, 4
"""What part of the refused memory a task continues within."""
# A device of which others have more than one part in so many is not at our disposal.
_OTHERS_PART = 4

Found = TypeVar("Found")


class DeviceProcess:
    """A process, or a calling thread with ``threads`` of its own, and its device in one build.

    Everything on the device is loaded again if memory was refused. ``limit_bytes`` are those of the
    device that it plans for.
    """

    def __init__(
        self, work: DeviceWork, threads: Workforce | None = None, progress: Progress | None = None
    ) -> None:
        self.work, self.progress = work, progress or NoProgress()
        free, self._total = device_bytes()
        self._others = self._total - free if work.others_bytes is None else work.others_bytes
        allowed = work.device_bytes
        # An allocator of its own (RMM) holds what seems to be in use.
        if allowed is not None and is_plain_pool():
            allowed = min(allowed, usable_bytes(free))
        self.limit_bytes = usable_bytes(free) if allowed is None else within_pages(allowed)
        self._pool = pool_within(allowed)
        self._own_threads: Threads | None = None
        if threads is None:
            count = max(1, cores() // work.on_host)
            self._own_threads = Threads(count, thread_name_prefix="ooc-graph")
            budget = BuildBudget(work.host_bytes, 1, count)
            threads = Workforce(self._own_threads, budget, lambda function: function())
        self.threads = threads
        self._planned: tuple[DevicePlan, DeviceEdges] | None = None
        self._maker: RowMaker | None = None

    def run(self, task: Callable[[DeviceProcess], Found]) -> Found:
        """Carry out a task; again within less if the device refuses memory.

        MemoryBudgetError: more is needed than there is, or the least is refused; if others use much
        of the device then, that is a DeviceBusyError.
        """
        try:
            with within_memory("the build of this store"), allocating(self._pool):
                return self._within_less(task)
        except MemoryBudgetError as error:
            # What a plan needs may be more than the device ever has.
            is_refused = isinstance(error.__cause__, MemoryError)
            if is_refused and self._others * _OTHERS_PART > self._total:
                raise DeviceBusyError(
                    f"{error}; others use {self._others:,} of the device's {self._total:,} bytes: "
                    "try again when they are done"
                ) from error
            raise
        except BaseException as error:
            forget_frames(error)
            raise

    def _within_less(self, task: Callable[[DeviceProcess], Found]) -> Found:
        refused: MemoryError | None = None
        while True:
            try:
                return task(self)
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
            self.forget()
            self.limit_bytes = self.limit_bytes * SMALLER[0] // SMALLER[1]
            self.progress.note(
                f"memory was refused while the store was built ({refused}): this part of it is "
                f"begun again within {self.limit_bytes:,} bytes of the device's"
            )

    def planned(self, space: VertexSpace) -> tuple[DevicePlan, DeviceEdges]:
        """What it may hold of this graph, and the tuples."""
        if self._planned is not None:
            return self._planned
        source, weighted = self.work.source, self.work.weighted
        made = hasattr(source, "generate_into")
        weight_bytes = source.weight_dtype.itemsize if weighted and source.weight_dtype else 0
        plan = DevicePlan(
            self.limit_bytes,
            space.count,
            bool(space.originals),
            2 * ID_BYTES[made] + weight_bytes,
            None if made else source.edges,
        )
        edges: DeviceEdges
        if made:
            edges = Generated(source, weighted, plan.block_edges(MOST_GENERATED))
        else:
            first = 0 if space.originals else space.first
            most = plan.block_edges(MOST_READ)
            edges = HostRead(source, self.threads, first, weighted, most, plan.keep)
        self._planned = plan, edges
        return self._planned

    def blocks(
        self, space: VertexSpace, passed: Passed | None = None
    ) -> Generator[DeviceBlock, None, None]:
        """All tuples, as `cuda_edges` gives them, as long as the attempt goes on."""
        with closing(self.planned(space)[1].blocks(passed)) as blocks:
            for block in blocks:
                self.work.require_going_on()
                yield block

    def fit(self, numbered: Numbered, layout: StoreLayout) -> Fit:
        """What the device makes at a time; tuples that stay there are dropped if they must be."""
        plan, edges = self.planned(numbered.space)
        arcs, longest = numbered.arcs, numbered.longest
        sizes = (arcs, longest, layout.weight_bytes, layout.shards, edges.block_edges)
        fit = plan.range_arcs(*sizes, kept=True)
        if not fit:
            edges.forget()
            fit = plan.range_arcs(*sizes, kept=False)
        # Further ranges cost nothing where arcs are in runs.
        by_pass, from_runs = (
            max(1, longest, wanted_arcs(arcs, cheap=cheap)) for cheap in (edges.cheap, True)
        )
        run_edges = plan.run_edges(layout.weight_bytes, layout.shards, edges.block_edges)
        run = edges.pass_bytes, KEY_BYTES + layout.weight_bytes, run_edges
        return Fit(max(1, fit), longest, by_pass, from_runs, *run)

    def keep(self, maker: RowMaker) -> None:
        """Keep who is which row for the tasks to come."""
        self._maker = maker

    def maker(self, numbered: Numbered, layout: StoreLayout) -> RowMaker:
        """Makes rows; who is which row comes from the store, unless it is kept."""
        if self._maker is None:
            originals = None
            if numbered.space.originals:
                originals = self.table(numbered.tables[ORIGINALS], np.uint64)
            internal_of = self.table(numbered.tables[INTERNAL_OF], np.uint32)
            self._maker = maker_of(self.work, layout, internal_of, originals)
        return self._maker

    def table(self, table: StoredTable, dtype: Any) -> Any:
        """A table of the store on the device, -1 as the largest number; each chunk is checked."""
        cupy, spec = cuda(), table.spec
        found = cupy.empty(spec.length, dtype)
        for index, crc in enumerate(table.crcs):
            start, stop = spec.bounds(index)
            piece = np.empty(stop - start, spec.dtype)
            read_chunk(self.work.checkpoints.folder, spec, index, piece, crc)
            found[start:stop].set(piece.astype(dtype))
            # The piece is in ordinary memory, which is gone then.
            cupy.cuda.get_current_stream().synchronize()
        return found

    def forget(self) -> None:
        """Hold nothing on the device."""
        self._planned = self._maker = None

    def close(self) -> None:
        """Give everything back."""
        self.forget()
        self._pool = None
        if self._own_threads is not None:
            self._own_threads.shutdown(wait=False, cancel_futures=True)
        with suppress(MemoryError):
            free_unused()


def maker_of(work: DeviceWork, layout: StoreLayout, internal_of: Any, originals: Any) -> RowMaker:
    """Makes rows, given who is which row, on the device."""
    starts = cuda().asarray(layout.starts[:-1].astype(np.uint32))
    given = None if layout.weight_dtype is None else work.source.weight_dtype
    return RowMaker(internal_of, originals, starts, given, layout.weight_dtype)
