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
from dataclasses import dataclass, replace
from typing import Any

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime.modules import (
    cuda,
    device_bytes,
    forget_frames,
    is_of_host,
    within_memory,
)
from ooc_graph.kernels.cuda.runtime.pinned import free_pinned, pinned_buffer
from ooc_graph.kernels.cuda.runtime.pool import own_pool
from ooc_graph.layout.commit import Partial
from ooc_graph.shards.build_options import BuildOptions, BuildReport
from ooc_graph.shards.chunk_sink import ChunkSink
from ooc_graph.shards.cuda_plan import usable_bytes, within_pages
from ooc_graph.shards.cuda_stages import DeviceStages
from ooc_graph.shards.workforce import Workforce
from ooc_graph.types import Progress

SMALLER = 3, 4
"""What part of the refused memory a build continues within."""


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
class DeviceBuild(DeviceStages):
    """One build, within a limit of device memory that falls if it is refused."""

    def _run(self, source: EdgeSource, description: Future[dict[str, Any]]) -> None:
        ids = None if source.id_range is not None else self._count_ids(source)
        staged = self.partial.spill / "staged"
        was_staged, build, refused = staged.exists(), self, None
        counted = len(self.report.stages)
        while True:
            sink = ChunkSink(self.partial.folder, self.workforce, pinned_buffer)
            try:
                layout, arcs = build.attempt(sink, source, ids)
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
        attributes = layout.attributes(arcs, description.result())
        self._commit_store(attributes, arcs, sink.specs, sink.entries)

    def _remove_rows(self, stages: int) -> None:
        """Remove all that an attempt has written, and reported after the first so many stages."""
        del self.report.stages[stages:]
        self.report.run_bytes = 0
        for path in (*self.partial.folder.iterdir(), self.partial.spill / "runs"):
            if path != self.partial.spill:
                shutil.rmtree(path, ignore_errors=True)
