"""Tasks of many sources, as they run in this process or on workers of a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.pairs import Asked, SourceRows, write_rows
from ooc_graph.answers.reductions import HISTOGRAM, Reduced
from ooc_graph.answers.scatter import Ids
from ooc_graph.answers.tallies import SourceTallies
from ooc_graph.errors import NegativeCycleError, UsageError
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.units import finish_unit
from ooc_graph.session import resident
from ooc_graph.shards.load import Graph
from ooc_graph.types import INT32_UNREACHED, AnyArray, IntArray

LOOP = "negative_loop"


@dataclass(frozen=True)
class PairsTask:
    """What all sources of a run have in common, as it travels to workers.

    Parameters
    ----------
    path, identity
        The graph's.
    asked
        What is asked of every source.
    sources
        How many there are in all.
    lanes
        Most sources of a batch.
    specs
        How distances, and parents if wanted, are stored: in chunks of the same whole sources.
    folder, attempt
        The partial store, and the folder of this run in it; None where nothing is written.
    """

    path: str
    identity: str
    asked: Asked
    sources: int
    lanes: int
    specs: tuple[ArraySpec, ...]
    folder: str | None = None
    attempt: str | None = None

    @property
    def spec(self) -> ArraySpec:
        """How distances are stored."""
        return self.specs[0]


def prepare(task: PairsTask) -> None:
    """Load the graph and see that there are shortest paths.

    Raises
    ------
    NegativeCycleError
        There are none; the cycle is that of original ids.
    """
    _search(task, np.empty(0, np.int64))


def solve(task: PairsTask, places: IntArray) -> tuple[AnyArray, ...] | list[Reduced]:
    """What is asked of sources, given by their places among all vertices.

    Distances, and parents if wanted, (sources, width) each; or what they reduce to.
    """
    rows = _search(task, places)
    if task.asked.reduce is not None:
        return rows.reduced(task.asked.reduce)
    assert isinstance(rows, SourceRows)
    blocks: list[AnyArray] = []
    for spec in task.specs:
        block = np.empty((len(places), rows.width), spec.dtype)
        for row, found in zip(block, rows.parents() if blocks else rows, strict=True):
            row[:] = found
        blocks.append(block)
    return tuple(blocks)


def write_batch(task: PairsTask, first: int, places: IntArray) -> int:
    """Search from the sources of some chunks and write these; the number of sources.

    Parameters
    ----------
    first
        The first chunk.
    places
        Places of all sources of the chunks.
    """
    assert task.folder is not None
    assert task.attempt is not None
    rows, length = _search(task, places), task.spec.chunk
    for start in range(0, len(places), length):
        part = rows.part(start, min(start + length, len(places)))
        number = first + start // length
        facts: dict[str, Any] = {}
        if task.asked.reduce is not None:
            reduced = part.reduced(task.asked.reduce)
            facts = {
                "reached": [one.reached for one in reduced],
                "value": [one.value for one in reduced],
            }

        def write(folder: Path, part: Any = part, number: int = number) -> list[FileEntry]:
            return [] if task.asked.reduce else write_rows(part, task.specs, number, folder)

        finish_unit(Path(task.folder), Path(task.attempt), number, write, facts)
    return len(places)


def _search(task: PairsTask, places: IntArray) -> SourceRows | SourceTallies:
    try:
        with resident.searcher(task.path, task.identity, task.asked.kernel) as held:
            search, ids = held.search, held.ids
            internal = ids.internal_of[places]
            internal = internal[internal >= 0].astype(np.int64)
            if task.asked.hops:
                return _levels(task, search, ids, places, internal)
            search.expect(task.sources)
            if task.asked.parents:
                answer, parents = search.run_with_parents(internal, lanes=task.lanes)
                return SourceRows(answer, places, ids, task.asked, parents)
            return SourceRows(search.run(internal, lanes=task.lanes), places, ids, task.asked)
    except NegativeCycleError as error:
        raise named(error, resident.open_same(task.path, task.identity)) from None


def _levels(
    task: PairsTask, search: Any, ids: Ids, places: IntArray, internal: IntArray
) -> SourceRows | SourceTallies:
    """Levels, or where they are reduced what was counted of them."""
    asked, most = task.asked, None
    if asked.cutoff is not None:
        most = min(max(math.floor(asked.cutoff), 0), INT32_UNREACHED)
    if asked.reduce is None:
        return SourceRows(search.run(internal, lanes=task.lanes, most=most), places, ids, asked)
    wanted = None
    if asked.targets is not None:
        aimed = ids.internal_of[asked.targets]
        wanted = np.zeros(search.vertices, np.bool_)
        wanted[aimed[aimed >= 0]] = True
    bins: dict[str, int] = {}
    if asked.reduce == HISTOGRAM:
        width = min(int(asked.bins.width_for(search.dtype)), INT32_UNREACHED)
        bins = {"bins": asked.bins.count, "width": width}
    tallies = search.tally(internal, lanes=task.lanes, most=most, wanted=wanted, **bins)
    return SourceTallies(tallies, places, ids, asked)


def named(error: NegativeCycleError, graph: Graph) -> NegativeCycleError:
    """The error with original ids."""
    originals = graph.original_of()
    cycle = [int(originals[internal]) for internal in error.cycle]
    note = "" if graph.directed else "an edge of negative weight, there and back, is such a cycle"
    return NegativeCycleError(cycle, error.weight, note)


def refuse_negative_loop(graph: Graph) -> None:
    """Refuse a graph whose input had a self-loop of negative weight; rows do not hold it.

    Raises
    ------
    NegativeCycleError
    UsageError
        The store does not say, as it was built when nobody asked.
    """
    attributes = graph.attributes
    if graph.has_negative_weights and attributes["self_loops"] and LOOP not in attributes:
        raise UsageError(
            f"{graph.path}: does not say whether its self-loops are negative; build it again"
        )
    loop = attributes.get(LOOP)
    if loop is not None:
        raise NegativeCycleError([int(loop["vertex"])], loop["weight"])
