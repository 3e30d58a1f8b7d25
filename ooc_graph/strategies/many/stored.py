"""How many sources are searched from at once where a graph's arcs stay in the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ooc_graph.answers.pairs import Asked, is_narrow
from ooc_graph.answers.reductions import HISTOGRAM
from ooc_graph.kernels.common.tuning import LANES
from ooc_graph.kernels.cpu.store.johnson import lane_bytes
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import id_dtype
from ooc_graph.model.resources import Resources
from ooc_graph.shards.load import Graph
from ooc_graph.strategies.many.tiers import BATCHES, ONE_BY_ONE, methods_of, takes_one_by_one

LANES_STORED = (LANES, LANES // 2, LANES // 4)
"""Most sources of a batch: the first that memory allows."""


class Size(NamedTuple):
    """How the sources are divided for a method.

    Parameters
    ----------
    method
        One by one or in batches, see `ooc_graph.strategies.many.tiers.methods_of`.
    lanes, chunks
        Sources searched from at once, and chunks of a task.
    beside_bytes
        Memory of a process beside the rows and what searches of one source hold.
    """

    method: str
    lanes: int
    chunks: int
    beside_bytes: int


# Bytes a column while rows of the answer are made: its place, whether it is none, a distance, and
# what is made of a row: parents and who has them, or a copy of what is reached, or its bins.
_COLUMN_BYTES, _PARENTS_BYTES, _REDUCING_BYTES = 17, 33, 42
# Of a row that is made for a chunk which is written while the task is searched.
_BESIDE_BYTES = 8
# Of one source where its distances are reduced: as Python has the numbers.
_REDUCED_BYTES, _BIN_BYTES = 200, 48


def sizes(
    graph: Graph, specs: Sequence[ArraySpec], asked: Asked, resources: Resources, *, in_memory: bool
) -> Iterator[Size]:
    """Divisions of the sources, those that hold more first."""
    for method in methods_of(graph, asked.kernel):
        for lanes in LANES_STORED if method == BATCHES else (1,):
            yield size_of(method, lanes, graph, specs, asked, resources, in_memory=in_memory)


def size_of(
    method: str,
    lanes: int,
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    *,
    in_memory: bool,
) -> Size:
    """How the sources are divided for a method, and so many sources at once."""
    parts = beside_parts(method, lanes, graph, specs, asked, resources, in_memory=in_memory)
    return Size(method, lanes, -(-lanes // specs[0].chunk), sum(parts.values()))


def beside_parts(
    method: str,
    lanes: int,
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    resources: Resources,
    *,
    in_memory: bool,
) -> dict[str, int]:
    """Memory of a process beside the rows and what searches of one source hold, by purpose."""
    chunks = -(-lanes // specs[0].chunk)
    sources, state = min(chunks * specs[0].chunk, specs[0].length), 0
    if method == BATCHES:
        ids = id_dtype(graph.rows).itemsize if asked.parents else 0
        # And each row's place in the answer.
        state = graph.rows * (lane_bytes(specs[0].dtype, lanes, ids) + 8)
    is_sent = in_memory and resources.has_client
    stretch = stretch_of(specs[0], asked, lanes, chunks)
    answers = _task_bytes(graph, specs, asked, sources, lanes, in_memory, stretch, is_sent=is_sent)
    tasks = 1 if in_memory and not is_sent else resources.threads
    return {"batches": state, "answers of tasks": tasks * answers}


def stretch_of(spec: ArraySpec, asked: Asked, wanted: int, chunks: int) -> int:
    """Sources of a task whose distances to all vertices are held at a time; 0: all of them.

    Parameters
    ----------
    spec
        Of the distances.
    wanted
        Sources that are searched from at a time at least.
    chunks
        Chunks of a task.
    """
    sources = min(chunks * spec.chunk, spec.length)
    stretches = sources // wanted if is_narrow(asked) else 1
    return -(-sources // stretches) if stretches > 1 else 0


def in_turn(
    graph: Graph, kernel: str, spec: ArraySpec, found: Sequence[Size], room_bytes: int
) -> list[Size]:
    """Divisions as they are to be tried: those first that hold more, unless one by one is faster.

    Parameters
    ----------
    spec
        Of the distances.
    found
        As `sizes` yields them.
    room_bytes
        Memory of a process for what they hold and for rows.
    """
    lane_bytes = LANES * spec.dtype.itemsize
    singly = [
        one
        for one in found
        if one.method == ONE_BY_ONE
        and takes_one_by_one(graph, kernel, lane_bytes, room_bytes - one.beside_bytes)
    ]
    return singly + [one for one in found if one not in singly]


def _task_bytes(
    graph: Graph,
    specs: Sequence[ArraySpec],
    asked: Asked,
    sources: int,
    lanes: int,
    in_memory: bool,
    stretch: int,
    *,
    is_sent: bool,
) -> int:
    """Memory of the answers of one task, and of what they are turned into."""
    row = graph.rows * sum(spec.dtype.itemsize for spec in specs)
    width = specs[0].width or 0
    columns = width * _COLUMN_BYTES
    if asked.reduce is not None:
        bins = asked.bins.count * _BIN_BYTES if asked.reduce == HISTOGRAM else 0
        reduced = sources * (_REDUCED_BYTES + bins)
        return min(lanes, sources) * row + columns + width * _REDUCING_BYTES + reduced
    writing = 1 if in_memory else 2
    columns += (writing - 1) * width * _BESIDE_BYTES
    if asked.parents:
        columns += writing * width * _PARENTS_BYTES
    # Sent to who asks; in the same process rows go where they belong.
    block = sum(spec.item_bytes for spec in specs) if is_sent else 0
    if stretch:
        return stretch * row + sources * specs[0].item_bytes + columns
    return sources * (row + block) + columns
