"""Ours against cuGraph on one CUDA device: Graph500's graphs, the same edges and sources, in turn.

    python benchmarks/gpu_peers.py [--scales 20,22,24] [--kernels bfs,sssp] [--searches 64]

Both leave answers on the device. Ours is `og.bfs` or `og.sssp` with ``arrays="cupy"``, and reading
parents and levels or distances, in the order of the input. cuGraph's is `pylibcugraph.bfs`, which
pushes, or also pulls (``direction_optimizing``), or `sssp`; it gives predecessors too, in its own
order beside a column of ids. Times are the wall clock's until the device is through. TEPS count
input tuples between reached vertices; their mean is harmonic. Some answers are compared.

Graphs are made of the same edges in host memory, with duplicates and self-loops. cuGraph drops
these, adds the other directions and renumbers on the device, and has RMM's pool; ours does so on
all cores, and the first search brings rows to the device. What cuGraph refuses is recorded.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import cupy
import numpy as np
import pylibcugraph
import rmm
from harness.device import DeviceProgram, free_memory, timed
from harness.program import KERNELS
from harness.timing import medians

import ooc_graph as og
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.types import AnyArray

OURS, WARM_SCALE, COMPARED, TOLERANCE = "ooc-graph", 12, 4, 1e-5


def ours(kernel: str, graph: og.Graph, source: int) -> tuple[Any, Any]:
    """Parents and levels or distances."""
    search = og.bfs if kernel == "bfs" else og.sssp
    answer: Any = search(graph, source, device="cuda", arrays="cupy")
    return answer.parent, answer.read(answer.measure)


def cugraph(kernel: str, *columns: AnyArray) -> dict[str, Callable[[int], Any]]:
    """Searches, which give ids and levels or distances."""
    handle = pylibcugraph.ResourceHandle()
    kind = pylibcugraph.GraphProperties(is_symmetric=True, is_multigraph=False)
    wanted = ("renumber", "symmetrize", "drop_self_loops", "drop_multi_edges")
    options = dict.fromkeys(wanted, True)
    graph = pylibcugraph.SGGraph(handle, kind, *map(cupy.asarray, columns), **options)

    def search(source: int, *, pull: bool = False) -> tuple[Any, Any]:
        if kernel == "sssp":
            vertex, distance, _ = pylibcugraph.sssp(handle, graph, source, np.inf, True, False)
            return vertex, distance
        begin = cupy.array([source], np.int32)
        level, _, vertex = pylibcugraph.bfs(handle, graph, begin, pull, -1, True, False)
        return vertex, level

    pulling = {"cuGraph, pulling": partial(search, pull=True)}
    return {"cuGraph": search} | (pulling if kernel == "bfs" else {})


def is_same(mine: Any, vertex: Any, measure: Any) -> bool:
    """Whether cuGraph's levels or distances are ours, but for rounding."""
    reached = measure < (np.iinfo if measure.dtype.kind == "i" else np.finfo)(measure.dtype).max
    found = cupy.full_like(mine, -1 if mine.dtype.kind == "i" else np.inf)
    found[vertex[reached]] = measure[reached]
    return bool(cupy.allclose(found, mine, rtol=TOLERANCE, atol=0))


def new_pool() -> None:
    """Give cuGraph a pool that keeps half of the device at most; the one before gives all back."""
    free_memory()
    half = cupy.cuda.runtime.memGetInfo()[1] // 2
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource(release_threshold=half))


def compare(kernel: str, edges: og.Kronecker, searches: int, *columns: AnyArray) -> dict[str, Any]:
    """Figures of each library, and why cuGraph has none if it has none."""
    given = {"vertices": edges.vertices, "rows": ORDER_OF[kernel]}
    built = {OURS: timed(partial(og.from_edges, *columns, **given))}
    graph, degree = built[OURS].result, np.zeros(edges.vertices, np.int64)
    degree[graph.original_of()] = graph.tuples()
    sources = edges.search_keys(searches, degree=degree).tolist()
    calls, first_s, refused = {OURS: partial(ours, kernel, graph)}, {}, None
    new_pool()
    try:
        built["cuGraph"] = timed(partial(cugraph, kernel, *columns))
        theirs = built["cuGraph"].result.items()
        first_s = {name: timed(partial(call, sources[0])).elapsed_s for name, call in theirs}
        calls |= theirs
    except (MemoryError, RuntimeError, ValueError) as error:
        refused = f"{type(error).__name__}: {error}".partition("\n")[0]
    if refused:
        theirs = built.pop("cuGraph", None)
        new_pool()
    free_memory()  # of what cuGraph was given
    first_s[OURS] = timed(partial(calls[OURS], sources[0])).elapsed_s
    tuples, counts, times = cupy.asarray(degree), [], {name: [] for name in calls}
    for number, source in enumerate(sources):
        for name, call in calls.items():
            elapsed_s, _, answer = timed(partial(call, source))
            times[name].append(elapsed_s)
            if name == OURS:
                mine = answer[1]
                counts.append(int(tuples[answer[0] >= 0].sum()) // 2)
            elif number < COMPARED and not is_same(mine, *answer):
                raise SystemExit(f"{name}: another answer of {kernel} from {source}")
    rate = {name: teps_statistics(found, counts).harmonic_mean for name, found in times.items()}
    return {
        "refused": refused,
        "build_s": {name: one.elapsed_s for name, one in built.items()},
        "first_s": first_s,
        "median_s": medians(times),
        "teps": rate,
        "ours_is_faster_by": {name: rate[OURS] / one for name, one in rate.items() if name != OURS},
        "times_s": times,
    }


def main() -> None:
    program = DeviceProgram("gpu_peers", __doc__, scales="20,22,24", kernels=KERNELS, searches=64)
    options = program.parse()
    for scale in (WARM_SCALE, *options.scales):
        edges = og.Kronecker(scale)
        u, v, weight = edges.block(0, edges.edges)
        ends = [np.minimum(u, v).astype(np.int32), np.maximum(u, v).astype(np.int32)]
        for kernel in options.kernels:
            columns = [*ends, weight][: 2 + (kernel == "sssp")]
            figures = compare(kernel, edges, options.searches, *columns)
            if scale != WARM_SCALE:
                version = {"cugraph": pylibcugraph.__version__}
                program.record({"kernel": kernel, "scale": scale} | version, figures)


if __name__ == "__main__":
    main()
