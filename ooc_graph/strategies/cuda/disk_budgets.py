"""Budgets of searches on a CUDA device that leave arcs in the store: new ones, or those before."""

from __future__ import annotations

from ooc_graph.model.kernel import ROWS
from ooc_graph.model.resources import Resources
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cuda import on_disk as cuda_disk


def budgets_for(
    graph: Graph,
    kernel: str,
    resources: Resources,
    *,
    answer_bytes: int,
    on_device: bool = False,
    held_as: tuple[str, str] | None = None,
) -> tuple[int, int]:
    """Bytes of device and of host memory; those of the search before where it is still held.

    What it holds is no longer free, so that the next would have less.

    Parameters
    ----------
    kernel
        ``bfs`` or ``sssp``.
    answer_bytes
        Host memory of an answer that is not written.
    on_device
        Whether the answer stays on the device.
    held_as
        Kernel and method that a search is held for; None: the same kernel, by rows.

    Raises
    ------
    MemoryBudgetError
        Says the least that would do.
    """
    held = (
        None
        if resources.is_limited
        else engine_cache.held_in_store(graph, *(held_as or (kernel, ROWS)))
    )
    budget_bytes = cuda_disk.budget_for(graph, resources, on_device=on_device)
    if held is not None and held[0] == budget_bytes:
        host_bytes = cuda_disk.host_budget(graph, resources, answer_bytes)
        limit = resources.cuda_limits.pinned_bytes
        # A limit that was met is met again. Where less was free, or there is none, what is free
        # comes and goes, and loading again pays only for much more.
        may_hold = limit is None or held[1] <= limit
        if held[1] == limit or (may_hold and 2 * held[1] >= host_bytes):
            return held
    plan = cuda_disk.plan_for(
        graph, kernel, resources, answer_bytes=answer_bytes, on_device=on_device
    )
    return plan.device_budget_bytes, plan.host_budget_bytes
