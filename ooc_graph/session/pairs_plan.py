"""How many sources are searched from at once, so that everything fits the memory there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ooc_graph.answers.pairs import Asked
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import HUB, LIGHT
from ooc_graph.session.place import Place
from ooc_graph.shards.load import Graph

LANES = (64, 32, 16)
"""Most sources in a batch: the first that memory allows."""
BFS_LANES = 4
"""So many times as many in a batch of BFS."""
BATCHES = 2
"""Batches of every thread in a task, at least: the last ones of a task wait for each other."""
# A row's lanes are whole vectors.
_LANE_BYTES = 128
# Bytes a vertex: id tables, what a thread holds beside its lanes, and what a search of one source
# holds, where sources are searched from one by one.
_ID_BYTES, _STATE_BYTES, _SINGLE_BYTES = 24, 32, 64
# Bytes a vertex that a thread of BFS holds.
_BFS_BYTES = 100
# Bytes an arc: neighbour and weight side by side, for searches of one source.
_PAIRED_BYTES = 8
# Bytes an arc while negative weights are turned into others.
_SORTED_BYTES = 40
# While it is found which arcs are needed, bytes an arc (weights as float64, places of those that
# stay), and bytes a vertex (distances to 16 landmarks, or from them).
_PRUNED_ARC_BYTES, _PRUNED_VERTEX_BYTES = 17, 128
# Of one source where its distances are reduced: what it reaches, and the number; of a bin its
# count, as Python has it on its way, too.
_REDUCED_BYTES, _BIN_BYTES = 16, 48
# Of one source of a task that reduces levels: what was counted, as Python has it, too.
_TALLY_BYTES = 400


@dataclass(frozen=True)
class Plan:
    """How the sources are divided.

    Parameters
    ----------
    lanes
        Most sources of a batch, which one thread searches.
    chunks
        Chunks of a task.
    """

    lanes: int
    chunks: int


def plan_of(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, place: Place, *, in_memory: bool
) -> Plan:
    """The most lanes that fit every process.

    Parameters
    ----------
    specs
        How distances, and parents if wanted, are stored.
    in_memory
        Whether the answer stays in the memory of this process.

    Raises
    ------
    MemoryBudgetError
        Not even the fewest do, or not beside the answer.
    """
    answer = _answer_bytes(specs, asked) if in_memory else 0
    if answer > place.limit_bytes:
        raise MemoryBudgetError(
            f"{specs[0].length:,} sources have {answer:,} bytes of distances, and there are "
            f"{place.limit_bytes:,}; give out= to write them to a store"
        )
    # With a cluster the answer is the client's, not a worker's.
    beside = answer if place.client is None else 0
    for lanes in (most * (BFS_LANES if asked.hops else 1) for most in LANES):
        length = specs[0].chunk
        chunks = -(-BATCHES * lanes * place.threads // length)
        sources = min(chunks * length, specs[0].length)
        needed = beside + _needed_bytes(graph, specs, asked, lanes, place.threads)
        needed += _task_bytes(graph, specs, asked, sources, place, in_memory)
        if needed <= place.least_limit_bytes:
            return Plan(lanes, chunks)
    advice = "raise --memory-limit or add memory to the workers"
    if beside:
        advice += f", or give out=, as {beside:,} of them are the answer"
    raise MemoryBudgetError(
        f"many sources on {graph.path} need {needed:,} bytes in one worker, and a worker may use "
        f"{place.least_limit_bytes:,}; {advice}"
    )


def _needed_bytes(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, lanes: int, threads: int
) -> int:
    """Memory of a process whatever is asked for: rows, their copies, and what threads hold."""
    if asked.hops:
        state = graph.rows * threads * _BFS_BYTES + graph.vertices * _ID_BYTES
        return graph.resident_bytes(HUB) + state
    rows, size, arcs = graph.resident_bytes(LIGHT), specs[0].dtype.itemsize, graph.arcs
    # Arcs that somebody needs are copied; so are reweighted ones, in the distances' type.
    copies, while_sorted = rows, 0
    if graph.has_negative_weights:
        copies, while_sorted = 2 * (rows + arcs * size), arcs * _SORTED_BYTES
    while_pruned = arcs * _PRUNED_ARC_BYTES + 2 * graph.rows * _PRUNED_VERTEX_BYTES
    lane_bytes = -(-lanes * size // _LANE_BYTES) * _LANE_BYTES
    state = graph.rows * threads * (lane_bytes + _STATE_BYTES)
    singly = arcs * _PAIRED_BYTES + graph.rows * threads * _SINGLE_BYTES
    preparing = max(while_sorted, while_pruned)
    return rows + copies + preparing + state + singly + graph.vertices * _ID_BYTES


def _task_bytes(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    sources: int,
    place: Place,
    in_memory: bool,
) -> int:
    """Memory of the answers of the tasks that a process has at once.

    One task searches at a time; meanwhile those of the other threads still write what they found,
    or have it sent. In this process answers that stay in memory are copied before the next task.
    """
    if asked.hops and asked.reduce is not None:
        return sources * (_TALLY_BYTES + _reduced_bytes(asked)) * place.threads
    found = sources * graph.rows * sum(spec.dtype.itemsize for spec in specs)
    if in_memory and asked.reduce is None:
        found += sources * sum(spec.item_bytes for spec in specs)
    if asked.reduce is not None:
        found += sources * _reduced_bytes(asked)
    return found * (1 if in_memory and place.client is None else place.threads)


def _answer_bytes(specs: Sequence[ArraySpec], asked: Asked) -> int:
    """Memory of all that was asked for."""
    item = sum(spec.item_bytes for spec in specs)
    return specs[0].length * (item if asked.reduce is None else _reduced_bytes(asked))


def _reduced_bytes(asked: Asked) -> int:
    """Memory of what is kept of one source."""
    return _REDUCED_BYTES + (asked.bins.count * _BIN_BYTES if asked.reduce == HISTOGRAM else 0)
