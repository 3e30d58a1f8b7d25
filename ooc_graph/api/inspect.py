"""What ``info`` shows of a store, and ``plan`` of searches."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from ooc_graph.errors import UsageError
from ooc_graph.layout.stored import Stored
from ooc_graph.model.kernel import ORDER_OF
from ooc_graph.model.request import Request
from ooc_graph.model.resources import CPU, NO_LIMITS, CudaLimits
from ooc_graph.runtime.this_process import planned
from ooc_graph.search.plan import plan
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.on_disk import KERNELS
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
    graph.require(ORDER_OF[kernel])
    resources = planned(limit_bytes, device, cuda_limits)
    return plan(graph, Request(kernel), resources).describe()


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
