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

from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from harness.graphs import (
    RANDOM_STATE,
    ROAD_NY,
    both_sides,
    data_folder,
    kronecker_in_memory,
    random_arcs,
    some_rows,
)
from harness.program import Program, load_average
from harness.timing import least, same_bytes, take_turns
from numba import njit

import ooc_graph as og
from ooc_graph.kernels.common.sides import light_rows
from ooc_graph.kernels.common.team import Team
from ooc_graph.kernels.cpu.many.search import CpuManySearch
from ooc_graph.kernels.cpu.many.sssp import LOOKED, RELAXED, ROWS, SWEEPS
from ooc_graph.types import AnyArray, Rows

SCALE, VERTICES = 16, 8000
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


def roads() -> tuple[Rows, Rows]:
    with TemporaryDirectory() as folder:
        graph = og.build(data_folder() / ROAD_NY, f"{folder}/g.zarr")
        sides = light_rows(graph.load("light"))
    out, into = (Rows(s.offsets, s.neighbors, s.weights.astype(np.float64)) for s in sides)  # type: ignore[union-attr]
    return out, into


GRAPHS: dict[str, Callable[[], tuple[Rows, Rows]]] = {
    "kronecker": lambda: light_rows(kronecker_in_memory(SCALE).load("light")),
    "random": lambda: both_sides(random_arcs(VERTICES, negative=False)),
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
    search.counts[:] = 0
    counted = np.zeros(4, np.int64)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: search.run(sources, mine),
        "settled": lambda: settle(*arrays, sources, theirs, counted),
    }
    same = same_bytes()

    def check(name: str, _: Any) -> None:
        same(name, mine if name == "ours" else theirs)

    turns = take_turns(calls, repeats, check=check)
    own, lanes = search.counts[0] // repeats, len(sources)
    ours = [int(count) for count in (own[SWEEPS], own[ROWS], own[RELAXED], own[RELAXED] * lanes)]
    best = least(turns.times_s)
    return {
        "times_s": turns.times_s,
        "least_s": best,
        "ours": dict(zip(NAMES, ours, strict=True)) | {"arcs_looked_at": int(own[LOOKED])},
        "settled": dict(zip(NAMES, (counted // repeats).tolist(), strict=True)),
        "ours_is_faster_by": best["settled"] / best["ours"],
    }


def main() -> None:
    program = Program("johnson", __doc__, repeats=3)
    program.add("graphs", nargs="*", help=f"of {', '.join(GRAPHS)} [all]")
    program.add("--lanes", type=int, default=64)
    options = program.parse()
    for name in options.graphs or GRAPHS:
        out, into = GRAPHS[name]()
        rows = len(out.offsets) - 1
        chosen = some_rows(rows, options.lanes)
        # Compiles both; a search of one batch anyhow.
        measure((out, into), chosen[:2], 1)
        figures = measure((out, into), chosen, options.repeats)
        parameters = {
            "graph": name,
            "vertices": rows,
            "arcs": len(out.neighbors),
            "lanes": options.lanes,
            "threads": 1,
            "random_state": RANDOM_STATE,
        }
        program.record(parameters, figures | load_average(), "johnson_settled")


if __name__ == "__main__":
    main()
