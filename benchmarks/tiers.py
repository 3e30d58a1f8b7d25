"""Searches with most arcs in the store: time and bytes read against the share in memory.

    python benchmarks/tiers.py --store G.zarr --scale 20 [--searches 16] [--kernels bfs,sssp]
    python benchmarks/tiers.py --store G.zarr --scale 20 --limit [--searches 4] [--limit-bytes N]

The store is that of Graph500's generator of the scale; it is built where it is not there.

Without --limit: every source is searched in memory and with 100, 50, 25, 12 and 6 % of the arcs in
memory at most, in turn, the page cache warm, and each answer is compared byte for byte. Memory
keeps nothing of what is read. Times are of the search alone, the best of three. Bytes are counted
in whole units of 64 KiB, as read and checked. For comparison a plain pass over all arcs a level
(BFS), or a round until nothing changes (SSSP), streams the store as GridGraph does; its bytes are
passes times arcs, of the first two sources.

With --limit: the API's search, in a process of its own, within a quarter of the bytes of the
store's arcs (all row orders), and within a quarter of those that the kernel reads if that is not
refused; or within --limit-bytes. See tiers_limit.py.

Appends to records/tiers.jsonl, or to --records.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tiers_limit import limits_of, within_limits

import ooc_graph as og
from ooc_graph.kernels.common.compiled import kernel as compiled
from ooc_graph.kernels.common.sssp.survey import first_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import rows_path
from ooc_graph.memory.cpu.plan import Plan, describe, rules
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.report.records import append_record
from ooc_graph.runtime.machine import cores
from ooc_graph.shards.tiers import facts_of, load_tiers
from ooc_graph.types import AnyArray

RECORDS = Path(__file__).parent / "records" / "tiers.jsonl"
SHARES = (1.0, 0.5, 0.25, 0.12, 0.06)
STREAMED = 2
BATCH_UNITS = 32
REPEATS = 3


def opened(options: argparse.Namespace) -> tuple[og.Graph, list[int], AnyArray]:
    """The graph, the internal ids of its search keys, and tuples at each row."""
    source = og.Kronecker(options.scale)
    graph = og.open(options.store) if options.store.exists() else og.build(source, options.store)
    keys = source.search_keys(options.searches)
    internal = [int(root) for root in graph.internal_of()[keys]]
    return graph, internal, graph.tuples()


def answer(tree: Any) -> tuple[bytes, bytes]:
    measure = tree.level if hasattr(tree, "level") else tree.distance
    return tree.parent.tobytes(), measure.tobytes()


def harmonic(values: list[float]) -> float:
    return len(values) / sum(1 / value for value in values)


@compiled
def _level_of_chunk(
    row: int, first: int, offsets: Any, neighbors: Any, level: Any, depth: int
) -> Any:
    """Look at every arc of a chunk that begins at arc ``first``, in row ``row``."""
    found = 0
    for index in range(len(neighbors)):
        while offsets[row + 1] <= first + index:
            row += 1
        if level[row] < 0 and level[neighbors[index]] == depth - 1:
            level[row] = depth
            found += 1
    return row, found


@compiled
def _relax_chunk(
    row: int, first: int, offsets: Any, neighbors: Any, weights: Any, distance: Any
) -> Any:
    changed = 0
    for index in range(len(neighbors)):
        while offsets[row + 1] <= first + index:
            row += 1
        candidate = distance[neighbors[index]] + weights[index]
        if candidate < distance[row]:
            distance[row] = candidate
            changed += 1
    return row, changed


def streamed(graph: og.Graph, kernel: str, root: int) -> tuple[AnyArray, int, float]:
    """Levels or distances by passes over all arcs, the passes, and their seconds."""
    group = rows_path(0, "out", ORDER_OF[kernel])
    assert graph.shards == 1
    assert not graph.directed
    stored = graph.stored
    offsets = stored.read(f"{group}/offsets").astype(np.int64)
    measure: AnyArray
    if kernel == "bfs":
        measure = np.full(graph.rows, -1, np.int32)
    else:
        measure = np.full(graph.rows, np.inf, graph.weight_dtype)
    measure[root] = 0
    begun, passes, changed = perf_counter(), 0, 1
    while changed:
        passes += 1
        row, first, changed = 0, 0, 0
        neighbors = stored.blocks(f"{group}/neighbors")
        if kernel == "bfs":
            for chunk in neighbors:
                row, found = _level_of_chunk(row, first, offsets, chunk, measure, passes)
                changed += found
                first += len(chunk)
        else:
            weights = stored.blocks(f"{group}/weights")
            for chunk, weight in zip(neighbors, weights, strict=True):
                row, found = _relax_chunk(row, first, offsets, chunk, weight, measure)
                changed += found
                first += len(chunk)
    return measure, passes, perf_counter() - begun


def plan_of_share(graph: og.Graph, kernel: str, share: float) -> Plan | None:
    """Most arcs in memory that are no more than a share of all; None where that is too few."""
    facts = facts_of(graph, kernel)
    chosen = None
    for rule in rules(kernel):
        plan = Plan(facts, 0, rule, BATCH_UNITS, 0)
        if plan.head_arcs <= share * facts.arcs:
            chosen = plan
    return None if chosen is None else replace(chosen, budget_bytes=chosen.bytes)


def compare(
    graph: og.Graph,
    kernel: str,
    roots: list[int],
    tuples: AnyArray,
    scale: int,
    records: Path = RECORDS,
) -> None:
    device = CpuDevice(cores())
    search = getattr(device, kernel)(graph.load(ORDER_OF[kernel]))
    passes, edges = [], []
    for number, root in enumerate(roots):
        tree = search.run(root)
        none = np.iinfo(tree.parent.dtype).max
        edges.append(int(tuples[tree.parent != none].sum(dtype=np.int64)) // 2)
        if number < STREAMED:
            found, count, seconds = streamed(graph, kernel, root)
            if found.tobytes() != answer(tree)[1]:
                raise SystemExit(f"{kernel}: streaming differs from internal id {root}")
            passes.append({"passes": count, "s": seconds})
    facts = facts_of(graph, kernel)
    arc_bytes = facts.arcs * facts.arc_bytes
    plain = arc_bytes * float(np.mean([one["passes"] for one in passes]))
    print(f"{kernel:4} plain passes: {passes}, {plain / 1e6:,.0f} MB")
    parameters = {"scale": scale, "kernel": kernel, "searches": len(roots), "threads": cores()}
    head_share = graph.head_share(first_rows(graph.rows))
    for share in SHARES:
        plan = plan_of_share(graph, kernel, share)
        if plan is None:
            print(f"{kernel:4} {share:4.0%}: the first arcs of all rows are more than that")
            continue
        begun = perf_counter()
        tier = load_tiers(graph, plan, device, head_share)
        load_s, loaded = perf_counter() - begun, tier.moved.bytes
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
            "load_average": os.getloadavg()[0],
        }
        tier.close()
        read = float(np.mean(figures["read_bytes"]))
        figures["plain_ratio"] = plain / read if read else None
        append_record(records, {"benchmark": "tiers", "parameters": parameters, "figures": figures})
        medians = {who: np.median(times) * 1e3 for who, times in figures["times_s"].items()}
        print(
            f"{kernel:4} {plan.head_arcs / facts.arcs:6.1%} ({plan.rule}): "
            f"{medians['tier']:8.1f} ms, {figures['harmonic_teps']['tier'] / 1e6:8.1f} MTEPS; in "
            f"memory {medians['memory']:8.1f} ms, "
            f"{figures['harmonic_teps']['memory'] / 1e6:8.1f} MTEPS; ratio of medians "
            f"{medians['tier'] / medians['memory']:.2f}, of minima {figures['ratio_of_minima']:.2f}"
            f"; read {read / 1e6:,.1f} MB of {arc_bytes / 1e6:,.0f}, "
            f"1/{figures['plain_ratio'] or np.inf:.0f} of plain passes; load {load_s:.1f} s"
        )
    device.close()


def in_turn(search: Any, tier: Any, roots: list[int], edges: list[int]) -> dict[str, Any]:
    """Search every source twice in memory and with the tier, in turn; answers must be the same."""
    times: dict[str, list[float]] = {"memory": [], "tier": []}
    read, requests, reading_s, waited_s = [], [], [], []
    for root in roots:
        mine: dict[str, list[float]] = {"memory": [], "tier": []}
        for _ in range(REPEATS):
            wanted = search.run(root)
            mine["memory"].append(wanted.elapsed_s)
            before = tier.moved
            found = tier.run(root)
            moved = tier.moved.since(before)
            mine["tier"].append(found.elapsed_s)
            if answer(found) != answer(wanted):
                raise SystemExit(f"answers differ from internal id {root}")
        for who, seconds in mine.items():
            times[who].append(min(seconds))
        read.append(moved.bytes)
        requests.append(moved.requests)
        reading_s.append(moved.reading_s)
        waited_s.append(moved.waited_s)
    teps = {
        who: harmonic([count / time for count, time in zip(edges, seconds, strict=True)])
        for who, seconds in times.items()
    }
    return {
        "times_s": times,
        "harmonic_teps": teps,
        "ratio_of_medians": float(np.median(times["tier"]) / np.median(times["memory"])),
        "ratio_of_minima": min(times["tier"]) / min(times["memory"]),
        "read_bytes": read,
        "requests": requests,
        "reading_s": reading_s,
        "waited_s": waited_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--scale", type=int, required=True)
    parser.add_argument("--searches", type=int, default=16)
    parser.add_argument("--kernels", default="bfs,sssp")
    parser.add_argument("--limit", action="store_true")
    parser.add_argument("--limit-bytes", type=int, help="instead of quarters of the arcs' bytes")
    parser.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args()
    graph, roots, tuples = opened(options)
    for kernel in options.kernels.split(","):
        if options.limit:
            limits = limits_of(graph, kernel, options.limit_bytes)
            within_limits(graph, kernel, roots, options.scale, limits, options.records)
        else:
            compare(graph, kernel, roots, tuples, options.scale, options.records)


if __name__ == "__main__":
    main()
