"""What ``info`` shows of a store, and ``plan`` of searches."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from ooc_graph.errors import UsageError
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.plan import describe
from ooc_graph.memory.cuda.disk import describe_disk
from ooc_graph.memory.cuda.pinned_plan import describe_device
from ooc_graph.model import rank_memory
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.resources import CPU, CUDA, NO_LIMITS, CudaLimits, Resources
from ooc_graph.runtime.workplace import planned
from ooc_graph.search.choice import choose
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.in_memory import ranks_bytes, resident_bytes
from ooc_graph.strategies.cpu.on_disk import KERNELS, known_facts, plan_within
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned
from ooc_graph.strategies.many.tiers import KERNELS as MANY

_WIDE = 100_000


def describe_store(stored: Stored) -> dict[str, Any]:
    """Facts of a store, JSON-able."""
    files = stored.manifest.files.values()
    return {
        "path": str(stored.path),
        "kind": stored.manifest.kind,
        **stored.attributes,
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "manifest_sha256": stored.manifest.sha256,
    }


def describe_plan(
    graph: Graph,
    kernel: str,
    limit_bytes: int,
    device: str = CPU,
    cuda_limits: CudaLimits = NO_LIMITS,
) -> dict[str, Any]:
    """What searches of a graph by one worker hold in memory, JSON-able; reads offsets at most.

    Parameters
    ----------
    kernel
        ``bfs`` or ``sssp``.
    limit_bytes
        Host memory of the worker.
    device
        ``cpu`` or ``cuda``. A plan for a CUDA device needs none where its memory is given.
    cuda_limits
        Memory of the device, and pinned memory.

    Raises
    ------
    MemoryBudgetError
        Says the least that would do.
    UsageError, NegativeWeightError
        The graph has no rows for the kernel.
    """
    if kernel not in KERNELS:
        raise UsageError(f"kernel {kernel!r}: choose {', '.join(KERNELS + MANY)}")
    order = ORDER_OF[kernel]
    graph.require(order)
    if device != CPU:
        return _describe_on_cuda(graph, kernel, planned(limit_bytes, CUDA, cuda_limits))
    resources = planned(limit_bytes)
    way = choose(graph, kernel, resources, tiers=True)
    if way.budget_bytes:
        return describe(plan_within(graph, kernel, way.budget_bytes))
    one, rows = way.exchange == "one", graph.resident_bytes(order)
    least = resident_bytes(graph, kernel, copies=False)
    if one:
        needed = resident_bytes(graph, kernel, copies=way.copies)
        copied, state = needed - least, least - rows
    else:
        needed, copied = ranks_bytes(graph, kernel, resources), 0
        state = needed - rows
    return {
        "kernel": kernel,
        "tier": "memory" if one else "memory, by ranks",
        "budget": limit_bytes,
        "bytes: rows": rows,
        "bytes: rows in another form": copied,
        "bytes: id tables and vertex state": state,
        "bytes: in all": needed,
        "share of arcs in memory": 1.0,
        "bytes that stay in the store": 0,
    }


def _describe_on_cuda(graph: Graph, kernel: str, resources: Resources) -> dict[str, Any]:
    way = choose(graph, kernel, resources, pinned=True)
    if way.host_bytes is not None:
        plan = cuda_disk.plan_for(graph, kernel, resources)
        facts = known_facts(graph, kernel)
        # At least: some arcs of hubs may be held twice.
        left = max(facts.arcs - plan.arcs_on_device - plan.arcs_in_host, 0)
        return {**describe_disk(plan), "bytes that stay in the store": facts.stored_bytes(left)}
    if way.budget_bytes:
        return describe_device(cuda_pinned.plan_for(graph, kernel, resources))
    rows = graph.resident_bytes(ORDER_OF[kernel])
    tier, needed = "device memory", cuda_memory.cuda_bytes(graph, kernel)
    if way.exchange != "one":
        tier += ", by ranks"
        needed = rank_memory.ranks_bytes(graph, kernel, range(graph.shards))
    return {
        "kernel": kernel,
        "tier": tier,
        "device budget": resources.device.memory_bytes,
        "device bytes: rows": rows,
        "device bytes: first arcs, vertex state and names, at most": needed - rows,
        "device bytes: in all": needed,
        "bytes of pinned host memory": 0,
        "share of arcs on the device": 1.0,
    }


def print_table(facts: dict[str, Any]) -> None:
    """Facts as a table on stdout."""
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        for key, text in _rows(name, value):
            table.add_row(key.replace("_", " "), text)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    # A file or pipe has no width: nothing is cut there, and nothing is padded.
    wide = Console(highlight=False, width=_WIDE)
    with wide.capture() as captured:
        wide.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _rows(f"{name}: {key}", inner)]
    if isinstance(value, list):
        return [(name, ", ".join(map(str, value)))]
    if isinstance(value, int) and not isinstance(value, bool):
        return [(name, f"{value:,}" if name not in ("root", "first_id") else str(value))]
    return [(name, "-" if value is None else str(value))]
