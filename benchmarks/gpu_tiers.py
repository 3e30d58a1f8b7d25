"""BFS and SSSP on one CUDA device, of graphs whose rows stand in pinned host memory.

    python benchmarks/gpu_tiers.py --kernel bfs --scale 28 --budget-gib 8 [--searches 64]
                                   [--columns 7] [--range-arcs N] [--records PATH]

Graph500's edges become rows by parts, on the device, and are copied to pinned host memory. A plan
says what a search with a budget of device memory has of them on the device. All that it allocates
comes from a pool of that size. The device also keeps all rows: every row of every answer is checked
against them, so that all are read between any two searches.

Time is by events on the stream, from before all initialisation until parents (original ids) and
levels or distances stand in device memory. TEPS counts input tuples between reached vertices.
"""

from functools import partial
from typing import Any

import cupy
import numpy as np
from gpu_checks import checked
from harness import device
from harness.device import GIB, DeviceGraph, DeviceProgram, free_memory, limited_pool, timed

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.bfs.near import BfsShare, column_rows
from ooc_graph.kernels.cuda.pinned.bfs import CudaTierBfsSearch
from ooc_graph.kernels.cuda.pinned.sssp import CudaTierSsspSearch, SsspShare
from ooc_graph.kernels.cuda.runtime.pinned import PinnedArray
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows, extents
from ooc_graph.memory.cuda.device_facts import COLUMNS, DeviceFacts
from ooc_graph.memory.cuda.pinned_plan import (
    BfsPlan,
    SsspPlan,
    describe_device,
    fill,
    plan_bfs,
    rows_within,
)
from ooc_graph.memory.heads import Lengths
from ooc_graph.types import Rows

BLOCK_EDGES = 1 << 27
THREADS = 16


class PinnedGraph:
    """A graph twice: ``whole`` on the device, for validation, and in pinned memory."""

    def __init__(self, whole: DeviceGraph) -> None:
        self.whole = whole
        found = whole.rows.neighbors, whole.rows.weights
        self._pinned = [pinned(column) for column in found if column is not None]

    @property
    def rows(self) -> Rows:
        """Rows as a search within a budget gets them: offsets on the device, for it to copy."""
        return Rows(self.whole.rows.offsets, *(array.device for array in self._pinned))


def pinned(column: Any) -> PinnedArray:
    held, runtime = PinnedArray(len(column), column.dtype, threads=THREADS), cupy.cuda.runtime
    ends = held.device.data.ptr, column.data.ptr
    runtime.memcpy(*ends, column.nbytes, runtime.memcpyDefault)
    return held


def facts_of(rows: Rows | DeviceRows) -> DeviceFacts:
    offsets = rows.offsets
    counts = cupy.bincount(cupy.diff(offsets.view(np.int64))).get()
    lengths = Lengths(np.flatnonzero(counts), counts[counts > 0])
    longer3 = extents(DeviceRows(offsets, rows.neighbors), 0, 1).longer3
    return DeviceFacts(len(offsets) - 1, (lengths,), tuple(column_rows(offsets)), longer3, True)


def plan_of(facts: DeviceFacts, kernel: str, budget: int, columns: int) -> BfsPlan | SsspPlan:
    # Graph500's graphs have few levels: BFS needs no room for those of four bytes.
    plan = plan_bfs(facts, budget, columns) if kernel == "bfs" else fill(kernel, facts, budget)
    if plan.bytes > budget:
        raise SystemExit(f"{kernel} needs at least {plan.bytes:,} bytes of device memory")
    return plan


def new_search(graph: PinnedGraph, plan: BfsPlan | SsspPlan) -> Any:
    """Made with the pool's memory only; called within it."""
    rows = graph.rows
    own = Rows(rows.offsets.copy(), rows.neighbors, rows.weights)
    names = graph.whole.original_of.astype(np.uint32)
    if isinstance(plan, SsspPlan):
        held = SsspShare(plan.share.least, plan.share.shift)
        tuples = graph.whole.tuples.copy()
        return CudaTierSsspSearch(own, own, tuples, held, original_of=names)
    hubs = rows_within(rows.offsets, plan.hub_arcs)
    copied = BfsShare(plan.columns, hubs, hubs)
    return CudaTierBfsSearch(own, own, copied, original_of=names, count_arcs=False)


def figures(
    graph: PinnedGraph, kernel: str, roots: list[int], plan: BfsPlan | SsspPlan
) -> dict[str, Any]:
    """Searches by a plan, within its budget."""
    pool = limited_pool(plan.budget_bytes)
    free_memory()
    with cupy.cuda.using_allocator(pool.malloc):
        made_s, _, search = timed(partial(new_search, graph, plan))
    peak = pool.total_bytes()
    found = checked(graph.whole, kernel, roots, search)
    assert pool.total_bytes() == peak <= plan.bytes <= plan.budget_bytes
    return {"plan": describe_device(plan), "peak_bytes": peak, "hold_s": made_s, **found}


def main() -> None:
    program = DeviceProgram("gpu_tiers", __doc__, searches=64)
    program.add("--kernel", choices=("bfs", "sssp"), default="bfs")
    program.add("--scale", type=int, required=True)
    program.add("--budget-gib", type=float, nargs="+", required=True)
    program.add("--columns", type=int, default=COLUMNS)
    program.add("--range-arcs", type=int, default=3 << 29)
    options = program.parse()
    kronecker = Kronecker(options.scale)
    blocks = partial(device.edge_blocks, kronecker, options.kernel == "sssp", BLOCK_EDGES)
    making = kronecker.vertices, blocks, options.kernel, options.range_arcs
    build_s, _, graph = timed(lambda: PinnedGraph(device.build(*making)))
    free_memory()
    keys, roots = device.search_roots(kronecker, graph.whole.internal_of, options.searches)
    facts = facts_of(graph.rows)
    for gib in options.budget_gib:
        budget = int(gib * GIB)
        plan = plan_of(facts, options.kernel, budget, options.columns)
        found = figures(graph, options.kernel, roots, plan)
        parameters = program.given("kernel", "scale") | {"budget_bytes": budget}
        parameters |= {"rows": len(graph.whole.original_of), "arcs": len(graph.rows.neighbors)}
        parameters["build_s"] = build_s
        program.flat_record(parameters, {"roots": keys, **found})


if __name__ == "__main__":
    main()
