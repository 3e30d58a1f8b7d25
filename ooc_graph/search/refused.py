"""What is tried next where the system refuses memory that was reckoned with."""

from __future__ import annotations

from typing import Any, Protocol

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.runtime import modules as cuda_modules
from ooc_graph.model.kernel import ROWS
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.runtime import engine_cache
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu import on_disk as cpu_disk
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.strategies.cuda import in_memory as cuda_memory
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda import pinned as cuda_pinned


class Task(Protocol):
    """Searches of one graph by one rank, a dataclass; see `ooc_graph.model.task.SearchTask`."""

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


class SingleTask(Task, Protocol):
    """Searches each from one source, which a CUDA device may do with rows in several places."""

    @property
    def pinned_bytes(self) -> int | None:
        """Pinned host memory that rows may go to; None: any."""

    @property
    def host_bytes(self) -> int | None:
        """Host memory, where a CUDA device searches and arcs stay in the store; else None."""

    @property
    def may_stay(self) -> bool:
        """Whether they may stay there where memory is refused."""

    @property
    def pins_if_busy(self) -> bool:
        """Whether rows are pinned also where others have the device's memory."""


def may_go_on(error: Exception, task: Task) -> bool:
    """Whether an error tells that memory was refused which a plan had reckoned with.

    On a CUDA device it may be the device's, of which the kernels tell in words of ours, or the
    host's.
    """
    of_device = task.device == CUDA and isinstance(error, MemoryBudgetError)
    return of_device or isinstance(error, MemoryError)


def has_less(task: Task) -> bool:
    """Whether there is a way that holds less in memory."""
    if task.device == CUDA:
        graph = engine_cache.open_same(task.path, task.identity)
        return not task.budget_bytes and cuda_pinned.may_pin(graph, task.kernel)
    if task.device != CPU or task.method != ROWS:
        return False
    graph = engine_cache.open_same(task.path, task.identity)
    return _has_other_form(graph, task) or cpu_disk.has_tiers(graph, task.kernel)


def with_less(task: Task) -> tuple[dict[str, Any], str]:
    """What to change of a task, and a line that says so. What the process holds is given up.

    First rows are kept in one form only, then more and more of them stay in the store. On a CUDA
    device rows are in pinned host memory then.

    Raises
    ------
    MemoryBudgetError
        The least that there is was refused.
    """
    engine_cache.release()
    graph = engine_cache.open_same(task.path, task.identity)
    if task.device == CUDA:
        whole_bytes = cuda_memory.cuda_bytes(graph, task.kernel)
        within = min(whole_bytes, cuda_modules.device_bytes()[0]) // 8 * 7
        # The least may be more than that; where it is not free either, loading says so.
        budget_bytes = max(within, cuda_pinned.least_device_bytes(graph, task.kernel))
        what = f"keeps its rows in host memory and goes on within {budget_bytes:,} bytes"
        said = f"device memory was refused: {task.kernel} {what} of the device's"
        return {"budget_bytes": budget_bytes}, said
    bare = resident_bytes(graph, task.kernel, copies=False)
    if _has_other_form(graph, task):
        what = f"keeps its rows in one form, {bare:,} bytes in all"
        return {"copies": False}, f"memory was refused: {task.kernel} {what}"
    budget_bytes = cpu_disk.smaller_budget(graph, task.kernel, bare, task.budget_bytes)
    what = f"leaves arcs in the store and goes on within {budget_bytes:,} bytes"
    return {"budget_bytes": budget_bytes}, f"memory was refused: {task.kernel} {what}"


def may_go_to_store(task: SingleTask) -> bool:
    """Whether a search that a CUDA device was refused memory for may leave arcs in the store."""
    if task.device != CUDA or task.host_bytes is not None or not task.may_stay:
        return False
    return cuda_disk.may_stay(engine_cache.open_same(task.path, task.identity), task.kernel)


def may_take_less_of_host(task: SingleTask) -> bool:
    """Whether there is a search on a CUDA device that takes less of the host's memory.

    Rows in pinned memory take as much as rows on their way to the device, so that only arcs that
    stay in the store do, with none of them held in host memory.
    """
    return bool(task.host_bytes) if task.host_bytes is not None else may_go_to_store(task)


def may_take_less_in_store(task: SingleTask) -> bool:
    """Whether a search on a CUDA device with arcs in the store may go on with less of the device's.

    Only where it was loaded before it was refused memory: loading goes down to the least itself.
    """
    if task.device != CUDA or task.host_bytes is None:
        return False
    graph = engine_cache.open_same(task.path, task.identity)
    if engine_cache.held_in_store(graph, task.kernel) is None:
        return False
    budgets = task.budget_bytes, task.host_bytes
    return cuda_disk.smaller_budget(graph, task.kernel, *budgets) > 0


def in_store(task: SingleTask) -> tuple[dict[str, Any], str]:
    """As `with_less`, once neither the device nor pinned memory has room for the rows.

    What was refused may be the host's, so that no more of it is wanted than there must be; but
    what may be pinned, where the device's was refused.
    """
    return _left_in_store(task, "memory", 0 if task.budget_bytes else task.pinned_bytes or 0)


def in_store_alone(task: SingleTask) -> tuple[dict[str, Any], str]:
    """As `in_store`, where the host's memory was refused: no arcs are held there."""
    return _left_in_store(task, "host memory", 0)


def _left_in_store(task: SingleTask, what: str, host_bytes: int) -> tuple[dict[str, Any], str]:
    engine_cache.release()
    graph = engine_cache.open_same(task.path, task.identity)
    wanted = task.budget_bytes or cuda_memory.cuda_bytes(graph, task.kernel)
    within = min(wanted, cuda_modules.device_bytes()[0] // 8 * 7)
    budget_bytes = max(within, cuda_disk.least_device_bytes(graph, task.kernel))
    said = (
        f"{what} was refused: {task.kernel} leaves arcs in the store and goes on within "
        f"{budget_bytes:,} bytes of the device's, and {host_bytes:,} of the host's beside the least"
    )
    return {"budget_bytes": budget_bytes, "host_bytes": host_bytes}, said


def less_in_store(task: SingleTask) -> tuple[dict[str, Any], str]:
    """As `with_less`, where `may_take_less_in_store`."""
    engine_cache.release()
    graph = engine_cache.open_same(task.path, task.identity)
    budgets = task.budget_bytes, task.host_bytes or 0
    budget_bytes = cuda_disk.smaller_budget(graph, task.kernel, *budgets)
    said = (
        f"device memory was refused: {task.kernel} goes on with arcs in the store within "
        f"{budget_bytes:,} bytes of the device's"
    )
    return {"budget_bytes": budget_bytes}, said


def _has_other_form(graph: Graph, task: Task) -> bool:
    """Whether rows are to be kept in another form besides."""
    if task.budget_bytes or not task.copies:
        return False
    bare = resident_bytes(graph, task.kernel, copies=False)
    return bare < resident_bytes(graph, task.kernel)
