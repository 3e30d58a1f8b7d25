"""Bits an arc, and decoding speed, of neighbours in fewer bits; and stores of such columns.

    python benchmarks/packing.py GRAPH.zarr... [--repeats 7]
    python benchmarks/packing.py --beside PLAIN.zarr COMPRESSED.zarr [--repeats 5]

For each row order of a store, of all its out-neighbours, on one thread: ``raw``, as stored, whose
speed is that of a copy, and ``packed``, ceil(log2 rows) bits each, by the package's own loops, in
units of 64 KiB of numbers. What is decoded is compared.

``--beside`` compares a store with one built of the same edges with ``--compress``, in turn: loading
all rows, with their chunks in the page cache and dropped from it before, and searches with a part
of the arcs in memory, whose answers must be the same.
"""

from __future__ import annotations

import statistics
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import drop_from_cache
from harness.program import Program, load_average
from harness.timing import rates, same_bytes, take_turns, timed

import ooc_graph as og
from ooc_graph.kernels.common.sssp.survey import first_rows
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import HUB, LIGHT, SIDECAR_BYTES, rows_path
from ooc_graph.layout.packed_loops import pack, unpack
from ooc_graph.memory.cpu.plan import HeadRule, Plan
from ooc_graph.runtime.machine import cores
from ooc_graph.shards.tiers import facts_of, load_tiers
from ooc_graph.types import AnyArray

MOST_ARCS = 1 << 24
"""Arcs that are looked at."""


def part_of(graph: og.Graph, order: str) -> AnyArray:
    """Neighbours of the first shard's rows, or 16 parts of them, evenly over all."""
    neighbors = graph.stored.read(f"{rows_path(0, 'out', order)}/neighbors")
    if len(neighbors) <= MOST_ARCS:
        return neighbors
    begins = np.arange(16) * (len(neighbors) // 16)
    return np.concatenate([neighbors[begin : begin + MOST_ARCS // 16] for begin in begins])


def packed(neighbors: AnyArray, rows: int) -> tuple[Any, float]:
    unit, bits = SIDECAR_BYTES // neighbors.dtype.itemsize, max(1, (rows - 1).bit_length())
    padded = np.zeros(-(-len(neighbors) // unit) * unit, neighbors.dtype)
    padded[: len(neighbors)] = neighbors
    values = padded.reshape(-1, 64, unit // 64)
    words = np.empty((len(values), bits, unit // 64), np.uint64)
    none, mask = np.uint64(0), np.uint64((1 << bits) - 1)
    pack(values, none, ~none, words)
    found = np.empty_like(values)

    def decode() -> AnyArray:
        unpack(words, none, mask, found)
        return found.reshape(-1)[: len(neighbors)]

    return decode, bits


def measure(program: Program, path: Path, repeats: int) -> None:
    """Measure all ways on a store's row orders."""
    graph = og.open(path)
    for order in graph.attributes["row_orders"]:
        neighbors = part_of(graph, order)
        copied = np.empty_like(neighbors)

        def raw(found: AnyArray = copied, given: AnyArray = neighbors) -> AnyArray:
            found[:] = given
            return found

        ways = {"raw": (raw, 32), "packed": packed(neighbors, graph.rows)}
        for name, (decode, bits) in ways.items():
            speed = rates(decode, len(neighbors), "arcs", repeats)
            if not np.array_equal(decode(), neighbors):
                raise SystemExit(f"{name}: what was decoded differs")
            measured = {"arcs_measured": len(neighbors), "order": order, "way": name}
            keep(
                program,
                "neighbours",
                graph,
                measured | {"repeats": repeats},
                {"bits_per_arc": round(bits, 2), **speed},
            )
    if LIGHT in graph.attributes["row_orders"]:
        weights = graph.stored.read(f"{rows_path(0, 'out', LIGHT)}/weights")
        if weights.dtype.kind == "i" and len(weights):
            bits = (int(weights.max()) - int(weights.min())).bit_length()
            print(f"{path.stem:24} integer weights: {bits} of {8 * weights.dtype.itemsize} bits")


def keep(
    program: Program,
    what: str,
    graph: og.Graph,
    parameters: dict[str, Any],
    figures: dict[str, Any],
) -> None:
    of_graph = {"graph": graph.path.stem, "rows": graph.rows, "arcs": graph.arcs}
    program.flat_record(of_graph | parameters, figures, f"packing: {what}")


def spreads(times: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        name: {"best_s": min(found), "median_s": statistics.median(found)}
        for name, found in times.items()
    }


def forget(graph: og.Graph) -> None:
    """Have the system forget what it holds of a store's files."""
    drop_from_cache(graph.path.rglob("*"))


def load_in_turn(
    program: Program, graphs: dict[str, og.Graph], order: str, cold: bool, repeats: int
) -> None:
    """Load all rows of each store after the other."""
    calls = {name: partial(graph.load, order) for name, graph in graphs.items()}

    def before(name: str) -> None:
        if cold:
            forget(graphs[name])

    take_turns(calls, 1, before=before)
    turns = take_turns(calls, repeats, before=before)
    parameters = {"order": order, "cold": cold, "repeats": repeats}
    figures = {"figures": spreads(turns.times_s), **load_average()}
    keep(program, "loading", graphs["plain"], parameters, figures)


def search_in_turn(
    program: Program,
    graphs: dict[str, og.Graph],
    kernel: str,
    rule: HeadRule,
    cold: bool,
    repeats: int,
) -> None:
    """Search with heads in memory, of each store after the other; answers must be the same."""
    device = CpuDevice(cores())
    tiers, loads = {}, {}
    for name, graph in graphs.items():
        plan = Plan(facts_of(graph, kernel), 0, rule, 16, 0)
        forget(graph)
        share = graph.head_share(first_rows(graph.rows))
        loads[name], _, tiers[name] = timed(partial(load_tiers, graph, plan, device, share))
    read: dict[str, Counter[str]] = {name: Counter() for name in graphs}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for root in range(0, 1000 * repeats, 1000):
        same = same_bytes(f"the answer from internal id {root} differs")
        for name, tier in tiers.items():
            tier.run(root)
            if cold:
                forget(graphs[name])
            before = tier.moved
            elapsed_s, _, tree = timed(partial(tier.run, root))
            times[name].append(elapsed_s)
            since = tier.moved.since(before)
            read[name].update(bytes=since.bytes, units=since.units)
            same(name, tree.parent)
    for tier in tiers.values():
        tier.close()
    device.close()
    parameters = {"kernel": kernel, "heads": str(rule), "cold": cold, "searches": repeats}
    figures = {"figures": spreads(times), "read": read, "cold_load_s": loads, **load_average()}
    keep(program, "searches", graphs["plain"], parameters, figures)


def beside(program: Program, plain: Path, packed: Path, repeats: int) -> None:
    """Compare two stores of one graph."""
    graphs = {"plain": og.open(plain), "compressed": og.open(packed)}
    sizes = {
        name: sum(entry.size for entry in graph.stored.manifest.files.values())
        for name, graph in graphs.items()
    }
    print("bytes of the stores:", sizes)
    for order in graphs["plain"].attributes["row_orders"]:
        for cold in (False, True):
            load_in_turn(program, graphs, order, cold, repeats)
    rules = {"bfs": HeadRule(12), "sssp": HeadRule(6, 5)}
    for order, kernel in ((HUB, "bfs"), (LIGHT, "sssp")):
        if order in graphs["plain"].attributes["row_orders"]:
            for cold in (False, True):
                search_in_turn(program, graphs, kernel, rules[kernel], cold, repeats)


def main() -> None:
    program = Program("packing", __doc__, repeats=7)
    program.add("stores", nargs="+", type=Path)
    program.add("--beside", action="store_true")
    options = program.parse()
    if options.beside:
        beside(program, *options.stores, options.repeats)
        return
    for path in options.stores:
        measure(program, path, options.repeats)


if __name__ == "__main__":
    main()
