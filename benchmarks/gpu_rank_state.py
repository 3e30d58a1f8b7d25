"""Searches by the ranks of one process on a CUDA device: their seconds, and the memory they take.

    python benchmarks/gpu_rank_state.py [--scale 22] [--ranks 8] [--searches 8] [--records PATH]

Each rank has its rows in device memory. BFS goes by supersteps; SSSP does with a replica of all
distances, and by ranks of which each has the distances of its own rows alone. The last kind of
these leaves arcs in the store, within the least memory of a plan. Ranks take turns, and messages
stay in the process: seconds are those of the steps. Memory is what CuPy's pool has given out: to
ranks, to what all share, and at the peak of a search, without rows; of arcs in the store, with what
the device has of them. The sums of the distances of all kinds of SSSP are compared.
"""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from harness import device
from harness.device import DeviceProgram, free_memory
from harness.graphs import internal_keys

import ooc_graph as og
from ooc_graph.exchange.ranks import run_in_process
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.kernels.cuda.device import CudaDevice
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.memory.cuda.disk_ranks import least_disk_ranks
from ooc_graph.shards.device_ranks import load_disk_owner
from ooc_graph.strategies.cuda.owned_on_disk import facts_of
from ooc_graph.strategies.owned_lists import MOST_LISTED
from ooc_graph.traverse.bfs import bfs
from ooc_graph.traverse.sssp import sssp
from ooc_graph.traverse.sssp_owned import sssp_owned

POOL = cupy.get_default_memory_pool()


def used() -> int:
    """Bytes in use; what was freed is given back."""
    free_memory()
    return int(POOL.used_bytes())


class Peak(cupy.cuda.MemoryHook):
    """The most bytes that were in use at once."""

    name = "Peak"
    bytes = 0

    def malloc_postprocess(self, **_: Any) -> None:
        self.bytes = max(self.bytes, int(POOL.used_bytes()))


class BySupersteps:
    """BFS without the kernel that searches with other devices."""

    def __init__(self, rank: Any) -> None:
        self._rank = rank

    def __getattr__(self, name: str) -> Any:
        if name == "introduce":
            raise AttributeError(name)
        return getattr(self._rank, name)


def searched(graph: og.Graph, kind: str, roots: list[int]) -> dict[str, Any]:
    """Search from each root; seconds, memory, and a sum over all distances or levels."""
    on, shards = CudaDevice(), graph.shards
    dtype = distances_of(graph.weight_dtype)
    if kind == "bfs":
        load, make = partial(graph.load, HUB), lambda shard: BySupersteps(on.bfs_rank(shard))
        share, algorithm = partial(on.bfs_shared, graph.rows, shards), bfs
    elif kind == "sssp":
        load, make = partial(graph.load, LIGHT), on.sssp_rank
        share, algorithm = partial(on.sssp_shared, graph.rows, dtype), sssp
    else:
        load, make = partial(graph.load_out, shards=shards), on.owned_sssp_rank
        share = partial(on.owned_sssp_shared, graph.rows, shards, dtype)
        algorithm = partial(sssp_owned, most_listed=MOST_LISTED)
    before, order = used(), HUB if kind == "bfs" else LIGHT
    if kind == "owned disk":
        least = least_disk_ranks(facts_of(graph, range(shards), MOST_LISTED))
        tiers = [load_disk_owner(graph, shard, least, on) for shard in range(shards)]
        ranks, rows = [tier.search for tier in tiers], 0
    else:
        ranks = [make(load(shard)) for shard in range(shards)]
        rows = graph.resident_bytes(order, out_only=kind == "owned")
    held = used() - before - rows
    shared = share()
    everyones = used() - before - rows - held
    seconds, sums, peak = [], [], Peak()
    for number, root in enumerate([roots[0], *roots]):
        free_memory()
        shared = share()

        def search(root: int = root, shared: Any = shared) -> list[Any]:
            coroutines = [algorithm(rank, root, shared) for rank in ranks]
            return run_in_process(dict(enumerate(coroutines)), shared)

        with peak:
            took = device.timed(search)
        if number:
            seconds.append(took.elapsed_s)
            trees = took.result
            values = [tree.level if kind == "bfs" else tree.distance for tree in trees]
            reached = [column[np.isfinite(column) & (column >= 0)] for column in values]
            sums.append(sum(float(column.sum(dtype=np.float64)) for column in reached))
    return {
        "seconds": seconds,
        "sums": sums,
        "rows_bytes": rows,
        "held_bytes": held,
        "everyones_bytes": everyones,
        "peak_bytes": peak.bytes - before - rows,
    }


def main() -> None:
    program = DeviceProgram("gpu_rank_state", __doc__, scale=22, searches=8)
    program.add("--ranks", type=int, default=8)
    options = program.parse()
    with tempfile.TemporaryDirectory() as folder:
        kronecker = og.Kronecker(options.scale)
        graph = og.build(kronecker, Path(folder) / "g.zarr", shards=options.ranks, rows="both")
        roots = internal_keys(graph, kronecker, options.searches)
        sums = {}
        for kind in ("bfs", "sssp", "owned", "owned disk"):
            figures = searched(graph, kind, roots)
            sums[kind] = figures.pop("sums")
            figures["vertices"] = graph.rows
            program.flat_record(
                {"scale": options.scale, "ranks": graph.shards, "kind": kind}, figures
            )
        if sums["sssp"] != sums["owned"] or sums["sssp"] != sums["owned disk"]:
            raise SystemExit("the distances differ")


if __name__ == "__main__":
    main()
