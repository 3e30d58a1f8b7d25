"""Near-far beside the general SSSP search, on graphs of many kinds, their sources in turn.

    python benchmarks/near_far.py [--searches 12] [--threads N]

Both searches hold the same rows; each source is searched by both, and the answers are compared byte
for byte. One search of each goes before. Printed and recorded are medians, the search that the
package chooses, and the share of the arcs that each looked at. Appends to records/near_far.jsonl.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ooc_graph as og
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.sssp.near_far_search import CpuNearFarSearch, suits_near_far
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.types import AnyArray, Shard

RECORDS = Path(__file__).parent / "records" / "near_far.jsonl"
RANDOM_STATE = 5
Ends = tuple[AnyArray, AnyArray, int]


def kronecker(scale: int, edge_factor: int) -> Ends:
    u, v, _ = og.Kronecker(scale, edge_factor=edge_factor).block(0, edge_factor << scale)
    return u, v, 1 << scale


def at_random(random: np.random.Generator, vertices: int, edges: int, power: float) -> Ends:
    """Ends drawn apart from each other; a power above 1 makes hubs."""
    u, v = ((vertices * random.random(edges) ** power).astype(np.int64) for _ in range(2))
    return u, v, vertices


def grid(side: int) -> Ends:
    at = np.arange(side * side).reshape(side, side)
    u = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    v = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    return u, v, side * side


def cases() -> Iterator[tuple[str, Shard]]:
    random = np.random.default_rng(RANDOM_STATE)
    ends = {
        "grid of 700 x 700": grid(700),
        "random, degree 4": at_random(random, 300_000, 600_000, 1),
        "random, degree 16": at_random(random, 200_000, 1_600_000, 1),
        "random, degree 64": at_random(random, 50_000, 1_600_000, 1),
        "random to the power 1.5": at_random(random, 200_000, 1_000_000, 1.5),
        "random to the power 2": at_random(random, 200_000, 1_000_000, 2),
        "Kronecker 16": kronecker(16, 16),
        "Kronecker 18, edge factor 4": kronecker(18, 4),
    }
    for name, (u, v, vertices) in ends.items():
        for heaviest in (2, 1000):
            weight = random.integers(1, heaviest + 1, len(u)).astype(np.int32)
            yield f"{name}, integers to {heaviest}", shard_of(u, v, weight, vertices)
        floats = (1e-3 + random.random(len(u))).astype(np.float32)
        yield f"{name}, floats", shard_of(u, v, floats, vertices)


def shard_of(u: AnyArray, v: AnyArray, weight: AnyArray, vertices: int) -> Shard:
    graph: Any = og.from_edges(u, v, weight, vertices=vertices)
    shard: Shard = graph.load("light")
    return shard


def compare(shard: Shard, searches: int, team: Team, random: np.random.Generator) -> dict[str, Any]:
    rows = shard.out_light
    assert rows is not None
    both = {
        "general": CpuSsspSearch(rows, rows, shard.tuples, team),
        "near-far": CpuNearFarSearch(rows, rows, shard.tuples, team),
    }
    times: dict[str, list[float]] = {name: [] for name in both}
    read: dict[str, list[int]] = {name: [] for name in both}
    roots = random.integers(0, len(shard.tuples), searches).tolist()
    for search in both.values():
        search.run(roots[0])
    for turn, root in enumerate(roots):
        answers = set()
        for name in sorted(both, reverse=turn % 2 == 1):
            tree = both[name].run(root)
            times[name].append(tree.elapsed_s)
            read[name].append(sum(tree.phase_arcs.values()))
            answers.add((tree.distance.tobytes(), tree.parent.tobytes()))
        if len(answers) > 1:
            raise SystemExit(f"the two searches from {root} differ")
    median = {name: statistics.median(found) for name, found in times.items()}
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=12)
    parser.add_argument("--threads", type=int, default=cores())
    options = parser.parse_args()
    team, random = Team(options.threads), np.random.default_rng(RANDOM_STATE)
    for name, shard in cases():
        figures = compare(shard, options.searches, team, random)
        median = figures["median_s"]
        print(
            f"{name:42s} general {median['general'] * 1e3:7.2f} ms, near-far "
            f"{median['near-far'] * 1e3:7.2f} ms, ratio {figures['near_far_is_faster_by']:5.2f}, "
            f"chosen: {figures['chosen']}",
            flush=True,
        )
        append_record(
            RECORDS,
            {
                "benchmark": "near_far",
                "parameters": {
                    "graph": name,
                    "searches": options.searches,
                    "threads": options.threads,
                },
                "figures": {**figures, "load_average": os.getloadavg()[0]},
            },
        )


if __name__ == "__main__":
    main()
