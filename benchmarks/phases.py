"""Where an SSSP search spends its time, and what this machine's memory allows.

    python benchmarks/phases.py [--scale 20] [--searches 16] [--folder DIR]

The phases of the one-rank search are called one by one on a single thread and timed; beside each
stand the arcs it examined and nanoseconds an arc and a row. The bounds are measured in the same
run: a sequential read, and look-ups at random places of a table as large as the distances, which
is what an examined arc costs at least. Appends to records/phases.jsonl.
"""

from __future__ import annotations

import argparse
import collections
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numba import njit

import ooc_graph as og
from ooc_graph.kernels.common.compiled import kernel
from ooc_graph.kernels.common.team import CHUNK, OPERATION, Team, new_control
from ooc_graph.kernels.cpu.sssp import fused
from ooc_graph.kernels.cpu.sssp import parents as sssp_parents
from ooc_graph.kernels.cpu.sssp import pull as sssp_pull
from ooc_graph.kernels.cpu.sssp.parents import EXAMINED, Lane
from ooc_graph.kernels.cpu.sssp.search import CpuSsspSearch
from ooc_graph.report.records import append_record
from ooc_graph.types import AnyArray

RECORDS = Path(__file__).parent / "records" / "phases.jsonl"
SEQUENTIAL_BYTES = 1 << 28
LOOK_UPS = 1 << 22
REPEATS = 7

# Parts of the search, made callable from Python.
_reset, _push = kernel(fused._reset.py_func), kernel(fused._push.py_func)
_plan_after_pull = kernel(fused._plan_after_pull.py_func)
_forget_parents = kernel(fused._forget_parents.py_func)
inner_parents = kernel(sssp_parents.inner_parents.py_func)
parents_part = kernel(sssp_parents.parents_part.py_func)
pull_part = kernel(sssp_pull.pull_part.py_func)


@njit(nogil=True)
def _gather(table: AnyArray, places: AnyArray) -> Any:
    total = table[0]
    for place in places:
        total += table[place]
    return total


def least_s(function: Callable[[], Any]) -> float:
    """Smallest time of several calls, the first not counted."""
    times = []
    for _ in range(REPEATS + 1):
        begun = perf_counter()
        function()
        times.append(perf_counter() - begun)
    return min(times[1:])


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
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: collections.defaultdict[str, float] = collections.defaultdict(float)
        self.arcs: collections.Counter[str] = collections.Counter()

    def timed(self, phase: str, function: Callable[..., Any], *arguments: Any) -> Any:
        begun = perf_counter()
        done = function(*arguments)
        self.seconds[phase] += perf_counter() - begun
        return done


def search_by_phases(search: CpuSsspSearch, root: int, clock: Clock) -> None:
    """One search, as `sssp.fused.search` has it, on one thread."""
    out, into, wave, answer = search._out, search._into, search._wave, search._answer
    control, limits = new_control(), answer.limits
    lane = Lane(answer.left[0], answer.best[0])
    wave.step[0] = search._step
    clock.timed("reset", _reset, 0, 1, wave)
    clock.timed("push", _push, control, out, wave, answer, root, search._may_pull)
    number = 0
    while control[OPERATION] != fused.PARENTS:
        number += 1
        where = (limits[fused.FINAL], limits[fused.FLOOR], answer.ranges[0], lane)
        phase = f"pull {number}"
        clock.timed(phase, pull_part, control, into, wave.distance, wave.queue, *where)
        clock.arcs[phase] += int(control[EXAMINED])
        clock.timed("finish", _plan_after_pull, control, out, wave, answer)
    clock.arcs["push"] += int(control[fused.PUSHED])
    clock.arcs["finish"] += int(control[fused.FINISHED])
    clock.timed("reset", _forget_parents, 0, 1, answer.parent)
    control[CHUNK] = control[EXAMINED] = 0
    inner = (out, wave, answer.parent, control[fused.INNER])
    clock.arcs["parents"] += clock.timed("parents", inner_parents, *inner)
    where = (root, limits[fused.BEYOND], wave.top[0], lane)
    rows = (control, into, wave.distance, answer.parent, wave.pending)
    clock.timed("parents", parents_part, *rows, *where)
    clock.arcs["parents"] += int(control[EXAMINED])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=20)
    parser.add_argument("--searches", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    source = og.Kronecker(options.scale)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="phases-benchmark-") as scratch:
        og.build(source, Path(scratch) / "graph.zarr")
        graph = og.open(Path(scratch) / "graph.zarr")
        rows, tuples = graph.load("light").out_light, graph.tuples()
        roots = graph.internal_of()[source.search_keys(options.searches)]
    assert rows is not None
    alone = CpuSsspSearch(rows, rows, tuples, Team(1))
    search_by_phases(alone, int(roots[0]), Clock())
    clock = Clock()
    for root in roots:
        search_by_phases(alone, int(root), clock)
    del alone
    together = CpuSsspSearch(rows, rows, tuples, Team(os.cpu_count() or 1))
    together.run(int(roots[0]))
    whole = [together.run(int(root)).elapsed_s for root in roots]
    report(options, graph, clock, whole)


def report(options: argparse.Namespace, graph: og.Graph, clock: Clock, whole: list[float]) -> None:
    """Print a table and append the record."""
    limits, searches = bounds(graph.rows), options.searches
    print(
        f"scale {options.scale}: {graph.rows:,} rows, {graph.arcs:,} arcs; one thread reads "
        f"{limits['read_bytes_per_s'] / 1e9:.1f} GB/s, a random look-up in the distances takes "
        f"{limits['look_up_ns']:.1f} ns"
    )
    phases = {}
    for phase, seconds in clock.seconds.items():
        each, arcs = seconds / searches, clock.arcs[phase] / searches
        phases[phase] = {"ms": each * 1e3, "arcs": arcs, "ns_per_row": each / graph.rows * 1e9}
        an_arc = f"{each / arcs * 1e9:7.1f} ns an arc" if arcs else ""
        print(f"{phase:8} {each * 1e3:8.2f} ms {arcs:12,.0f} arcs {an_arc}")
    total = sum(clock.seconds.values()) / searches
    threads = os.cpu_count() or 1
    print(
        f"one thread {total * 1e3:.1f} ms; {threads} threads {np.median(whole) * 1e3:.1f} ms median"
    )
    append_record(
        RECORDS,
        {
            "benchmark": "phases",
            "parameters": {"scale": options.scale, "edge_factor": 16, "searches": searches},
            "figures": {
                **limits,
                "rows": graph.rows,
                "arcs": graph.arcs,
                "phases_of_one_thread": phases,
                "one_thread_s": total,
                "threads": threads,
                "whole_median_s": float(np.median(whole)),
                "load_average": os.getloadavg()[0],
            },
        },
    )


if __name__ == "__main__":
    main()
