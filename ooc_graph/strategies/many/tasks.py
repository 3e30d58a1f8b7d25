"""Tasks of many sources, as they run in this process or on workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ooc_graph.answers.many import SourceColumns, SourceRows, write_rows
from ooc_graph.answers.reductions import Reduced
from ooc_graph.errors import NegativeCycleError, UsageError
from ooc_graph.kernels.common.completion import OnDone, raise_if_cancelled
from ooc_graph.layout.checkpoints import write_checkpoint
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.memory.io_stats import IoStats
from ooc_graph.model.resources import CPU
from ooc_graph.runtime import engine_cache, same_graph
from ooc_graph.runtime.process import without_traceback
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.many.recording import Recording
from ooc_graph.strategies.many.searches import Rows, Searches
from ooc_graph.strategies.many.task import ManyTask
from ooc_graph.types import AnyArray, IntArray

LOOP = "negative_loop"


class Done(NamedTuple):
    """What a task did: its sources, and what it read of the store for arcs that stay there.

    ``found`` is what was asked of them, where nothing is written.
    """

    sources: int
    io_stats: IoStats
    found: Any = None


def prepare(task: ManyTask) -> None:
    """Load the graph, and see that there are shortest paths."""
    without_traceback(_search, task, np.empty(0, np.int64))


def how_found(task: ManyTask, io_stats: IoStats) -> str:
    """How this process found what was asked for; empty: in batches, with all arcs in memory."""
    engine = engine_cache.loaded(task.key, task.capacity)
    if engine is None:
        return ""
    if task.is_one_by_one_on_device:
        said = f"{task.asked.kernel} searched one by one on the CUDA device"
        return f"{said}: {engine.note(io_stats)}" if engine.note else said
    if not task.asked.hops and engine.search.has_matrix:
        return "all pairs were found at once, by Floyd-Warshall"
    if (task.device == CPU or task.asked.hops) and engine.search.is_one_by_one:
        by = "by every thread" if task.device == CPU else "by the CUDA device: few of them meet"
        return f"sources were searched from one by one, {by}"
    return ""


def solve(
    task: ManyTask,
    positions: IntArray,
    into: Sequence[AnyArray] = (),
    on_done: OnDone | None = None,
) -> Done:
    """What is asked of sources, given by their positions among all vertices.

    Distances, and parents if wanted, (sources, width) each, in ``into`` or in new memory; or what
    they reduce to. ``on_done`` may be called with some of the sources, in any order, when their
    distances are there.
    """

    def find() -> Done:
        rows, io_stats = _search(task, positions, None, into, on_done)
        return Done(len(positions), io_stats, _found(task, rows, len(positions), into))

    return without_traceback(find)


def _found(
    task: ManyTask, rows: Rows, sources: int, into: Sequence[AnyArray]
) -> Sequence[AnyArray] | list[Reduced]:
    if task.asked.reduce is not None:
        return rows.reduced(task.asked.reduce)
    if isinstance(rows, SourceColumns) and rows.whole is not None:
        # In ``into``, if it is given.
        return (rows.whole,)
    assert isinstance(rows, SourceRows | SourceColumns)
    found: list[Iterator[AnyArray]] = [iter(rows)]
    if task.asked.parents:
        assert isinstance(rows, SourceRows)
        found.append(rows.parents())
    blocks = into or [np.empty((sources, rows.width), spec.dtype) for spec in task.specs]
    for block, each in zip(blocks, found, strict=True):
        for row, one in zip(block, each, strict=True):
            row[:] = one
    return blocks


def write_batch(task: ManyTask, first: int, positions: IntArray) -> Done:
    """Search from the sources of chunks, from the ``first`` on; write each when it is found."""
    return without_traceback(_write_batch, task, first, positions)


def _write_batch(task: ManyTask, first: int, positions: IntArray) -> Done:
    assert task.folder is not None
    assert task.attempt is not None
    folder, attempt = Path(task.folder), Path(task.attempt)

    def write(part: Rows, number: int) -> None:
        _write_chunk(task, folder, attempt, first + number, part)

    with Recording(write, len(positions), task.spec.chunk, task.most_found) as recording:
        rows, io_stats = _search(task, positions, recording)
        recording.finish(rows)
    return Done(len(positions), io_stats)


def _write_chunk(task: ManyTask, folder: Path, attempt: Path, number: int, part: Rows) -> None:
    facts: dict[str, Any] = {}
    if task.asked.reduce is not None:
        reduced = part.reduced(task.asked.reduce)
        facts = {
            "reached": [one.reached for one in reduced],
            "value": [one.value for one in reduced],
        }

    def write(scratch: Path) -> list[FileEntry]:
        return [] if task.asked.reduce else write_rows(part, task.specs, number, scratch)

    write_checkpoint(folder, attempt, number, write, facts)


def _search(
    task: ManyTask,
    positions: IntArray,
    recording: Recording | None = None,
    into: Sequence[AnyArray] = (),
    on_done: OnDone | None = None,
) -> tuple[Rows, IoStats]:
    """What is asked of sources, and what was read of the store meanwhile."""
    try:
        loading = engine_cache.engine(task.key, task.strategy.load, task.capacity)
        with loading as engine, engine.allocating():
            # It may have been waited for long.
            raise_if_cancelled()
            given = engine.ids, positions, recording, into[0] if into else None, on_done
            before = engine.io_stats
            if before is None:
                searches = Searches(task, engine.search, *given)
                if task.is_one_by_one_on_device:
                    return searches.batch_by_batch(), IoStats()
                return searches.in_memory(), IoStats()
            rows = Searches(task, engine.search.search, *given).batch_by_batch()
            after = engine.io_stats
            assert after is not None
            return rows, after.since(before)
    except NegativeCycleError as error:
        raise with_original_ids(error, same_graph.open_same(task.path, task.identity)) from None


def with_original_ids(error: NegativeCycleError, graph: Graph) -> NegativeCycleError:
    """The error with original ids."""
    originals = graph.original_of()
    cycle = [int(originals[internal]) for internal in error.cycle]
    note = "" if graph.directed else "an edge of negative weight, there and back, is such a cycle"
    return NegativeCycleError(cycle, error.weight, note)


def refuse_negative_loop(graph: Graph) -> None:
    """Refuse input with a self-loop of negative weight, or a store that does not say if it had."""
    attributes = graph.attributes
    if graph.has_negative_weights and attributes["self_loops"] and LOOP not in attributes:
        raise UsageError(
            f"{graph.name}: does not say whether its self-loops are negative; build it again"
        )
    loop = attributes.get(LOOP)
    if loop is not None:
        raise NegativeCycleError([int(loop["vertex"])], loop["weight"])
