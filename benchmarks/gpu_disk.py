"""Searches on one CUDA device of Graph500's graph with arcs in the store, the page cache cold.

    python benchmarks/gpu_disk.py [--kernel sssp] [--scale 26] [--device-gib 1] [--host-gib 1]
                                  [--compress] [--keys 64] [--folder DIR] [--records PATH]

The device builds the store in a temporary folder. A plan says what a search within the budgets has
where; all that it allocates on the device comes from a pool of that size. ``--host-gib 0`` pins
nothing. Before each search the page cache of the store's chunks is dropped; what the search keeps
of what it read, within its host budget, stays.

Time is the wall clock's, of the whole search: from the root's internal id until parents, and levels
or distances, of all rows stand in host memory, reading included. TEPS counts input tuples between
reached vertices. Answers are validated against the edges, between the searches, with memory of the
device that the search has nothing of. The disk's rate is that of the same chunk files, read in
order by as many threads, the page cache dropped before.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from gpu_checks import Validated
from harness.device import GIB, DeviceProgram, free_memory, limited_pool
from harness.files import bytes_per_s, drop_from_cache, read_through
from harness.timing import reached_by, timed

import ooc_graph as og
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cuda.disk import READERS, describe_disk
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.shards.device_tiers import DeviceTierSearch
from ooc_graph.strategies.cuda import disk_budgets as cuda_disk
from ooc_graph.threads import cores

DISK_BYTES = 4 << 30


def chunks_of(graph: og.Graph, kernel: str) -> list[Path]:
    """Files that rows are read from, column by column in the order of the store."""
    columns = {"bfs": ["neighbors"], "sssp": ["neighbors", "weights"]}[kernel]
    found = [graph.arrays_of(ORDER_OF[kernel], column) for column in columns]
    arrays = [one for sides in found for side in sides for one in side]
    specs = [graph.stored.spec(array) for array in arrays]
    return [graph.path / spec.chunk_path(index) for spec in specs for index in range(spec.chunks)]


def disk_bytes_per_s(paths: list[Path]) -> float:
    """Rate at which the chunk files come from the disk, in order, a few at a time."""
    ends = np.cumsum([path.stat().st_size for path in paths])
    wanted = paths[: np.searchsorted(ends, DISK_BYTES) + 1]
    drop_from_cache(wanted)
    return bytes_per_s([partial(read_through, path) for path in wanted], READERS)


def searched(
    graph: og.Graph,
    kernel: str,
    search: DeviceTierSearch,
    keys: list[int],
    roots: list[int],
    checked: Validated,
) -> dict[str, Any]:
    """Time, and validate, one search a key, each with a cold page cache."""
    chunks, tuples = chunks_of(graph, kernel), graph.tuples()
    times: list[float] = []
    edges: list[int] = []
    io_stats: list[IoStats] = []
    courses: list[Any] = []
    columns = () if kernel == "sssp" else ("level_vertices", "level_arcs", "level_direction")
    search.run(roots[0])  # kernels are compiled and loaded
    for key, root in zip(keys, roots, strict=True):
        drop_from_cache(chunks)
        before = search.io_stats
        elapsed_s, _, tree = timed(lambda root=root: search.run(root))
        times.append(elapsed_s)
        io_stats.append(search.io_stats.since(before))
        edges.append(int(tuples[reached_by(tree)].sum(dtype=np.uint64)) // 2)
        levels = [getattr(tree, column).tolist() for column in columns]
        courses.append(tree.phase_arcs if kernel == "sssp" else levels)
        checked.add(key, tree)
    checked.finish()
    return {
        "times_s": times,
        "edges": edges,
        "teps": teps_statistics(times, edges).to_dict(),
        "moved": [asdict(one) for one in io_stats],
        "levels" if kernel == "bfs" else "phase_arcs": courses,
        "answers_validated": checked.right,
    }


def within(
    graph: og.Graph, kernel: str, device_bytes: int, host_bytes: int
) -> tuple[Any, Any, float]:
    """A search by a plan, its device memory from a pool with that limit; and seconds of loading."""
    plan = cuda_disk.plan_within(cuda_disk.known_facts(graph, kernel), device_bytes, host_bytes)
    pool = limited_pool(plan.device_bytes)
    with cupy.cuda.using_allocator(pool.malloc):
        load = cuda_disk.LOADERS[kernel]
        load_s, _, search = timed(lambda: load(graph, plan, threads=cores()))
    return search, pool, load_s


def measured(options: Any, folder: Path) -> dict[str, Any]:
    kernel = options.kernel
    source = og.Kronecker(options.scale, weighted=kernel == "sssp")
    settings = {"rows": ORDER_OF[kernel], "compress": options.compress, "device": "cuda"}
    build_s, _, graph = timed(lambda: og.build(source, folder / "graph.zarr", **settings))
    free_memory()
    disk = disk_bytes_per_s(chunks_of(graph, kernel))
    internal_of = graph.internal_of()
    keys = source.search_keys(options.keys, degree=(internal_of >= 0).astype(np.int64)).tolist()
    budgets = int(options.device_gib * GIB), int(options.host_gib * GIB)
    cuda_disk.known_facts(graph, kernel)
    with MemoryWatch(interval_s=0.02) as watch:
        search, pool, load_s = within(graph, kernel, *budgets)
        loaded = watch.peak_bytes
    checked = Validated(source, graph, kernel, len(keys))
    found = searched(graph, kernel, search, keys, internal_of[keys].tolist(), checked)
    search.close()
    assert pool.total_bytes() <= search.plan.device_bytes <= budgets[0]
    rates = [one["bytes"] / s for one, s in zip(found["moved"], found["times_s"], strict=True)]
    return {
        "rows": graph.rows,
        "arcs": graph.arcs,
        "store_bytes": sum(path.stat().st_size for path in chunks_of(graph, kernel)),
        "plan": describe_disk(search.plan),
        "device_peak_bytes": pool.total_bytes(),
        "host_bytes_while_loading": loaded - watch.baseline_bytes,
        "build_s": build_s,
        "load_s": load_s,
        "disk_bytes_per_s": disk,
        "share_of_disk": [rate / disk for rate in rates],
        "median_share_of_disk": float(np.median(rates)) / disk,
        "keys": keys,
        **found,
    }


def main() -> None:
    program = DeviceProgram("gpu_disk", __doc__, scale=26, folder=None)
    program.add("--kernel", choices=("bfs", "sssp"), default="bfs")
    program.add("--device-gib", type=float, default=1)
    program.add("--host-gib", type=float, default=1)
    program.add("--keys", type=int, default=64)
    program.add("--compress", action="store_true", help="a store of fewer bits an arc")
    options = program.parse()
    parameters = program.given("kernel", "scale", "device_gib", "host_gib", "compress")
    with program.scratch() as folder:
        program.flat_record(parameters, measured(options, folder))


if __name__ == "__main__":
    main()
