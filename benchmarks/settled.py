"""One batch of sources by two rules of who pushes when: rows that are settled, and ours.

    python benchmarks/settled.py [kronecker] [random] [roads] [--lanes 64] [--repeats 3]

*Settled*: in a pass, every row pushes whose distance from some source does not exceed the least
sum of an unsettled row's distance and its lightest out-arc (the out-criterion of Crauser et al.,
MFCS 1998, which GPU versions of Johnson's algorithm use). It needs no width of steps, and a row
pushes once for each source. *Ours*: rows that improved wait in steps of a width, push lightest arcs
first, perhaps several times, and leave out arcs that lower nothing.

Both search one batch on one thread, distances vertex by vertex, a lane a source, every arc of the
graph in place; both write distances as rows, which are compared bit for bit. The other rule looks
in a pass at rows that wait alone, and relaxes for the lanes that push where these are few.
``kronecker``: Graph500's graph of scale 16, float32; ``random``: 8,000 vertices, 16 arcs each,
float64; ``roads``: New York of the shared data, float64.

Appends to records/johnson.jsonl.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from johnson import RANDOM_STATE, RECORDS, random_arcs, rows_of
from methods import shared_folder
from numba import njit

import ooc_graph as og
from ooc_graph.kernels.common.sides import light_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.search import CpuManySearch
from ooc_graph.kernels.cpu.many.sssp import LOOKED, RELAXED, ROWS, SWEEPS
from ooc_graph.report.records import append_record
from ooc_graph.types import AnyArray, Rows

SCALE, VERTICES = 16, 8000
ROADS = "dimacs9-road/USA-road-d.NY.gr.gz"
NAMES = ("passes", "rows", "arcs", "arcs_for_lanes")
"""What is counted: passes over waiting rows, rows that pushed, arcs relaxed, and how many sources
these were relaxed for in all."""


@njit(nogil=True)
def settle(
    offsets: Any, neighbors: Any, weights: Any, sources: Any, answer: Any, counts: Any
) -> None:
    """Search from all sources at once by the rule of settled rows; light-first rows."""
    rows, lanes = len(offsets) - 1, len(sources)
    kind = weights.dtype.type
    far = kind(np.inf)
    distance = np.full((rows, lanes), far, weights.dtype)
    # Distances that are not settled.
    open_ = np.full((rows, lanes), far, weights.dtype)
    waits = np.zeros(rows, np.bool_)
    waiting = np.empty(rows, np.int64)
    limit, pushed = np.empty(lanes, weights.dtype), np.empty(lanes, weights.dtype)
    active = np.empty(lanes, np.int64)
    many = 0
    for lane in range(lanes):
        source = sources[lane]
        distance[source, lane] = open_[source, lane] = 0
        if not waits[source]:
            waits[source] = True
            waiting[many] = source
            many += 1
    while many > 0:
        counts[0] += 1
        limit[:] = far
        for at in range(many):
            row = waiting[at]
            if offsets[row] < offsets[row + 1]:
                lightest = weights[offsets[row]]
                for lane in range(lanes):
                    limit[lane] = min(limit[lane], open_[row, lane] + lightest)
        kept, before = 0, many
        for at in range(before):
            row = waiting[at]
            pushing, left = 0, 0
            for lane in range(lanes):
                here = open_[row, lane]
                pushed[lane] = far
                if here <= limit[lane] and here < far:
                    pushed[lane] = here
                    open_[row, lane] = far
                    active[pushing] = lane
                    pushing += 1
                elif here < far:
                    left += 1
            if left > 0:
                waiting[kept] = row
                kept += 1
            else:
                waits[row] = False
            if pushing == 0:
                continue
            counts[1] += 1
            counts[2] += offsets[row + 1] - offsets[row]
            counts[3] += (offsets[row + 1] - offsets[row]) * pushing
            for position in range(offsets[row], offsets[row + 1]):
                v, weight, improved = neighbors[position], weights[position], False
                if pushing * 8 < lanes:
                    for index in range(pushing):
                        lane = active[index]
                        there = pushed[lane] + weight
                        if there < distance[v, lane]:
                            distance[v, lane] = open_[v, lane] = there
                            improved = True
                else:
                    for lane in range(lanes):
                        there = pushed[lane] + weight
                        is_less = there < distance[v, lane]
                        improved |= is_less
                        distance[v, lane] = there if is_less else distance[v, lane]
                        open_[v, lane] = there if is_less else open_[v, lane]
                if improved and not waits[v]:
                    waits[v] = True
                    waiting[many] = v
                    many += 1
        for at in range(before, many):
            waiting[kept] = waiting[at]
            kept += 1
        many = kept
    for row in range(rows):
        for lane in range(lanes):
            answer[lane, row] = distance[row, lane]


def kronecker() -> tuple[Rows, Rows]:
    edges = og.Kronecker(SCALE, weighted=True)
    graph: Any = og.from_edges(*edges.block(0, edges.edges), vertices=edges.vertices)
    return light_rows(graph.load("light"))


def random() -> tuple[Rows, Rows]:
    vertices, u, v, weight = random_arcs(VERTICES, negative=False)
    return rows_of(vertices, u, v, weight), rows_of(vertices, v, u, weight)


def roads() -> tuple[Rows, Rows]:
    with TemporaryDirectory() as folder:
        graph = og.build(shared_folder() / "data" / ROADS, Path(folder) / "g.zarr")
        sides = light_rows(graph.load("light"))
    out, into = (Rows(s.offsets, s.neighbors, s.weights.astype(np.float64)) for s in sides)  # type: ignore[union-attr]
    return out, into


GRAPHS: dict[str, Callable[[], tuple[Rows, Rows]]] = {
    "kronecker": kronecker,
    "random": random,
    "roads": roads,
}


def measure(sides: tuple[Rows, Rows], sources: AnyArray, repeats: int) -> dict[str, Any]:
    """Both in turn; seconds, and what they counted in one search."""
    out, into = sides
    assert out.weights is not None
    shape = len(sources), len(out.offsets) - 1
    mine, theirs = (np.ones(shape, out.weights.dtype) for _ in range(2))
    search = CpuManySearch(out, into, Team(1), len(sources))
    arrays = out.offsets.view(np.int64), out.neighbors.astype(np.int64), out.weights
    times: dict[str, list[float]] = {"ours": [], "settled": []}
    for _ in range(repeats):
        search.counts[:] = 0
        begun = perf_counter()
        search.run(sources, mine)
        times["ours"].append(perf_counter() - begun)
        counts = np.zeros(4, np.int64)
        begun = perf_counter()
        settle(*arrays, sources, theirs, counts)
        times["settled"].append(perf_counter() - begun)
        if mine.tobytes() != theirs.tobytes():
            raise SystemExit("the answers differ")
    own = search.counts[0]
    lanes = int(own[RELAXED]) * len(sources)
    ours = [int(own[SWEEPS]), int(own[ROWS]), int(own[RELAXED]), lanes]
    least = {name: min(found) for name, found in times.items()}
    return {
        "times_s": times,
        "least_s": least,
        "ours": dict(zip(NAMES, ours, strict=True)) | {"arcs_looked_at": int(own[LOOKED])},
        "settled": dict(zip(NAMES, counts.tolist(), strict=True)),
        "ours_is_faster_by": least["settled"] / least["ours"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help=f"of {', '.join(GRAPHS)} [all]")
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    for name in options.graphs or GRAPHS:
        out, into = GRAPHS[name]()
        rows, arcs = len(out.offsets) - 1, len(out.neighbors)
        chosen = np.random.default_rng(RANDOM_STATE).choice(rows, options.lanes, replace=False)
        # Compiles both; a search of one batch anyhow.
        measure((out, into), chosen[:2], 1)
        found = measure((out, into), chosen, options.repeats)
        print(f"{name}: {rows:,} rows, {arcs:,} arcs; least {found['least_s']}", flush=True)
        print(f"  ours {found['ours']}\n  settled {found['settled']}", flush=True)
        parameters = {"graph": name, "vertices": rows, "arcs": arcs, "lanes": options.lanes}
        append_record(
            options.records,
            {
                "benchmark": "johnson_settled",
                "parameters": parameters | {"threads": 1, "random_state": RANDOM_STATE},
                "figures": found | {"load_average": os.getloadavg()[0]},
            },
        )


if __name__ == "__main__":
    main()
