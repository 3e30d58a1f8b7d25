"""Near-far beside the general SSSP search, on graphs of many kinds, their sources in turn.

    python benchmarks/near_far.py [--searches 12] [--threads N]

Both searches have the same rows, and answers are compared byte for byte. One search of each goes
before. Recorded are medians, the package's choice, and the share of arcs that each looked at.
"""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from harness.graphs import Ends, grid_ends, kronecker_ends, light_shard, random_roots
from harness.program import Program, load_average
from harness.timing import alternate, arcs_of, medians

from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch, suits_near_far
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.threads import cores
from ooc_graph.types import Shard

RANDOM_STATE = 5


def at_random(random: np.random.Generator, vertices: int, edges: int, power: float) -> Ends:
    """Ends drawn apart from each other; a power above 1 makes hubs."""
    u, v = ((vertices * random.random(edges) ** power).astype(np.int64) for _ in range(2))
    return u, v, vertices


def cases() -> Iterator[tuple[str, Shard]]:
    random = np.random.default_rng(RANDOM_STATE)
    ends = {
        "grid of 700 x 700": grid_ends(700),
        "random, degree 4": at_random(random, 300_000, 600_000, 1),
        "random, degree 16": at_random(random, 200_000, 1_600_000, 1),
        "random, degree 64": at_random(random, 50_000, 1_600_000, 1),
        "random to the power 1.5": at_random(random, 200_000, 1_000_000, 1.5),
        "random to the power 2": at_random(random, 200_000, 1_000_000, 2),
        "Kronecker 16": kronecker_ends(16, 16),
        "Kronecker 18, edge factor 4": kronecker_ends(18, 4),
    }
    for name, (u, v, vertices) in ends.items():
        for heaviest in (2, 1000):
            weight = random.integers(1, heaviest + 1, len(u)).astype(np.int32)
            yield f"{name}, integers to {heaviest}", light_shard(u, v, weight, vertices=vertices)
        floats = (1e-3 + random.random(len(u))).astype(np.float32)
        yield f"{name}, floats", light_shard(u, v, floats, vertices=vertices)


def compare(shard: Shard, searches: int, team: Team) -> dict[str, Any]:
    rows = shard.out_light
    both = {
        "general": CpuSsspSearch(rows, rows, shard.tuples, team),
        "near-far": CpuNearFarSearch(rows, rows, shard.tuples, team),
    }
    read: dict[str, list[int]] = {name: [] for name in both}
    roots = random_roots(len(shard.tuples), searches, RANDOM_STATE)
    times = alternate(both, roots, lambda name, tree, _: read[name].append(arcs_of(tree)))
    median = medians(times)
    return {
        "rows": len(shard.tuples),
        "arcs": len(rows.neighbors),
        "longest_row": int(np.diff(rows.offsets.view(np.int64)).max()),
        "median_s": median,
        "near_far_is_faster_by": median["general"] / median["near-far"],
        "arcs_share": {n: statistics.median(r) / len(rows.neighbors) for n, r in read.items()},
        "chosen": "near-far" if suits_near_far(rows, shard.tuples) else "general",
        "times_s": times,
    }


def main() -> None:
    program = Program("near_far", __doc__, searches=12, threads=cores())
    options = program.parse()
    team = Team(options.threads)
    for name, shard in cases():
        figures = compare(shard, options.searches, team)
        parameters = {"graph": name, **program.given("searches", "threads")}
        program.record(parameters, figures | load_average())


if __name__ == "__main__":
    main()
