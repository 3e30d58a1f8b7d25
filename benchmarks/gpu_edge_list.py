"""BFS on the list of edges on one CUDA device, each of its optimisations switched off alone.

    python benchmarks/gpu_edge_list.py [--scales 14-24] [--searches 32]

As edge_list.py on the CPU: Graph500's graphs, of average degree 32, in rows as the package searches
them, from which the lists are made. A search of a list is one launch. In each level it counts the
vertices of the frontier and those not found yet by segment, then reads the pieces of the list that
may lead from one to the other; of their segments two bits a vertex are copied to shared memory.
Beside it stand each edge twice; ends of 32 bits; levels that are looked up through the caches
instead, of one byte and of four; the same of a list in random order; and none of all that. Rows are
only pushed, or as the package does. Times are by events until parents (internal ids) and levels
stand in device memory, which must be the same. ``read_share`` is how often the list is read, all
levels together.

Draws records/gpu_edge_list.svg and prints the table of docs/explanation/benchmarks/edge_list.md, as
edge_list.py does.
"""

import statistics
from argparse import Namespace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import cupy
import numpy as np
from edge_list import LIST, Figures, compared, study
from harness import device, pictures
from harness.device import DeviceGraph, DeviceProgram, event_seconds, free_memory
from harness.graphs import RANDOM_STATE
from harness.program import RECORDS

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cpu.edge_list.grouped import piece_table, segment_bases
from ooc_graph.kernels.cuda.bfs.search import CudaBfsSearch
from ooc_graph.kernels.cuda.runtime.compilation import compiled, source
from ooc_graph.kernels.cuda.runtime.modules import OPTIONS, definitions
from ooc_graph.types import IntArray, Rows

SOURCE = Path(__file__).with_name("gpu_edge_list.cu")
THREADS, BLOCKS, CHUNK = 512, 3, 512  # as in SOURCE
COLOURS = {
    LIST: pictures.BLUE,
    "each edge twice": pictures.SKY,
    "ends of 32 bits": pictures.GREEN,
    "levels in caches": pictures.ORANGE,
    "four bytes, in caches": pictures.YELLOW,
    "in random order": pictures.GREY,
    "none of these": pictures.PURPLE,
    "rows, push only": pictures.VERMILION,
    "rows, push and pull": pictures.INK,
}


class Edges(NamedTuple):
    """Edges on the device by the segments of their ends, which begin at ``base``.

    ``counts`` are those of each group, as `piece_table` has them. ``ends`` hold the positions of
    tail and head in their segments, in 16 bits each, or in 32.
    """

    base: Any
    counts: IntArray
    ends: Any


def arcs_of(rows: Rows) -> tuple[Any, Any]:
    """Tails and heads of all arcs; no row is empty."""
    tail = cupy.zeros(len(rows.neighbors), np.uint32)
    tail[rows.offsets[1:-1].astype(np.int64)] = 1
    return cupy.cumsum(tail, dtype=np.uint32), rows.neighbors


def grouped(tail: Any, head: Any, rows: int) -> Edges:
    """Edges by segments; those of a group by tail and head."""
    base = cupy.asarray(segment_bases(rows).astype(np.uint32))
    segments = len(base) - 1
    tails, heads = (cupy.searchsorted(base, ids, "right") - 1 for ids in (tail, head))
    key = (heads * segments + tails) << 32 | (tail - base[tails]) << 16 | (head - base[heads])
    del tails, heads
    key.sort()
    groups = cupy.arange(segments * segments + 1, dtype=np.int64)
    counts = cupy.diff(cupy.searchsorted(key, groups << 32)).get()
    return Edges(base, counts, key.astype(np.uint32))


def widened(edges: Edges) -> Edges:
    tail, head = edges.ends >> 16, edges.ends & 0xFFFF
    return edges._replace(ends=tail.astype(np.uint64) << np.uint64(32) | head)


def in_random_order(tail: Any, head: Any, rows: int) -> Edges:
    """Edges of one group, whose segment has all vertices."""
    ends = tail.astype(np.uint64) << np.uint64(32) | head
    order = cupy.random.RandomState(RANDOM_STATE).permutation(len(ends))
    base = cupy.asarray(np.array([0, rows], np.uint32))
    return Edges(base, np.array([len(ends)]), ends[order])


@cache
def search_of(**constants: Any) -> Any:
    """The kernel, by what it is compiled with."""
    architecture = f"-arch=sm_{cupy.cuda.Device().compute_capability}"
    options = *OPTIONS, architecture, *definitions(constants)
    text = source("grid.cuh") + SOURCE.read_text()
    code = compiled(cupy.cuda.nvrtc, text, SOURCE.name, options)
    module = cupy.RawModule(path=str(code), enable_cooperative_groups=True)
    return module.get_function("edge_bfs")


class EdgeSearch:
    """Searches of a list in which each edge stands ``once``, or from both ends.

    Levels are ``u8`` or ``u32``; with ``shared``, bits of both segments are in shared memory.
    """

    def __init__(self, edges: Edges, rows: int, *, once: bool, shared: bool, level: str = "u8"):
        segments, chunks = len(edges.base) - 1, -(-rows // CHUNK)
        begin, tail, head = map(cupy.asarray, piece_table(edges.counts, segments))
        of_chunk = (
            cupy.searchsorted(edges.base, cupy.arange(0, rows, CHUNK, np.uint32), "right") - 1
        )
        self._parent = cupy.empty(rows, np.uint32)
        self._level = cupy.zeros(chunks * CHUNK, {"u8": np.uint8, "u32": np.uint32}[level])
        self._state = cupy.zeros(5, np.uint64)
        self._arguments = (
            *map(np.uint32, (rows, segments, len(tail))),
            *(edges.base, of_chunk.astype(np.uint32), begin, tail, head, edges.ends),
            *(self._level, self._parent, cupy.empty(chunks * CHUNK // 16, np.uint32)),
            *(cupy.empty(2 * segments, np.uint64), cupy.empty(len(tail), np.uint32), self._state),
        )
        wide = edges.ends.dtype == np.uint64
        self._kernel = search_of(ONCE=int(once), WIDE=int(wide), SHARED=int(shared), LEVEL=level)
        multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._grid = (BLOCKS * multiprocessors,), (THREADS,)
        self.bytes, self._edges, self._read = edges.ends.nbytes, len(edges.ends), list[int]()

    def run(self, root: int) -> Any:
        arguments = *self._arguments, np.uint32(root)
        elapsed_s = event_seconds(partial(self._kernel, *self._grid, arguments))
        self._read.append(int(self._state[4]))
        level = self._level[: len(self._parent)].astype(np.uint8)
        return SimpleNamespace(parent=self._parent, level=level, elapsed_s=elapsed_s)

    @property
    def read_share(self) -> float:
        """Edges that a search reads, of those in the list; the median."""
        return statistics.median(self._read) / self._edges


class PushOnly(CudaBfsSearch):
    """BFS on rows that never pulls."""

    def _constants(self) -> dict[str, int | str]:
        return {"PULL_ABOVE": 0, "PUSH_BELOW": 0, "OPEN_ROWS": 1}


def searches(graph: DeviceGraph) -> dict[str, tuple[Any, int]]:
    """Searches by name, and the bytes of what each reads, in the order of `COLOURS`."""
    count, rows = len(graph.original_of), graph.rows
    tail, head = arcs_of(rows)
    both, mixed_both = grouped(tail, head, count), in_random_order(tail, head, count)
    first = tail < head
    tail, head = tail[first], head[first]
    once, mixed = grouped(tail, head, count), in_random_order(tail, head, count)
    lists = (
        EdgeSearch(once, count, once=True, shared=True),
        EdgeSearch(both, count, once=False, shared=True),
        EdgeSearch(widened(once), count, once=True, shared=True),
        EdgeSearch(once, count, once=True, shared=False),
        EdgeSearch(once, count, once=True, shared=False, level="u32"),
        EdgeSearch(mixed, count, once=True, shared=False),
        EdgeSearch(mixed_both, count, once=False, shared=False, level="u32"),
    )
    made = [(search, search.bytes) for search in lists]
    for kind in (PushOnly, CudaBfsSearch):
        search = SimpleNamespace(run=kind(rows, rows, count_arcs=False).run_on_device)
        made.append((search, rows.offsets.nbytes + rows.neighbors.nbytes))
    return dict(zip(COLOURS, made, strict=True))


def measure(options: Namespace, scale: int) -> Figures:
    """Figures of every search of a scale's graph."""
    kronecker = Kronecker(scale)
    graph = device.build_kronecker(kronecker, "bfs")
    _, roots = device.search_roots(kronecker, graph.internal_of, options.searches)
    made = searches(graph)
    free_memory()
    figures = compared(made, graph.tuples, roots)
    for name, (search, _) in made.items():
        if isinstance(search, EdgeSearch):
            figures[name]["read_share"] = search.read_share
    return figures


def main() -> None:
    given = {"scales": "14-24", "searches": 32, "out": RECORDS / "gpu_edge_list.svg"}
    study(DeviceProgram("gpu_edge_list", __doc__, **given), measure, COLOURS)


if __name__ == "__main__":
    main()
