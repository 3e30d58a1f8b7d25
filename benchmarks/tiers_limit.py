"""Searches within a limit that has no room for the arcs, the page cache cold; see tiers.py --limit.

Every search is the API's, with its answer written, in a process of its own that has searched a
small graph before, whose memory does not count. The page cache of the store's chunks is dropped
before each search; loading is measured apart. Then each source is searched from again, the page
cache warm, the best of three; before, in memory, for the ratios. At last the chunks are read in
sequence: what the disk gives at most.
"""

import gc
from pathlib import Path
from typing import Any

import numpy as np
from harness.files import drop_from_cache, in_own_process
from harness.program import KERNELS, Program
from harness.timing import timed

import ooc_graph as og
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.graph500 import tiers
from ooc_graph.graph500.tiers import probe_disk
from ooc_graph.kernels.cpu.device import CpuDevice
from ooc_graph.layout.names import ORDER_OF
from ooc_graph.memory.cpu.plan import describe, plan_disk
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.engine import Engine
from ooc_graph.report.memory_watch import MemoryWatch
from ooc_graph.runtime import engine_cache, process, warmup
from ooc_graph.shards.tier_facts import facts_of
from ooc_graph.threads import cores

REPEATS = 3


def limits_of(graph: og.Graph, kernel: str, limit_bytes: int | None) -> dict[str, int]:
    """The limits that are measured, by name: one that is given, or quarters of the arcs' bytes."""
    if limit_bytes is not None:
        return {"as given": limit_bytes}
    facts = {name: facts_of(graph, name) for name in KERNELS}
    arc_bytes = {name: one.arcs * one.arc_bytes for name, one in facts.items()}
    return {"of all arcs": sum(arc_bytes.values()) // 4, "of its arcs": arc_bytes[kernel] // 4}


def within_limits(
    program: Program, graph: og.Graph, kernel: str, roots: list[int], limits: dict[str, int]
) -> None:
    """Measure searches from internal ids within each limit, and record them."""
    facts = facts_of(graph, kernel)
    memory_s: list[float] | None = None
    for name, limit in limits.items():
        try:
            plan = plan_disk(facts, limit)
        except MemoryBudgetError as error:
            print(f"{kernel:4} limit {name}: refused: {error}")
            continue
        memory_s = memory_s or in_memory(graph, kernel, roots)
        originals = graph.original_of()[roots].tolist()
        with program.scratch() as scratch:
            figures = in_own_process(child, graph.path, kernel, limit, scratch, originals)
        figures |= {"plan": describe(plan), "memory_s": memory_s}
        # Over seconds in memory, of medians; None if all arcs had room.
        cold_s = [one["elapsed_s"] for one in figures["searches"]]
        for ratio, seconds in (("cold_ratio", cold_s), ("warm_ratio", figures["warm_s"])):
            planned = figures["planned"] is not None
            figures[ratio] = float(np.median(seconds) / np.median(memory_s)) if planned else None
        # Last: it takes the page cache's content away.
        probe = probe_disk(graph.path)
        for part in ("moved", "load"):
            rate = figures[part].get("bytes read a second of reading")
            figures[f"disk beside {part}"] = tiers.describe_probe(probe, rate)
        parameters = program.given("scale", "searches") | {"kernel": kernel, "threads": cores()}
        parameters |= {"limit": name, "limit_bytes": limit}
        program.record(parameters, figures, "tiers-limit")


def in_memory(graph: og.Graph, kernel: str, roots: list[int]) -> list[float]:
    """Seconds of each search with all arcs in memory, the best of three."""
    device = CpuDevice(cores())
    try:
        search = getattr(device, kernel)(graph.load(ORDER_OF[kernel]))
        search.run(roots[0])
        return [min(search.run(root).elapsed_s for _ in range(REPEATS)) for root in roots]
    finally:
        device.close()


def child(
    store: Path, kernel: str, limit: int, scratch: Path, sources: list[int]
) -> dict[str, Any]:
    """Figures of loading and searching within a limit."""
    graph, out = og.open(store), scratch / "r.zarr"
    tiny = og.build(og.Kronecker(8), scratch / "small.zarr")
    search = getattr(og, kernel)
    search(tiny, int(tiny.original_of()[0]), device="cpu", out=out)
    warmup.warm(kernel, graph, process.device(), variant=warmup.TIERS)
    engine_cache.release()
    gc.collect()
    loads = time_loading()

    def run(source: int) -> dict[str, Any]:
        before = moved_so_far()
        given: dict[str, Any] = {"device": "cpu", "memory_limit": limit, "out": out}
        result = search(graph, source, overwrite=True, **given)
        # The first one's loading is not the search's.
        io_stats = moved_so_far().since(before or loads[0][1] or IoStats())
        return {"elapsed_s": result.elapsed_s, "moved": io_stats}

    with MemoryWatch(interval_s=0.005) as watch:
        cold = []
        for source in sources:
            drop_from_cache(store.rglob("c/*"))
            cold.append(run(source))
        warm_s = [min(run(source)["elapsed_s"] for _ in range(REPEATS)) for source in sources]
    total = IoStats()
    for one in cold:
        total = total.plus(one["moved"])
        one["moved"] = tiers.describe_io(one["moved"])
    (held,) = engine_cache._engines.values()
    return {
        "searches": cold,
        "warm_s": warm_s,
        "load_s": sum(seconds for seconds, _ in loads),
        "load": tiers.describe_io(loads[0][1] or IoStats()),
        "moved": tiers.describe_io(total),
        "idle": watch.baseline_bytes,
        "peak": watch.peak_bytes,
        "planned": held.search.plan.bytes if held.io_stats is not None else None,
    }


def moved_so_far() -> Any:
    """What the search that is held has read, loading included; None where none is held."""
    held = next(iter(engine_cache._engines.values()), None)
    return None if held is None else held.io_stats or IoStats()


def time_loading() -> list[tuple[float, IoStats | None]]:
    """Have each load of a graph note its seconds, and what it read, in a list."""
    load, noted = engine_cache._load, []

    def noting(*arguments: Any) -> Engine:
        elapsed_s, _, found = timed(lambda: load(*arguments))
        noted.append((elapsed_s, found.io_stats))
        return found

    engine_cache._load = noting
    return noted
