"""Tasks of many sources, as they run in this process or on workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ooc_graph.answers.pairs import Asked, Reduced, SourceRows, write_rows
from ooc_graph.errors import NegativeCycleError
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.units import finish_unit
from ooc_graph.session import resident
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray

KERNEL = "apsp"


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
    spec
        How distances are stored, in chunks of whole sources.
    folder, attempt
        The partial store, and the folder of this run in it; None where nothing is written.
    """

    path: str
    identity: str
    asked: Asked
    sources: int
    lanes: int
    spec: ArraySpec
    folder: str | None = None
    attempt: str | None = None


def prepare(task: PairsTask) -> None:
    """Load the graph and see that there are shortest paths.

    Raises
    ------
    NegativeCycleError
        There are none; the cycle is that of original ids.
    """
    _search(task, np.empty(0, np.int64))


def solve(task: PairsTask, places: IntArray) -> AnyArray | list[Reduced]:
    """Distances from sources, given by their places among all vertices, or what they reduce to."""
    rows = _search(task, places)
    if task.asked.reduce is not None:
        return rows.reduced(task.asked.reduce)
    found = np.empty((len(places), rows.width), task.spec.dtype)
    for row, distances in zip(found, rows, strict=True):
        row[:] = distances
    return found


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

        def write(folder: Path, part: SourceRows = part, number: int = number) -> list[FileEntry]:
            return [] if task.asked.reduce else write_rows(part, task.spec, number, folder)

        finish_unit(Path(task.folder), Path(task.attempt), number, write, facts)
    return len(places)


def _search(task: PairsTask, places: IntArray) -> SourceRows:
    try:
        with resident.searcher(task.path, task.identity, KERNEL) as held:
            search, ids = held.search, held.ids
            search.expect(task.sources)
            internal = ids.internal_of[places]
            answer = search.run(internal[internal >= 0].astype(np.int64), lanes=task.lanes)
            return SourceRows(answer, places, ids, task.asked)
    except NegativeCycleError as error:
        raise named(error, resident.open_same(task.path, task.identity)) from None


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
    """
    loop = graph.attributes.get("negative_loop")
    if loop is not None:
        raise NegativeCycleError([int(loop["vertex"])], loop["weight"])
