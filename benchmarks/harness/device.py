"""One CUDA device: what it is, times on it, memory, and graphs and searches that are on it."""

import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from harness.graphs import RANDOM_STATE
from harness.program import Program
from harness.timing import Took, reached_by
from harness.timing import timed as timed_on_host
from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.build.gather import DeviceBlock
from ooc_graph.kernels.cuda.build.store_rows import (
    IN_END,
    OUT_END,
    RowMaker,
    TupleCount,
    arcs_up_to,
    number_vertices,
    ranges_of,
)
from ooc_graph.kernels.cuda.many.search import CudaManySearch
from ooc_graph.kernels.cuda.runtime.modules import device_bytes
from ooc_graph.kernels.cuda.sssp.search import CudaSsspSearch
from ooc_graph.types import AnyArray, IntArray, Rows

GIB = 1 << 30
_TO_HOST = 2
RANGE_ARCS, SORTED_ARC_BYTES = 1 << 28, 64


class DeviceProgram(Program):
    """A program whose records have the device's facts."""

    def append(self, benchmark: str = "", **fields: Any) -> None:
        super().append(benchmark, device=device_facts(), **fields)


def device_facts() -> dict[str, Any]:
    runtime = cupy.cuda.runtime
    found = runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "name": found["name"].decode(),
        "memory_bytes": found["totalGlobalMem"],
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
    }


def timed(call: Callable[[], Any]) -> Took:
    """Time some work until the device is through with it."""
    cupy.cuda.Device().synchronize()

    def finished() -> Any:
        result = call()
        cupy.cuda.Device().synchronize()
        return result

    return timed_on_host(finished)


def event_seconds(launch: Callable[[], Any]) -> float:
    """Seconds of a launch, by events on the current stream."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record()
    launch()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3


def page_locked(shape: tuple[int, int], dtype: Any) -> AnyArray:
    """Memory of the host that the device copies to directly."""
    size = shape[0] * shape[1]
    memory = cupy.cuda.alloc_pinned_memory(size * np.dtype(dtype).itemsize)
    array: AnyArray = np.frombuffer(memory, dtype, size).reshape(shape)
    return array


def copy_rate(to: AnyArray) -> float:
    """Bytes a second of plain copies from the device; the median of three."""
    from_ = cupy.zeros(to.nbytes, np.uint8)
    ends = to.ctypes.data, from_.data.ptr, to.nbytes
    found = [timed(lambda: cupy.cuda.runtime.memcpy(*ends, _TO_HOST)) for _ in range(4)]
    return to.nbytes / statistics.median(one.elapsed_s for one in found[1:])


def free_memory() -> None:
    cupy.get_default_memory_pool().free_all_blocks()


def limited_pool(limit_bytes: int) -> Any:
    """A pool of device memory with a limit."""
    pool = cupy.cuda.MemoryPool()
    pool.set_limit(size=limit_bytes)
    return pool


def search_roots(kronecker: Kronecker, internal_of: Any, count: int) -> tuple[Any, list[int]]:
    """Graph500's search keys, and their internal ids; `internal_of` is on the device."""
    keys = kronecker.search_keys(count, degree=(internal_of >= 0).get())
    return keys, internal_of[cupy.asarray(keys)].get().tolist()


def edge_blocks(
    kronecker: Kronecker, weighted: bool, most_edges: int | None = None
) -> Iterator[DeviceBlock]:
    """All edges, block by block in the same memory."""
    size = min(most_edges or kronecker.edges, kronecker.edges)
    source, target = (cupy.empty(size, np.uint32) for _ in range(2))
    weight = cupy.empty(size, np.float32) if weighted else None
    for start in range(0, kronecker.edges, size):
        count = min(size, kronecker.edges - start)
        block = source[:count], target[:count], None if weight is None else weight[:count]
        kronecker.generate_into(start, *block)
        yield DeviceBlock(*block)


@dataclass(frozen=True)
class DeviceGraph:
    """A graph in device memory; ``internal_of`` is -1 for vertices without arcs."""

    original_of: Any
    internal_of: Any
    tuples: Any
    rows: Rows


def build(
    vertices: int,
    blocks: Callable[[], Iterable[DeviceBlock]],
    kernel: str,
    range_arcs: int | None = None,
) -> DeviceGraph:
    """Rows in the order that a kernel wants, of all edges that ``blocks`` gives at each call.

    Arcs are sorted ``range_arcs`` at a time; None: as many as free memory allows.
    """
    count = TupleCount(vertices)
    for block in blocks():
        count.add(block)
    degree = [count.finish()[0]]
    del count
    numbering, starts = number_vertices(degree), cupy.zeros(1, np.uint32)
    order, tuples, most = numbering.order, numbering.tuples, numbering.arcs
    weighted = kernel == "sssp"
    columns = [cupy.empty(most, np.uint32) for _ in range(1 + weighted)]
    offsets, kept = cupy.zeros(len(order) + 1, np.uint64), 0
    range_arcs = range_arcs or min(RANGE_ARCS, device_bytes()[0] // SORTED_ARC_BYTES)
    float32 = np.dtype(np.float32) if weighted else None
    maker = RowMaker(numbering.internal_of, None, starts, float32, float32)
    ranges = ranges_of(arcs_up_to([tuples], starts), 0, len(order), range_arcs)
    for low, high, arcs in ranges:
        made = maker.rows(iter(blocks()), OUT_END + IN_END, low, high, arcs)
        end = kept + int(made.offsets[-1])
        offsets[low : high + 1] = made.offsets + np.uint64(kept)
        found = [made.light, made.weights.view(np.uint32)] if weighted else [made.hub]
        for column, part in zip(columns, found, strict=True):
            column[kept:end] = part
        kept = end
        del made, found, part
        free_memory()
    columns = [column[:kept] for column in columns]
    rows = Rows(offsets, columns[0], columns[1].view(np.float32) if weighted else None)
    internal_of = numbering.internal_of.view(np.int32)
    return DeviceGraph(order.astype(np.int64), internal_of, tuples, rows)


def build_kronecker(kronecker: Kronecker, kernel: str) -> DeviceGraph:
    """Graph500's graph, of edges that are in device memory only while it is built."""
    edges = list(edge_blocks(kronecker, kernel == "sssp"))
    return build(kronecker.vertices, lambda: edges, kernel)


def new_search(
    graph: DeviceGraph, kernel: str, *, original_parents: bool = True, **options: bool
) -> Any:
    """A search whose parents are original ids, or internal ones unless ``original_parents``."""
    rows, names = graph.rows, {"original_of": graph.original_of} if original_parents else {}
    if kernel == "bfs":
        return CudaBfsSearch(rows, rows, **{"count_arcs": False, **options}, **names)
    return CudaSsspSearch(rows, rows, graph.tuples, **names)


def distances(search: CudaManySearch, sources: IntArray) -> Any:
    """Distances from many sources to all rows, on the device: (sources, rows)."""
    columns = search.columns()
    out = cupy.empty((len(sources), search.pitch(columns)), search.dtype)
    search.search_into(out, sources, columns)
    return out[:, : columns.count]


def connected_sources(search: Any, count: int) -> IntArray:
    """Internal ids drawn at random, each once, of what is connected with the first row."""
    reached = cupy.flatnonzero(reached_by(search.run_on_device(0))).get()
    random = np.random.default_rng(RANDOM_STATE)
    return random.choice(reached, min(count, len(reached)), replace=False).astype(np.int64)


class DevicePeak:
    """How many more bytes of the device are taken than at first, by anybody."""

    def __init__(self) -> None:
        self._free = self._begun = _free_bytes()

    @property
    def bytes(self) -> int:
        """Most at any moment that was looked at."""
        return self._begun - self._free

    def look(self) -> None:
        self._free = min(self._free, _free_bytes())


def _free_bytes() -> int:
    return int(cupy.cuda.runtime.memGetInfo()[0])
