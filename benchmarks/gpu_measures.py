"""What is measured of the searches of one graph: times, levels, arcs, ceilings, energy."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from gpu_checks import checked
from gpu_model import Level, Work, bfs_work, shares, sssp_work
from harness import device
from harness.device import DeviceGraph, event_seconds
from harness.timing import measure_of, reached_by

from ooc_graph.kernels.cuda.runtime.scatter import OriginalOrder
from ooc_graph.report.energy import EnergyMeter, energy_record, over_repeats
from ooc_graph.report.graph500 import teps_statistics

# Smaller tables lie in so few parts of the cache that look-ups become slower again.
LEAST_TABLE_BYTES = 4 << 20
SOURCE = Path(__file__).with_name("gpu_lookups.cu")
COPIED_BYTES = 1 << 31
TRIES = 7
THREADS, ROUNDS, AT_ONCE = 1024, 64, 8


def timed(graph: DeviceGraph, kernel: str, roots: Sequence[int], search: Any) -> dict[str, Any]:
    """Time and validate one search a root; parents are original ids.

    Beside each search: the time to bring its answer into the order of original ids.
    """
    degree = cupy.diff(graph.rows.offsets.view("int64"))
    order = OriginalOrder(graph.internal_of)
    columns: Any = None
    scatters, unique, phases = [], [], []

    def seen(tree: Any) -> None:
        nonlocal columns
        answer = tree.parent, measure_of(tree)
        columns = columns or order.columns(*answer)
        scatters.append(event_seconds(order.ready(*answer, columns)))
        unique.append(int(degree[reached_by(tree)].sum()) // 2)
        if kernel == "sssp":
            phases.append(tree.phase_arcs)

    found = checked(graph, kernel, roots, search, seen)
    ordered = [sum(both) for both in zip(found["times_s"], scatters, strict=True)]
    return found | {
        "scatter_s": scatters,
        "unique_edges": unique,
        "unique_teps": teps_statistics(found["times_s"], unique).to_dict(),
        "original_order_teps": teps_statistics(ordered, found["edges"]).to_dict(),
        "phase_arcs": phases,
    }


def cold(graph: DeviceGraph, search: Any, roots: Sequence[int]) -> Iterator[Any]:
    """Answers one after another; before each search all arcs are read.

    Validation does so where searches are validated, and leaves caches with other things in them:
    all are timed under like conditions.
    """
    search.run_on_device(roots[0])
    for root in roots:
        int(graph.rows.neighbors.max())  # waits, so that no launch is hidden behind it
        yield search.run_on_device(root)


def internal_times(
    graph: DeviceGraph, kernel: str, roots: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Seconds of the searches whose parents are internal ids, and of naming these in order."""
    search = device.new_search(graph, kernel, original_parents=False)
    order, names = OriginalOrder(graph.internal_of), graph.original_of.astype(np.uint32)
    columns, searches, orders = None, [], []
    for tree in cold(graph, search, roots):
        searches.append(tree.elapsed_s)
        answer = tree.parent, measure_of(tree)
        columns = columns or order.columns(*answer, names=names)
        orders.append(event_seconds(order.ready(*answer, columns, names)))
    return searches, orders


def bfs_levels(graph: DeviceGraph, roots: Sequence[int]) -> list[list[Level]]:
    """Levels of each search: times from a search that takes them, counts from one that counts."""
    tracing = device.new_search(graph, "bfs", trace=True)
    ends_ns = [tracing.level_trace()["ns"].tolist() for _ in cold(graph, tracing, roots)]
    del tracing
    device.free_memory()
    counting = device.new_search(graph, "bfs", count_arcs=True)
    found = []
    for root, ends in zip(roots, ends_ns, strict=True):
        counting.run_on_device(root)
        taken = [(end - begin) / 1e9 for begin, end in pairwise(ends)]
        trace = counting.level_trace()[1:]
        names = ("pull", "found", "pushed", "examined")
        rows = zip(*(trace[name].tolist() for name in names), taken, strict=True)
        found.append([Level(bool(pull), *rest) for pull, *rest in rows])
    return found


def against_ceilings(works: Sequence[Work], times_s: Sequence[float]) -> dict[str, Any]:
    """Median work of the searches, and its shares of what the device does at most now."""
    copy = copy_rate()
    device.free_memory()
    table = works[0].table_bytes
    lookup = lookup_rate(max(table, LEAST_TABLE_BYTES))
    each = [shares(work, s, copy, lookup) for work, s in zip(works, times_s, strict=True)]
    return {
        "modelled_bytes": statistics.median(work.bytes for work in works),
        "modelled_lookups": statistics.median(work.lookups for work in works),
        "lookup_table_bytes": table,
        "copy_bytes_per_s": copy,
        "lookups_per_s": lookup,
        "share_of_copy": statistics.median(one["copy"] for one in each),
        "share_of_lookup": statistics.median(one["lookup"] for one in each),
    }


def energy(kernel: str, search: Any, roots: Sequence[int], edges: Sequence[int]) -> dict[str, Any]:
    """Energy of the device while all searches are repeated one after another.

    TEPS are those of these very searches. `edges_per_joule` has the pauses between them in it.
    """
    times: list[float] = []

    def turn() -> None:
        times.extend(search.run_on_device(root).elapsed_s for root in roots)

    meter = EnergyMeter([cupy.cuda.Device().pci_bus_id], packages=False)
    taken, turns = over_repeats(meter, turn)
    teps = teps_statistics(times, list(edges) * turns).harmonic_mean
    joules = sum(taken.joules.values())
    return {
        **vars(energy_record(kernel, teps, len(times), taken)),
        "harmonic_mean_teps": teps,
        "searching_s": sum(times),
        "edges_per_joule": sum(edges) * turns / joules if joules else None,
    }


def measured(
    graph: DeviceGraph, kernel: str, roots: Sequence[int], *, with_energy: bool
) -> dict[str, Any]:
    search = device.new_search(graph, kernel)
    found = timed(graph, kernel, roots, search)
    if with_energy:
        found["energy"] = energy(kernel, search, roots, found["edges"])
    del search
    device.free_memory()
    internal, naming = internal_times(graph, kernel, roots)
    device.free_memory()
    found |= {"internal_times_s": internal, "naming_s": naming}
    found["internal_teps"] = teps_statistics(internal, found["edges"]).to_dict()
    named = [sum(both) for both in zip(internal, naming, strict=True)]
    found["named_order_teps"] = teps_statistics(named, found["edges"]).to_dict()
    rows, arcs = len(graph.original_of), len(graph.rows.neighbors)
    if kernel == "bfs":
        levels = bfs_levels(graph, roots)
        found["levels"] = [[astuple(level) for level in one] for one in levels]
        works = [bfs_work(rows, one) for one in levels]
        # Pushed arcs count once, as the algorithm counts them.
        examined = [sum(level.pushed + level.examined for level in one) for one in levels]
    else:
        works = [sssp_work(rows, phases) for phases in found["phase_arcs"]]
        examined = [sum(phases.values()) for phases in found["phase_arcs"]]
    device.free_memory()
    found["arcs_share"] = statistics.median(examined) / arcs
    return {**found, **against_ceilings(works, found["times_s"])}


def _median_s(launch: Callable[[], Any]) -> float:
    return statistics.median([event_seconds(launch) for _ in range(TRIES + 1)][1:])


def copy_rate() -> float:
    """Bytes read and written per second by a copy within device memory."""
    source, target = (cupy.zeros(COPIED_BYTES, np.uint8) for _ in range(2))
    return 2 * COPIED_BYTES / _median_s(lambda: cupy.copyto(target, source))


def lookup_rate(table_bytes: int) -> float:
    """Words of 4 bytes per second that come from random places of a table."""
    words = max(1, table_bytes // 4)
    table, out = cupy.zeros(words, np.uint32), cupy.zeros(1, np.uint32)
    blocks = 2 * cupy.cuda.Device().attributes["MultiProcessorCount"]
    arguments = (table, np.uint32(words), np.uint32(ROUNDS), out)
    look_up = cupy.RawKernel(SOURCE.read_text(), "look_up", options=("-std=c++17",))
    found_s = _median_s(lambda: look_up((blocks,), (THREADS,), arguments))
    return blocks * THREADS * ROUNDS * AT_ONCE / found_s
