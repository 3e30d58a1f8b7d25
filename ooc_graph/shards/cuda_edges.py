"""A source's tuples in device memory, block by block, as often as they are wanted."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource, Unit
from ooc_graph.kernels.cuda.build.gather import DeviceBlock
from ooc_graph.kernels.cuda.runtime.modules import cuda
from ooc_graph.kernels.cuda.runtime.rows import seconds_of
from ooc_graph.shards.plan import BLOCK_EDGES
from ooc_graph.shards.tally import Tally
from ooc_graph.shards.workforce import Workforce, stop_all
from ooc_graph.types import AnyArray, EdgeBlock

MOST_GENERATED, MOST_READ = 1 << 26, 1 << 20
"""Edges of a block."""
GRANULE_BYTES = 2 * 2 * 24
"""Host memory for a tuple of a unit: as read and joined; the other half is for chunks."""
ID_BYTES = {True: 4, False: 8}
"""Bytes of an id, by whether the tuples are generated on the device."""
GENERATED_PASS_BYTES = 0.25
"""Bytes that the disk gives or takes while a tuple is generated, rounded up: see ``generation_s``
and ``disk_bytes_per_s`` in ``benchmarks/records/gpu_build.jsonl``."""
MEMORY_PART = 4
"""Arrays in memory are read so many times as fast as files, or faster."""


@dataclass
class Passed:
    """What the first pass over the blocks found."""

    total: Tally = field(default_factory=Tally)  # without self-loops
    # Seconds that the source took to give them; of what threads did at the same time, the longest.
    read_s: float = 0.0


class Generated:
    """Tuples that the device makes each time anew, by the source's ``generate_into``."""

    cheap = True  # another pass costs little
    pass_bytes = GENERATED_PASS_BYTES

    def __init__(self, source: Any, weighted: bool, block_edges: int) -> None:
        self._source, self._weighted, self.block_edges = source, weighted, block_edges

    def blocks(self, passed: Passed | None = None) -> Generator[DeviceBlock, None, None]:
        """All tuples; a block is good until the next one is asked for."""
        cupy, edges = cuda(), int(self._source.edges)
        most = min(self.block_edges, edges)
        source, target = (cupy.empty(most, np.uint32) for _ in range(2))
        weight = cupy.empty(most, np.float32) if self._weighted else None
        for start in range(0, edges, most):
            count = min(most, edges - start)
            some = None if weight is None else weight[:count]
            block = DeviceBlock(source[:count], target[:count], some)
            if passed is None:
                self._make(start, block)
            else:
                passed.read_s += seconds_of(partial(self._make, start, block))
                passed.total.add(EdgeBlock(block.source, block.target, block.weight), 0)
            yield block

    def forget(self) -> None:
        """Nothing is kept."""

    def _make(self, start: int, block: DeviceBlock) -> None:
        self._source.generate_into(start, block.source, block.target, block.weight)


class HostRead:
    """Tuples that threads of this process read and the device gets copies of.

    ``first`` is subtracted from ids, so that they are positions; 0 if ids have gaps. Blocks carry
    weights if ``weighted``. With ``keep``, what the first pass copied stays on the device.
    """

    def __init__(
        self,
        source: EdgeSource,
        workforce: Workforce,
        first: int,
        weighted: bool,
        block_edges: int,
        keep: bool,
    ) -> None:
        self._source, self._workforce, self._first = source, workforce, first
        self._weighted, self.block_edges = weighted, block_edges
        slot = workforce.budget.slot_bytes(0)
        self._most_edges = max(BLOCK_EDGES, min(MOST_READ, slot // GRANULE_BYTES))
        self.cheap, self._kept = keep, list[DeviceBlock]()
        self._complete = False

    def blocks(self, passed: Passed | None = None) -> Generator[DeviceBlock, None, None]:
        """All tuples; a block is good until the next one is asked for."""
        if self._complete:
            yield from self._kept
            return
        threads: dict[str, float] = {}
        with closing(self._read()) as units:
            for unit in units:
                if passed is not None:
                    threads[unit.thread] = threads.get(unit.thread, 0.0) + unit.read_s
                    passed.total = Tally.sum([passed.total, unit.total])
                for block in self._copied(unit.edges):
                    if self.cheap:
                        self._kept.append(block)
                    yield block
        self._complete = self.cheap
        if passed is not None:
            passed.read_s = max(threads.values(), default=0.0)

    @property
    def pass_bytes(self) -> float:
        """Cost of another pass for a tuple: bytes that the disk gives or takes in the same time."""
        if self.cheap:
            return 0.0
        dtype = self._source.weight_dtype if self._weighted else None
        tuple_bytes = 2 * ID_BYTES[False] + (dtype.itemsize if dtype else 0)
        return tuple_bytes / (MEMORY_PART if getattr(self._source, "in_memory", False) else 1)

    def forget(self) -> None:
        """Keep no tuples on the device."""
        self.cheap = self._complete = False
        self._kept.clear()

    def _copied(self, edges: EdgeBlock) -> Generator[DeviceBlock, None, None]:
        cupy = cuda()
        for start in range(0, len(edges), self.block_edges):
            part = slice(start, start + self.block_edges)
            columns = (edges.source[part].view(np.uint64), edges.target[part].view(np.uint64))
            weight = None if edges.weight is None else cupy.asarray(edges.weight[part])
            yield DeviceBlock(cupy.asarray(columns[0]), cupy.asarray(columns[1]), weight)

    def _read(self) -> Generator[_Tuples, None, None]:
        """Units in their order, a few ahead."""
        executor, ahead = self._workforce.executor, self._workforce.budget.slots + 1
        begun: deque[Future[_Tuples]] = deque()
        try:
            for unit in self._source.units(self._most_edges):
                begun.append(
                    executor.submit(_read_tuples, self._source, unit, self._first, self._weighted)
                )
                if len(begun) > ahead:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            stop_all(self._workforce, begun, [_read_tuples.__name__])


DeviceEdges = Generated | HostRead
"""Tuples on the device."""


@dataclass(frozen=True)
class _Tuples:
    """One unit's tuples in host memory, what they add up to, and who read them for how long."""

    edges: EdgeBlock
    total: Tally
    read_s: float
    thread: str


def _read_tuples(source: EdgeSource, unit: Unit, first: int, weighted: bool) -> _Tuples:
    begun = perf_counter()
    blocks = list(source.read(unit, BLOCK_EDGES))
    read_s = perf_counter() - begun
    total = Tally()
    for block in blocks:
        total.add(block, 0)
    columns: list[list[AnyArray]] = [
        [block.source for block in blocks],
        [block.target for block in blocks],
    ]
    source_ids, target_ids = (_joined(column, np.int64) for column in columns)
    if first:
        source_ids, target_ids = source_ids - first, target_ids - first
    weights = [block.weight for block in blocks if block.weight is not None]
    weight = None
    if weighted:
        weight = _joined(weights, source.weight_dtype).astype(source.weight_dtype, copy=False)
    thread = threading.current_thread().name
    return _Tuples(EdgeBlock(source_ids, target_ids, weight), total, read_s, thread)


def _joined(parts: list[AnyArray], dtype: Any) -> AnyArray:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
