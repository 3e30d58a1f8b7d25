"""What ranks have found, left on their workers: joined, or put in order there chunk by chunk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from ooc_graph.answers.narrow import Narrow, narrowed
from ooc_graph.answers.scatter import Columns, parent_id_dtype, unreached
from ooc_graph.answers.unread import Described
from ooc_graph.errors import ClusterLostError
from ooc_graph.exchange.handle import Finished
from ooc_graph.exchange.interface import ExchangeStats
from ooc_graph.exchange.left import Left, There
from ooc_graph.kernels.cpu.original_order import parent_ids_of
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import COMPONENT, ORIGINALS, PARENT, VERTEX, id_dtype
from ooc_graph.layout.stored import Cursor
from ooc_graph.model.task import SearchTask, Trace, Written, slowest, trace_of
from ooc_graph.runtime import process, same_graph
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import measure_dtype, unread_columns
from ooc_graph.types import AnyArray, Dealing, IntArray, owner_of

Ordered = tuple[IntArray, AnyArray]
"""Positions of vertices among all, ascending, and a value of each."""


@dataclass(frozen=True)
class Said:
    """What travels of what a rank found.

    ``components`` are those that are named by a row of the rank; of trees there are none.
    """

    trace: Trace
    nbytes: int
    components: int


@dataclass(frozen=True)
class SayPart:
    """Tells the client what it needs to know of what a rank has found."""

    kernel: str

    def __call__(self, rank: int, found: Any, ranks: int) -> Said:
        """What travels; the arrays stay."""
        count = 0
        if self.kernel == "components":
            rows = Dealing(0, ranks, rank).internal_of(np.arange(len(found.label)))
            count = int(np.count_nonzero(found.label == rows))
        return Said(trace_of(self.kernel, found), found.nbytes, count)


def spare_bytes(graph: Graph, kernel: str) -> int:
    """What earlier answers may take of each worker whose ranks search.

    If an answer is written, one worker gathers the arrays of all rows, and each has memory for
    that. One that is left is not gathered.
    """
    measure_bytes = 0 if kernel == "components" else measure_dtype(graph, kernel).itemsize
    return graph.rows * (id_dtype(graph.rows).itemsize + measure_bytes)


def left_by_ranks(
    run: Callable[..., tuple[list[tuple[Said, There]], ExchangeStats]],
    cluster: Any,
    graph: Graph,
    task: SearchTask,
    columns: Columns,
    columns_of: Callable[[SearchTask, Graph, Sequence[Any]], Columns],
) -> tuple[Written, ExchangeStats]:
    """Have ranks search, and leave the answer to their workers.

    ``columns`` are those of no rows; ``columns_of`` makes them of what ranks found.
    """
    Left.bring_oldest(cluster.client, spare_bytes(graph, task.kernel))
    found, stats = run(finish=SayPart(task.kernel), leaves=True)
    said, there = [one for one, _ in found], {address: part for _, (part, address) in found}
    taken, attributes = Counter[str](), dict(columns.attributes)
    for one, (_, address) in found:
        taken[address] += one.nbytes
    if task.kernel == "components":
        isolated = graph.vertices - graph.rows
        attributes["components"] = isolated + sum(one.components for one in said)
    of = task.path, task.identity, task.kernel, len(found)
    kept = OfRanks(*of, partial(columns_of, task))
    facts = graph.vertices, columns.dtypes, graph.first_id, taken.total(), attributes
    parts = [(part, address) for address, part in there.items()]
    sizes = [taken[address] for address in there]
    unread = unread_columns(Described(*facts), graph, kept, cluster, parts, sizes)
    trace = slowest([one.trace for one in said])
    return Written(trace, columns=unread, attributes=attributes, ranks=len(found)), stats


@dataclass(frozen=True)
class OfRanks:
    """How columns are made of what the workers of some ranks keep, by whoever has the store.

    ``columns`` makes them of a graph and what each of its ranks found.
    """

    path: str
    identity: str
    kernel: str
    ranks: int
    columns: Callable[[Graph, Sequence[Any]], Columns]

    def narrow(self, parts: Sequence[Any]) -> Narrow:
        """All columns."""
        found = {rank: one for part in parts for rank, one in _found(part).items()}
        columns = self.columns(self._graph(), [found[rank] for rank in range(self.ranks)])
        return narrowed(columns, process.thread_count())

    def chunks(self, parts: Sequence[Any], spec: ArraySpec) -> list[Any]:
        """Chunks of a column, each made of what every worker has of it.

        A worker puts its rows in the order of vertices, and cuts them at the chunks, so that a
        value travels at most once.
        """
        bounds = [spec.bounds(index) for index in range(spec.chunks)]
        store, make = (self.path, self.identity), _by_data
        if spec.path == VERTEX:
            return [make(_vertices, *store, *ends) for ends in bounds]
        ordered = [make(_in_order, self, part, spec.path) for part in parts]
        if spec.path == COMPONENT:
            names = make(_names, self, [make(_first_positions, one) for one in ordered])
            ordered = [make(_with_ids, one, names) for one in ordered]
            bases = [partial(_vertices, *store, *ends) for ends in bounds]
        else:
            none = -1 if spec.path == PARENT else unreached(self.kernel, spec.dtype)
            bases = [partial(np.full, stop - start, none, spec.dtype) for start, stop in bounds]
        return [
            make(_joined, base, [make(_cut, one, *ends) for one in ordered])
            for base, ends in zip(bases, bounds, strict=True)
        ]

    def _graph(self) -> Graph:
        return same_graph.open_same(self.path, self.identity)


def _by_data(function: Callable[..., Any], *given: Any) -> Any:
    """A call as Dask's delayed object, which is done where most of what it is given is.

    Many tasks of one group that are given the same Dask takes for roots of a graph, and deals them
    to all workers. This one has a group of its own, which is the first part of its key.
    """
    dask = import_module("dask")
    group = f"{function.__name__}-{dask.base.tokenize(function, *given)}"
    return dask.delayed(function)(*given, dask_key_name=(group, 0))


def _found(part: Any) -> dict[int, Any]:
    """What the ranks of a worker have found."""
    if not isinstance(part, Finished):
        # Dask has done the task again, for which nobody has the attempt.
        raise ClusterLostError("part of the answer was on a worker that was lost: search again")
    return part.kept


def _in_order(kept: OfRanks, part: Any, name: str) -> Ordered:
    """Values of the vertices whose rows a worker has; components by the row that names them."""
    graph, found = kept._graph(), _found(part)
    values = np.empty(0)
    original_of = graph.original_of() if name == PARENT else None
    for rank, one in found.items():
        own = one.label if name == COMPONENT else getattr(one, name)
        if original_of is not None:
            parent, own = own, np.empty(len(own), parent_id_dtype(int(original_of.max())))
            parent_ids_of(parent, original_of, own)
        if not len(values):
            values = np.empty(graph.rows, own.dtype)
        Dealing(graph.rows, kept.ranks, rank).put(own, values)
    internal_of = graph.internal_of()
    mine = np.isin(owner_of(internal_of, kept.ranks), list(found))
    mine &= internal_of >= 0
    positions = np.flatnonzero(mine)
    return positions, values[internal_of[positions]]


def _cut(ordered: Ordered, start: int, stop: int) -> Ordered:
    """What is in a chunk, with positions in that."""
    positions, values = ordered
    low, high = np.searchsorted(positions, (start, stop))
    # A view would keep all of them.
    return (positions[low:high] - start).astype(np.uint32), values[low:high].copy()


def _joined(base: Callable[[], AnyArray], pieces: Sequence[Ordered]) -> AnyArray:
    """A chunk of these pieces; ``base`` makes one of vertices without rows."""
    chunk = base()
    for positions, values in pieces:
        chunk[positions] = values
    return chunk


def _vertices(path: str, identity: str, start: int, stop: int) -> IntArray:
    """Original ids of vertices, of which no others are read."""
    graph = same_graph.open_same(path, identity)
    if graph.first_id is not None:
        return np.arange(start, stop) + graph.first_id
    return Cursor(graph.stored.chunk, graph.stored.spec(ORIGINALS)).read(start, stop)


def _first_positions(ordered: Ordered) -> Ordered:
    """Rows that name components, and where these have their first vertex on a worker."""
    positions, names = ordered
    first = np.full(int(names.max(initial=0)) + 1, -1)
    first[names[::-1]] = positions[::-1]  # of those with a name the last one stays
    found = np.flatnonzero(first >= 0)
    return found, first[found]


def _names(kept: OfRanks, first: Sequence[Ordered]) -> Ordered:
    """Rows that name components, and the smallest original ids of these."""
    graph = kept._graph()
    rows, positions = (np.concatenate(arrays) for arrays in zip(*first, strict=True))
    least = np.full(int(rows.max(initial=0)) + 1, graph.vertices)
    np.minimum.at(least, rows, positions)
    found = np.flatnonzero(least < graph.vertices)
    if graph.first_id is not None:
        return found, least[found] + graph.first_id
    return found, graph.original_ids()[least[found]]


def _with_ids(ordered: Ordered, names: Ordered) -> Ordered:
    """The same vertices with the smallest original ids of their components."""
    positions, rows = ordered
    found, ids = names
    by_row = np.empty(int(found.max(initial=0)) + 1, ids.dtype)
    by_row[found] = ids
    return positions, by_row[rows]
