"""What is tried next where the system refuses memory that was reckoned with."""

from __future__ import annotations

from typing import Any, Protocol

from ooc_graph.session import resident, tiers
from ooc_graph.session.choice import resident_bytes
from ooc_graph.session.devices import CPU
from ooc_graph.session.edges_method import ROWS
from ooc_graph.shards.load import Graph


class Task(Protocol):
    """Searches of one graph by one rank, a dataclass; see `ooc_graph.session.ways.SearchTask`."""

    @property
    def path(self) -> str:
        """The graph's."""

    @property
    def identity(self) -> str:
        """The graph's."""

    @property
    def kernel(self) -> str:
        """``bfs`` or ``sssp``."""

    @property
    def method(self) -> str:
        """``rows`` or ``edges``."""

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""

    @property
    def budget_bytes(self) -> int:
        """Memory, where arcs stay in the store."""

    @property
    def copies(self) -> bool:
        """Whether rows in memory may be kept in another form besides."""


def has_less(task: Task) -> bool:
    """Whether there is a way that holds less in memory."""
    if task.device != CPU or task.method != ROWS:
        return False
    graph = resident.open_same(task.path, task.identity)
    return _has_other_form(graph, task) or tiers.has_tiers(graph, task.kernel)


def with_less(task: Task) -> tuple[dict[str, Any], str]:
    """What to change of a task, and a line that says so. What the process holds is given up.

    First rows are kept in one form only, then more and more of them stay in the store.

    Raises
    ------
    MemoryBudgetError
        The least that there is was refused.
    """
    resident.release()
    graph = resident.open_same(task.path, task.identity)
    bare = resident_bytes(graph, task.kernel, copies=False)
    if _has_other_form(graph, task):
        what = f"keeps its rows in one form, {bare:,} bytes in all"
        return {"copies": False}, f"memory was refused: {task.kernel} {what}"
    budget_bytes = tiers.smaller_budget(graph, task.kernel, bare, task.budget_bytes)
    what = f"leaves arcs in the store and goes on within {budget_bytes:,} bytes"
    return {"budget_bytes": budget_bytes}, f"memory was refused: {task.kernel} {what}"


def _has_other_form(graph: Graph, task: Task) -> bool:
    """Whether rows are to be kept in another form besides."""
    if task.budget_bytes or not task.copies:
        return False
    bare = resident_bytes(graph, task.kernel, copies=False)
    return bare < resident_bytes(graph, task.kernel)
