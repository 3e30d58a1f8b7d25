"""Where an SSSP search spends its time, and what this machine's memory allows.

    python benchmarks/phases.py [--scale 20] [--searches 16] [--folder DIR]

The phases of the one-rank search are called one by one on a single thread and timed; beside each
stand the arcs it examined and nanoseconds an arc and a row. Bounds: a sequential read, and look-ups
at random in a table as large as the distances, what an examined arc costs at least.
"""

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from harness.graphs import internal_keys
from harness.program import Program, load_average
from harness.timing import repeated, timed
from numba import njit

import ooc_graph as og
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.team import CHUNK, OPERATION, Team, new_control
from ooc_graph.kernels.cpu.sssp import fused
from ooc_graph.kernels.cpu.sssp.parents import EXAMINED, inner_parents, parents_part
from ooc_graph.kernels.cpu.sssp.pull import pull_part
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray

SEQUENTIAL_BYTES = 1 << 28
LOOK_UPS = 1 << 22
REPEATS = 7

# Parts of the search, made callable from Python.
_reset, _push = kernel(fused._reset.py_func), kernel(fused._push.py_func)
_plan_after_pull = kernel(fused._plan_after_pull.py_func)
_forget_parents = kernel(fused._forget_parents.py_func)


@njit(nogil=True)
def _gather(table: AnyArray, places: AnyArray) -> Any:
    total = table[0]
    for place in places:
        total += table[place]
    return total


def least_s(function: Callable[[], Any]) -> float:
    return min(one.elapsed_s for one in repeated(function, REPEATS))


def bounds(distances: int) -> dict[str, float]:
    """One thread's sequential read, and its look-ups in a table of float32 of this length."""
    long = np.zeros(SEQUENTIAL_BYTES // 8)
    table = np.zeros(distances, np.float32)
    places = np.random.default_rng(1).integers(0, distances, LOOK_UPS, dtype=np.uint32)
    return {
        "read_bytes_per_s": SEQUENTIAL_BYTES / least_s(long.sum),
        "look_up_ns": least_s(lambda: _gather(table, places)) / LOOK_UPS * 1e9,
    }


class Clock:
    """Seconds and arcs by phase."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.arcs: Counter[str] = Counter()

    def timed(self, phase: str, function: Callable[..., Any], *arguments: Any) -> Any:
        elapsed_s, _, done = timed(lambda: function(*arguments))
        self.seconds[phase] += elapsed_s
        return done


def search_by_phases(search: CpuSsspSearch, root: int, clock: Clock) -> None:
    """One search, as `sssp.fused.search` has it, on one thread."""
    out, into, wave, answer = search._out, search._into, search._wave, search._answer
    control, limits = new_control(), answer.limits
    wave.step[0] = search._step
    clock.timed("reset", _reset, 0, 1, wave)
    clock.timed("push", _push, control, out, wave, answer, root, search._may_pull)
    number = 0
    while control[OPERATION] != fused.PARENTS:
        number += 1
        within = (limits[fused.FINAL], limits[fused.FLOOR], answer.ranges, answer.scratches)
        phase = f"pull {number}"
        rows = (into, wave, wave.distance[:0])
        clock.timed(phase, pull_part, 0, 1, control, *rows, *within)
        clock.arcs[phase] += int(control[EXAMINED])
        clock.timed("finish", _plan_after_pull, control, out, wave, answer)
    clock.arcs["push"] += int(control[fused.PUSHED])
    clock.arcs["finish"] += int(control[fused.FINISHED])
    clock.timed("reset", _forget_parents, 0, 1, answer.parent)
    control[CHUNK] = control[EXAMINED] = 0
    none = answer.parent[:0]
    inner = (out, wave, answer.parent, control[fused.INNER], none, none)
    clock.arcs["parents"] += clock.timed("parents", inner_parents, *inner)[1]
    within = (root, limits[fused.BEYOND], answer.scratches)
    clock.timed("parents", parents_part, 0, 1, control, into, wave, answer.parent, *within)
    clock.arcs["parents"] += int(control[EXAMINED])


def main() -> None:
    program = Program("phases", __doc__, scale=20, searches=16, folder=None)
    options = program.parse()
    source = og.Kronecker(options.scale)
    with program.scratch() as scratch:
        graph = og.build(source, scratch / "graph.zarr")
        rows, tuples = graph.load("light").out_light, graph.tuples()
        roots = internal_keys(graph, source, options.searches)
    alone = CpuSsspSearch(rows, rows, tuples, Team(1))
    search_by_phases(alone, roots[0], Clock())
    clock = Clock()
    for root in roots:
        search_by_phases(alone, root, clock)
    del alone
    together = CpuSsspSearch(rows, rows, tuples, Team(cores()))
    together.run(roots[0])
    whole = [together.run(root).elapsed_s for root in roots]
    figures = {
        **bounds(graph.rows),
        "rows": graph.rows,
        "arcs": graph.arcs,
        "phases_of_one_thread": phases_of(clock, graph.rows, len(roots)),
        "one_thread_s": sum(clock.seconds.values()) / len(roots),
        "threads": cores(),
        "whole_median_s": statistics.median(whole),
    }
    program.record(
        program.given("scale", "searches") | {"edge_factor": 16}, figures | load_average()
    )


def phases_of(clock: Clock, rows: int, searches: int) -> dict[str, dict[str, float | None]]:
    phases = {}
    for phase, seconds in clock.seconds.items():
        each, arcs = seconds / searches, clock.arcs[phase] / searches
        per_arc = each / arcs * 1e9 if arcs else None
        phases[phase] = {"ms": each * 1e3, "arcs": arcs, "ns_per_arc": per_arc}
        phases[phase]["ns_per_row"] = each / rows * 1e9
    return phases


if __name__ == "__main__":
    main()
