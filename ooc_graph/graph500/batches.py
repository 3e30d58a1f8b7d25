"""Batches of Graph500's searches by one rank: with less in memory where that is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ooc_graph.edges.kronecker import Kronecker
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.graph500.run import BatchTask, Run
from ooc_graph.model.resources import CPU, CUDA
from ooc_graph.runtime.machine import cores
from ooc_graph.runtime.workplace import Place
from ooc_graph.search.plan import Plan, may_stay
from ooc_graph.search.step_down import Step, goes_on_after, less_of, step_down
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.cpu.in_memory import resident_bytes
from ooc_graph.strategies.cuda import on_disk as cuda_disk
from ooc_graph.strategies.cuda.cached import pinned_bytes

_ANSWER_BYTES = 40
# Where rows are not all where they are searched: bytes a vertex of an answer's columns, of tuples
# and a copy of those of rows reached, of a validation of one answer; and of the edges that each
# thread looks at.
_COLUMNS_BYTES, _TUPLES_BYTES, _CHECK_BYTES, _CHECK_BLOCK_BYTES = 24, 17, 64, 8 << 20
# Host memory a row beside its arcs and a vertex, where a CUDA device searches: id tables, the tree.
_ROW_BYTES, _TABLE_BYTES = 48, 12
_MOST_AT_ONCE = 16


def answer_bytes(graph: Graph) -> int:
    """Memory beside a search whose rows are not in it: an answer, and tuples at each row."""
    return graph.vertices * _COLUMNS_BYTES + graph.rows * _TUPLES_BYTES


def check_bytes(graph: Graph) -> int:
    """As `answer_bytes`, with what its validation takes."""
    return answer_bytes(graph) + graph.vertices * _CHECK_BYTES + cores() * _CHECK_BLOCK_BYTES


def task_for(planned: Plan, run: Run, graph: Graph, source: Kronecker, kernel: str) -> BatchTask:
    """The batch as a plan has it carried out."""
    way, place = planned.way, run.place
    task = BatchTask(
        str(graph.path),
        graph.identity,
        kernel,
        source,
        run.options.validate,
        way.device,
        way.budget_bytes,
        way.copies,
        pinned_bytes=place.cuda_limits.pinned_bytes,
        host_bytes=way.host_bytes,
        may_stay=may_stay(planned),
        pins_if_busy=place.wanted == CUDA,
        device_limit_bytes=place.cuda_limits.device_bytes,
    )
    return replace(task, at_once=_at_once(graph, task, place))


def _at_once(graph: Graph, task: BatchTask, place: Place) -> int:
    """Answers held at a time, in what the graph leaves of the worker's memory."""
    available, each = place.process_limit_bytes, max(graph.vertices * _ANSWER_BYTES, 1)
    if task.device == CPU:
        # Where arcs stay in the store, what is beside them has room for one answer.
        left = 0 if task.budget_bytes else available - resident_bytes(graph, task.kernel)
        return min(_MOST_AT_ONCE, max(1, left // each))
    beside = check_bytes(graph) + graph.rows * _ROW_BYTES + graph.vertices * _TABLE_BYTES
    left = available - beside - _rows_bytes(graph, task)
    return min(_MOST_AT_ONCE, 1 + max(0, left // each))


def _rows_bytes(graph: Graph, task: BatchTask) -> int:
    """Host memory of rows that a CUDA device searches."""
    if task.host_bytes is not None:
        facts = cuda_disk.known_facts(graph, task.kernel)
        return cuda_disk.plan_within(facts, task.budget_bytes, task.host_bytes).host_bytes
    return pinned_bytes(graph, task.kernel) if task.budget_bytes else 0


@dataclass
class Batches:
    """Carries batches out by one rank; where memory is refused, again with less in memory.

    Parameters
    ----------
    run, graph
        Whose searches.
    task
        How they are made next.
    """

    run: Run
    graph: Graph
    task: BatchTask

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call ``function(task, …)`` where the graph is.

        Raises
        ------
        MemoryBudgetError, MemoryError, DeviceBusyError
            As `ooc_graph.search.step_down.step_down`.
        """
        return self._carry_out(self._step_after, function, *arguments)

    def search(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """As `call`, once the graph has been searched.

        What is refused then, where answers stay on the device, is first of all what they take: they
        go to host memory.
        """
        return self._carry_out(self._search_step_after, function, *arguments)

    def _carry_out(
        self,
        step_after: Callable[[Exception, BatchTask], Step | None],
        function: Callable[..., Any],
        *arguments: Any,
    ) -> Any:
        def there(task: BatchTask) -> Any:
            return self.run.place.call(function, task, *arguments)

        found, self.task = step_down(self.task, there, step_after, self.run.progress.note)
        return found

    def _search_step_after(self, error: Exception, task: BatchTask) -> Step | None:
        # Of the host's memory, or of what others have of the device's, answers take nothing.
        if task.stays_there and isinstance(error, MemoryBudgetError):
            return partial(self._resized, partial(_to_host, str(error)))
        return self._step_after(error, task)

    def _step_after(self, error: Exception, task: BatchTask) -> Step | None:
        if not goes_on_after(error, task):
            return None
        # There: it depends on what that process holds.
        step = self.run.place.call(less_of, error, task)
        return step and partial(self._resized, partial(self.run.place.call, step))

    def _resized(self, step: Step, task: BatchTask) -> tuple[dict[str, Any], str]:
        """What a step changes, and how many answers are held at a time then."""
        less, note = step(task)
        at_once = _at_once(self.graph, replace(task, **less), self.run.place)
        return {**less, "at_once": at_once}, note


def _to_host(why: str, task: BatchTask) -> tuple[dict[str, Any], str]:
    what = "validated on the CPU" if task.validate else "answers go to host memory"
    return {"on_host": True}, f"{task.kernel} {what}: {why}"
