"""Tuples -> sorted runs on the disk, in one pass on a CUDA device.

The arcs of as many tuples as fit the device are gathered, sorted, cut where ranges of rows begin,
and written by threads while the tuples of the next run are read, gathered and sorted.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from ooc_graph.kernels.cuda.build.gather import DeviceBlock, Gathered, sort_by_key
from ooc_graph.kernels.cuda.build.store_rows import RowMaker
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.pinned import pinned_buffer
from ooc_graph.shards.plan import BuildBudget
from ooc_graph.shards.range_runs import KEY_BYTES, PartWriter, RangeRuns
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray, StageProgress

MOST_WRITERS = 8
"""Threads that write runs, each with a buffer of its own."""
MOST_BUFFER, BUFFER_PART = 1 << 24, 4
"""Bytes of a buffer at most, and parts of a slot's memory for it."""


def sorted_runs(
    blocks: Iterator[DeviceBlock],
    maker: RowMaker,
    sides: Mapping[str, tuple[int, int, int]],
    most: int,
) -> Generator[tuple[int, dict[str, list[Any]]], None, None]:
    """Sort the arcs of all tuples, ``most`` tuples at a time; no block has more.

    ``sides`` say which ends of an edge are arcs of a side, the first of its rows that are wanted,
    and the row after the last. Yields the number of tuples of a run, and for each side its keys in
    ascending order, rows counted from the first one, and words or None. Who takes them out of the
    dict is the only one who has them.
    """
    gathered, filled = dict[str, Gathered](), 0
    for block in blocks:
        if gathered and filled + len(block) > most:
            yield filled, _sorted(gathered)
            filled = 0
        if not gathered:
            for side, (ends, low, high) in sides.items():
                gathered[side] = maker.gather(ends, low, high, most * ends.bit_count())
        for arcs in gathered.values():
            arcs.add(block)
        filled += len(block)
    if gathered:
        yield filled, _sorted(gathered)


def _sorted(gathered: dict[str, Gathered]) -> dict[str, list[Any]]:
    """What was gathered, sorted; nobody else holds it then."""
    return {side: sort_by_key(gathered.pop(side).finish()) for side in list(gathered)}


class RunWriter:
    """Threads that copy runs from the device and write them, each with a pinned buffer."""

    def __init__(self, runs: RangeRuns, budget: BuildBudget) -> None:
        self._runs, self._device = runs, cuda().cuda.Device().id
        threads = min(budget.slots, MOST_WRITERS)
        fit = budget.slot_bytes(0) // BUFFER_PART // KEY_BYTES * KEY_BYTES
        buffers = [pinned_buffer(min(MOST_BUFFER, fit)) for _ in range(threads)]
        self._writer = PartWriter(self._copy, buffers)
        self._threads = Threads(threads, thread_name_prefix="run-writer")
        self._begun: list[Future[None]] = []

    def _copy(self, data: Any, buffer: AnyArray) -> None:
        # A thread begins on the first device, whichever is current elsewhere.
        with cuda().cuda.Device(self._device):
            data.get(out=buffer)

    def write(self, side: str, keys: Any, words: Any) -> None:
        """Begin to write a run of one side; it is held until `finish` says that it is written."""
        if not len(keys):
            return
        cupy = cuda()
        starts = cupy.searchsorted(keys, cupy.asarray(self._runs.bounds(side)))
        cuts = [*starts.get().tolist(), len(keys)]
        # Threads copy in streams of their own.
        cupy.cuda.get_current_stream().synchronize()
        for part, start in self._runs.new_run(side, cuts):
            span = slice(start, start + part.arcs)
            beside = None if words is None else words[span]
            self._begun.append(self._threads.submit(self._writer.write, part, keys[span], beside))

    def finish(self) -> None:
        """Wait until everything is written, and hold nothing of it any more."""
        while self._begun:
            self._begun.pop(0).result()

    def close(self) -> None:
        """Write no more; what is being written is waited for."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._begun.clear()


def write_runs(
    runs: Iterator[tuple[int, dict[str, list[Any]]]], writer: RunWriter, bar: StageProgress
) -> None:
    """Write all runs: while one is written the next is gathered and sorted."""
    for edges, sides in runs:
        writer.finish()
        for side in list(sides):
            writer.write(side, *sides.pop(side))
        bar.advance(edges)
    writer.finish()
