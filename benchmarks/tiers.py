"""Searches with most arcs in the store: time and bytes read against the share in memory.

    python benchmarks/tiers.py --store G.zarr --scale 20 [--searches 16] [--kernels bfs,sssp]
    python benchmarks/tiers.py --store G.zarr --scale 20 --limit [--searches 4] [--limit-bytes N]

The store is that of Graph500's generator; it is built where it is not there. Without --limit every
source is searched in memory and with 100, 50, 25, 12 and 6 % of the arcs in memory at most, in
turn, the page cache warm, and answers are compared byte for byte. Times are of the search alone,
the best of three; bytes are whole blocks of 64 KiB. For comparison a plain pass over all arcs a
level (BFS), or a round until nothing changes (SSSP), streams the store as GridGraph does; its bytes
are passes times arcs, of the first two sources.

With --limit: the API's search, in a process of its own, within a quarter of the bytes of the
store's arcs (all row orders), and of those that the kernel reads if that is not refused; or within
--limit-bytes. See tiers_limit.py.
"""

from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from harness.graphs import internal_keys
from harness.program import KERNELS, Program, load_average
from harness.timing import answer_of, medians, reached_by, timed
from tiers_limit import limits_of, within_limits

import ooc_graph as og
from ooc_graph.kernels.common.compiled import kernel as compiled
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import ORDER_OF, rows_path
from ooc_graph.memory.cpu.plan import Plan, describe
from ooc_graph.memory.heads import rules
from ooc_graph.report.graph500 import teps_statistics
from ooc_graph.shards.tier_facts import facts_of
from ooc_graph.shards.tiers import load_tiers
from ooc_graph.threads import cores
from ooc_graph.types import AnyArray

SHARES = (1.0, 0.5, 0.25, 0.12, 0.06)
STREAMED = 2
BATCH_BLOCKS = 32
REPEATS = 3
NOTED = "requests", "reading_s", "waited_s"


@compiled
def _relax_chunk(
    row: int, first: int, offsets: Any, neighbors: Any, weights: Any, measure: Any, most: Any
) -> Any:
    """Look at every arc of a chunk that begins at arc ``first``, in row ``row``.

    Arcs to neighbors whose measure is above ``most`` are left out. No weights: all are 1.
    """
    changed = 0
    for index in range(len(neighbors)):
        while offsets[row + 1] <= first + index:
            row += 1
        known = measure[neighbors[index]]
        candidate = known + (weights[index] if len(weights) else weights.dtype.type(1))
        if known <= most and candidate < measure[row]:
            measure[row] = candidate
            changed += 1
    return row, changed


def streamed(graph: og.Graph, kernel: str, root: int) -> tuple[AnyArray, int]:
    """Levels or distances by passes over all arcs, and the number of passes."""
    group, stored = rows_path(0, "out", ORDER_OF[kernel]), graph.stored
    assert graph.shards == 1
    assert not graph.directed
    offsets = stored.read(f"{group}/offsets").astype(np.int64)
    dtype = np.dtype(np.int32) if kernel == "bfs" else graph.weight_dtype
    far = np.iinfo(dtype).max if kernel == "bfs" else np.inf
    measure = np.full(graph.rows, far, dtype)
    measure[root] = 0
    passes, changed = 0, 1
    while changed:
        row, first, changed = 0, 0, 0
        # A pass of BFS finds one level.
        most = passes if kernel == "bfs" else far
        weights = repeat(measure[:0]) if kernel == "bfs" else stored.blocks(f"{group}/weights")
        for chunk, weight in zip(stored.blocks(f"{group}/neighbors"), weights, strict=False):
            row, found = _relax_chunk(row, first, offsets, chunk, weight, measure, most)
            changed += found
            first += len(chunk)
        passes += 1
    if kernel == "bfs":
        measure[measure == far] = -1
    return measure, passes


def plan_of_share(graph: og.Graph, kernel: str, share: float) -> Plan | None:
    """Most arcs in memory that are no more than a share of all; None where that is too few."""
    facts = facts_of(graph, kernel)
    plans = [Plan(facts, 0, rule, BATCH_BLOCKS, 0) for rule in rules(kernel)]
    fitting = [plan for plan in plans if plan.head_arcs <= share * facts.arcs]
    return replace(fitting[-1], budget_bytes=fitting[-1].bytes) if fitting else None


def compare(program: Program, graph: og.Graph, kernel: str, roots: list[int]) -> None:
    device, tuples = CpuDevice(cores()), graph.tuples()
    search = getattr(device, kernel)(graph.load(ORDER_OF[kernel]))
    passes, edges = [], []
    for number, root in enumerate(roots):
        tree = search.run(root)
        edges.append(int(tuples[reached_by(tree)].sum(dtype=np.int64)) // 2)
        if number < STREAMED:
            seconds, _, (found, count) = timed(partial(streamed, graph, kernel, root))
            if found.tobytes() != answer_of(tree)[1]:
                raise SystemExit(f"{kernel}: streaming differs from internal id {root}")
            passes.append({"passes": count, "s": seconds})
    facts = facts_of(graph, kernel)
    arc_bytes = facts.arcs * facts.arc_bytes
    plain = arc_bytes * float(np.mean([one["passes"] for one in passes]))
    parameters = program.given("scale", "searches") | {"kernel": kernel, "threads": cores()}
    for share in SHARES:
        plan = plan_of_share(graph, kernel, share)
        if plan is None:
            print(f"{kernel:4} {share:4.0%}: the first arcs of all rows are more than that")
            continue
        load_s, _, tier = timed(partial(load_tiers, graph, plan, device))
        loaded = tier.io_stats.bytes
        tier.run(roots[0])
        figures = {
            "share": share,
            "resident_share": plan.head_arcs / facts.arcs,
            "rule": str(plan.rule),
            "plan": describe(plan),
            "arc_bytes": arc_bytes,
            "plain_bytes": plain,
            "plain": passes,
            "load_s": load_s,
            "load_bytes": loaded,
            **in_turn(search, tier, roots, edges),
            **load_average(),
        }
        tier.close()
        read = figures["mean_read_bytes"]
        figures["plain_ratio"] = plain / read if read else None
        program.record(parameters, figures)
    device.close()


def in_turn(search: Any, tier: Any, roots: list[int], edges: list[int]) -> dict[str, Any]:
    """Search every source in memory and with the tier, in turn; answers must be the same."""
    times: dict[str, list[float]] = {"memory": [], "tier": []}
    io_stats = []
    for root in roots:
        pairs = []
        for _ in range(REPEATS):
            wanted, before = search.run(root), tier.io_stats
            found = tier.run(root)
            since = tier.io_stats.since(before)
            pairs.append((wanted.elapsed_s, found.elapsed_s))
            if answer_of(found) != answer_of(wanted):
                raise SystemExit(f"answers differ from internal id {root}")
        for who, seconds in zip(times, zip(*pairs, strict=True), strict=True):
            times[who].append(min(seconds))
        io_stats.append(since)
    rates = {who: teps_statistics(seconds, edges) for who, seconds in times.items()}
    median = medians(times)
    return {
        "times_s": times,
        "median_s": median,
        "harmonic_teps": {who: rate.harmonic_mean for who, rate in rates.items()},
        "ratio_of_medians": median["tier"] / median["memory"],
        "ratio_of_minima": min(times["tier"]) / min(times["memory"]),
        "mean_read_bytes": float(np.mean([one.bytes for one in io_stats])),
        "read_bytes": [one.bytes for one in io_stats],
        **{name: [getattr(one, name) for one in io_stats] for name in NOTED},
    }


def main() -> None:
    program = Program("tiers", __doc__, searches=16, kernels=KERNELS)
    program.add("--store", type=Path, required=True)
    program.add("--scale", type=int, required=True)
    program.add("--limit", action="store_true")
    program.add("--limit-bytes", type=int, help="instead of quarters of the arcs' bytes")
    options = program.parse()
    source = og.Kronecker(options.scale)
    graph = og.open(options.store) if options.store.exists() else og.build(source, options.store)
    roots = internal_keys(graph, source, options.searches)
    for kernel in options.kernels:
        if options.limit:
            limits = limits_of(graph, kernel, options.limit_bytes)
            within_limits(program, graph, kernel, roots, limits)
        else:
            compare(program, graph, kernel, roots)


if __name__ == "__main__":
    main()
