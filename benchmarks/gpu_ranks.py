"""BFS over several CUDA devices of a host that reach each other's memory, against one of them.

    python benchmarks/gpu_ranks.py [--scales 26,28] [--searches 64] [--budget-gib N]
                                   [--records PATH]

Every device builds the whole graph and keeps it, and of it the rows that are dealt to it. Each root
is searched by all devices together, and then by each alone. A time is from the launch until levels
and parents (internal ids) stand in device memory, by events: of all together, the shortest of the
devices', which is that of the one that began last; alone, their median. Before each search, memory
as large as the caches is written. The answers of both are compared on the devices, all rows of
every root; those of one device are what `gpu.py` validates. Rates count input tuples between
reached vertices.

With --budget-gib rows are in pinned host memory, and a search may use so much of each device. What
supersteps take at least is kept for them on each of several.
"""

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import cupy
import numpy as np
from gpu_tiers import PinnedGraph, facts_of, pinned
from harness import device
from harness.device import DeviceGraph, DeviceProgram, free_memory

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.kernels.cuda.bfs.near import BfsShare
from ooc_graph.kernels.cuda.bfs.peers import PeerBfs
from ooc_graph.kernels.cuda.pinned.bfs import CudaTierBfsSearch
from ooc_graph.kernels.cuda.runtime.peers import identity
from ooc_graph.kernels.cuda.runtime.rank_bytes import bfs_bytes
from ooc_graph.kernels.cuda.runtime.rows import DeviceRows
from ooc_graph.memory.cuda.columns import LEAST_JOINED, JoinedPlan, filled
from ooc_graph.memory.cuda.pinned_plan import plan_bfs, rows_within
from ooc_graph.memory.cuda.pinned_ranks import RankFacts, plan_ranks
from ooc_graph.model.request import CUDA_FIXED_BYTES
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.types import DEAL_BLOCK, Dealing

CACHE_BYTES = 256 << 20


class Member:
    """One device: the whole graph, and its part in searches by all."""

    def __init__(self, kronecker: Kronecker, rank: int, ranks: int, budget: int) -> None:
        self.graph = device.build_kronecker(kronecker, "bfs")
        free_memory()
        rows = len(self.graph.original_of)
        self.dealing = Dealing(rows, ranks, rank)
        part = own_rows(self.graph, self.dealing)
        if budget:
            self.alone: Any = pinned_search(self.graph, budget)
            outside = DeviceRows(part.offsets, pinned(part.neighbors).device)
            del part
            free_memory()
            self.peers = PeerBfs(
                self.dealing, outside, outside, joined_share(outside, self.dealing, budget)
            )
        else:
            self.alone = device.new_search(self.graph, "bfs", original_parents=False)
            self.peers = PeerBfs(self.dealing, part, part)
        self.cache = cupy.empty(CACHE_BYTES, np.uint8)
        self.mine = cupy.asarray(self.dealing.owned())

    def begin(self, root: int, epoch: int) -> None:
        self.cache.fill(1)
        cupy.cuda.Device().synchronize()
        self.peers.launch(root, epoch, len(self.graph.rows.neighbors))

    def search_alone(self, root: int) -> float:
        self.cache.fill(2)
        cupy.cuda.Device().synchronize()
        return float(self.alone.run_on_device(root).elapsed_s)

    def differing(self) -> int:
        """Rows of whose answers the two differ; the last search of each is compared."""
        parent, level = self.alone._parent, self.alone._level
        levels = level[self.mine]
        same = (parent[self.mine] == self.peers.parent) & (levels == self.peers.level)
        return int((~same).sum())

    def tuples(self) -> int:
        """Input tuples between reached vertices."""
        return int(self.graph.tuples[self.alone._level != 255].sum()) // 2


def pinned_search(graph: DeviceGraph, budget: int) -> CudaTierBfsSearch:
    """One device's search of the whole graph in pinned memory."""
    rows = PinnedGraph(graph).rows
    plan = plan_bfs(replace(facts_of(rows), original_parents=False), budget)
    hubs = rows_within(rows.offsets, plan.hub_arcs)
    free_memory()
    return CudaTierBfsSearch(rows, rows, BfsShare(plan.columns, hubs, hubs), count_arcs=False)


def joined_share(rows: DeviceRows, dealing: Dealing, budget: int) -> BfsShare:
    """What a rank's device has of its rows beside what supersteps take at least."""
    facts = replace(facts_of(rows), original_parents=False)
    each = bfs_bytes(np.dtype(np.uint32))
    state = dealing.vertices * each.vertex + dealing.rows * (each.state + each.step)
    steps = RankFacts("bfs", facts.sides, state + CUDA_FIXED_BYTES, 4)
    left = plan_ranks(steps, budget).joined_bytes(facts.sides, 1)
    plan = filled(JoinedPlan(facts, left, vertices=dealing.vertices))
    if plan.columns < LEAST_JOINED:
        raise SystemExit(f"{budget:,} bytes are too few for ranks that search together")
    hubs = rows_within(rows.offsets, plan.hub_arcs)
    return BfsShare(plan.columns, hubs, hubs)


def own_rows(graph: DeviceGraph, dealing: Dealing) -> DeviceRows:
    """The rows dealt to a rank."""
    offsets = graph.rows.offsets
    owned = cupy.asarray(dealing.owned())
    degree = (offsets[owned + 1] - offsets[owned]).astype(np.uint64)
    mine = cupy.zeros(len(owned) + 1, np.uint64)
    cupy.cumsum(degree, out=mine[1:])
    neighbors = cupy.empty(int(mine[-1].get()), np.uint32)
    firsts = np.arange(dealing.shard * DEAL_BLOCK, dealing.vertices, DEAL_BLOCK * dealing.shards)
    begins = offsets[cupy.asarray(firsts)].get()
    ends = offsets[cupy.asarray(np.minimum(firsts + DEAL_BLOCK, dealing.vertices))].get()
    at = 0
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        neighbors[at : at + end - begin] = graph.rows.neighbors[begin:end]
        at += end - begin
    return DeviceRows(mine, neighbors)


def searched(kronecker: Kronecker, ranks: int, searches: int, budget: int) -> dict[str, Any]:
    with ThreadPoolExecutor(ranks) as threads:

        def everywhere(work: Callable[[int], Any]) -> list[Any]:
            def there(rank: int) -> Any:
                with cupy.cuda.Device(rank % cupy.cuda.runtime.getDeviceCount()):
                    return work(rank)

            return list(threads.map(there, range(ranks)))

        members: Sequence[Member] = everywhere(lambda rank: Member(kronecker, rank, ranks, budget))
        identities = everywhere(lambda _: identity())
        offers = everywhere(lambda rank: members[rank].peers.memory.offer)
        everywhere(lambda rank: members[rank].peers.join(identities, offers))
        with cupy.cuda.Device(0):
            keys, roots = device.search_roots(kronecker, members[0].graph.internal_of, searches)

        def both(root: int) -> dict[str, Any]:
            """Search by all, and by each alone."""
            epoch = max(member.peers.epoch for member in members) + 1
            everywhere(lambda rank: members[rank].begin(root, epoch))
            courses = everywhere(lambda rank: members[rank].peers.finish())
            if None in courses:
                raise RuntimeError(f"root {root}: a device did not come")
            alone = everywhere(lambda rank: members[rank].search_alone(root))
            return {
                "together_s": min(course.elapsed_s for course in courses),
                "alone_s": statistics.median(alone),
                "differ": sum(everywhere(lambda rank: members[rank].differing())),
                "tuples": everywhere(lambda rank: members[rank].tuples())[0],
                "levels": course_of(members[0].peers, courses),
            }

        both(roots[0])  # loads code
        found = [both(root) for root in roots]
    together, alone, tuples = (
        [one[name] for one in found] for name in ("together_s", "alone_s", "tuples")
    )
    ratios = [one / all_ for one, all_ in zip(alone, together, strict=True)]
    return {
        "roots": keys,
        "rows_that_differ": sum(one["differ"] for one in found),
        "together_s": together,
        "alone_s": alone,
        "teps": teps_statistics(together, tuples).to_dict(),
        "alone_teps": teps_statistics(alone, tuples).to_dict(),
        "mean_ratio": statistics.mean(alone) / statistics.mean(together),
        "median_ratio": statistics.median(ratios),
        "levels": [one["levels"] for one in found],
    }


def course_of(peers: PeerBfs, courses: Sequence[Any]) -> list[tuple[int, ...]]:
    """Of each level: vertices found, arcs pushed, arcs examined, direction, microseconds."""
    first = courses[0]
    us = np.diff(peers.level_ns[: len(first.pull) + 1]) // 1000
    examined = sum(course.examined for course in courses)
    found = [*first.found[1:].tolist(), 0]
    columns = found, first.pushed.tolist(), examined.tolist(), first.pull.tolist(), us.tolist()
    return list(zip(*columns, strict=True))


def main() -> None:
    program = DeviceProgram("gpu_ranks", __doc__, scales="26,28", searches=64)
    program.add("--ranks", type=int, default=cupy.cuda.runtime.getDeviceCount())
    program.add("--budget-gib", type=float, default=0.0, help="of each device; 0: all rows fit")
    options = program.parse()
    for scale in options.scales:
        kronecker = Kronecker(scale)
        budget = int(options.budget_gib * device.GIB)
        figures = searched(kronecker, options.ranks, options.searches, budget)
        parameters = {"scale": scale, "ranks": options.ranks, "edge_factor": kronecker.edge_factor}
        parameters |= {"budget_gib": options.budget_gib} if budget else {}
        program.flat_record(parameters, figures)
        for rank in range(cupy.cuda.runtime.getDeviceCount()):
            with cupy.cuda.Device(rank):
                free_memory()


if __name__ == "__main__":
    main()
