"""What a plan depends on for searches whose arcs stay in the store: lengths, and a few weights.

Lengths of rows, and weights of the first ones, are read before rows are loaded. What SSSP knows of
the weights later comes from a few blocks of each side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.kernels.common.sssp.rows import Known, Survey, first_rows, sampled_rows, survey_of
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.layout import names
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.plan import Facts
from ooc_graph.memory.cuda.device_facts import last_longer
from ooc_graph.memory.heads import Lengths
from ooc_graph.shards.load import Graph
from ooc_graph.shards.row_loader import Arrays
from ooc_graph.types import DEAL_BLOCK, AnyArray, Dealing, IntArray, owner_of, rows_of_shard

_MOST_OFFSETS = 64 * DEAL_BLOCK


def count_lengths(
    stored: Arrays, arrays: Sequence[str], rows: int, beyond: Sequence[int] = ()
) -> tuple[Lengths, tuple[int, ...]]:
    """How many rows of a side, whose offsets by shard are ``arrays``, have how many arcs.

    And for each number of arcs in ``beyond`` the row from which on none has more, in global order.
    ``rows`` are those of the graph.
    """
    length, counts = np.empty(0, np.int64), np.empty(0, np.int64)
    longer = [0] * len(beyond)
    for shard, array in enumerate(arrays):
        dealing = Dealing(rows, len(arrays), shard)
        for first, offsets in offsets_by_piece(stored, array):
            inside = np.diff(offsets)
            found, times = np.unique(inside, return_counts=True)
            length, index = np.unique(np.concatenate([length, found]), return_inverse=True)
            counts = np.bincount(index, np.concatenate([counts, times]), len(length))
            for k, arcs in enumerate(beyond):
                if local := last_longer(inside, arcs):
                    last = dealing.internal_of(np.array([first + local - 1]))
                    longer[k] = max(longer[k], int(last[0]) + 1)
    return Lengths(length, counts.astype(np.int64)), tuple(longer)


LengthsByShard = tuple[tuple[Lengths, ...], ...]
"""Lengths of the rows of every side, by shard."""


def lengths_by_shard(graph: Graph, kernel: str) -> LengthsByShard:
    """Lengths of the rows of every side, by shard; reads the graph's offsets."""
    sides = graph.arrays_of(names.ORDER_OF[kernel], "offsets")
    rows = [rows_of_shard(graph.rows, graph.shards, shard) for shard in range(graph.shards)]
    return tuple(
        tuple(count_lengths(graph.stored, [arrays[shard]], count)[0] for arrays in sides)
        for shard, count in enumerate(rows)
    )


def offsets_by_piece(stored: Arrays, array: str) -> Iterator[tuple[int, IntArray]]:
    """Offsets of some rows at a time: the first row, and the offsets around the rows."""
    row, last, spec = 0, np.empty(0, np.int64), stored.spec(array)
    for index in range(spec.chunks):
        data = stored.chunk(spec, index).view(np.int64)
        for begin in range(0, len(data), _MOST_OFFSETS):
            part = np.concatenate([last, data[begin : begin + _MOST_OFFSETS]])
            yield row, part
            row, last = row + len(part) - 1, part[-1:].copy()
        del data  # before the next chunk has memory of its own


MOST_SURVEYED = 64
"""Rows that are looked at, at most: each may take two chunks of the store."""


def spread_share(graph: Graph) -> float:
    """Share of the hubs whose weights spread, as a search asks before it pulls.

    Looks at `MOST_SURVEYED` of the rows that a search looks at, evenly apart. For weighted graphs.
    """
    count = sampled_rows(graph.rows)
    sampled = np.unique(
        np.linspace(0, max(count - 1, 0), min(count, MOST_SURVEYED), dtype=np.int64)
    )
    lightest: list[AnyArray] = []
    typical: list[AnyArray] = []
    for shard in range(graph.shards):
        rows = sampled[owner_of(sampled, graph.shards) == shard]
        if not len(rows):
            continue
        local = Dealing(graph.rows, graph.shards, shard).local_of(rows)
        group = names.rows_path(shard, names.OUT, names.LIGHT)
        begin, end = (
            elements_at(graph.stored, f"{group}/offsets", local + k).astype(np.int64)
            for k in (0, 1)
        )
        begin, end = begin[begin < end], end[begin < end]
        positions = np.concatenate([begin, (begin + end) // 2])
        weights = elements_at(graph.stored, f"{group}/weights", positions)
        lightest.append(weights[: len(begin)])
        typical.append(weights[len(begin) :])
    if not lightest:
        return 0.0
    found = survey_of(0, 0, np.concatenate(lightest), np.concatenate(typical))
    return found.spread_rows / max(found.sampled_rows, 1)


def elements_at(stored: Arrays, array: str, positions: IntArray) -> AnyArray:
    """Some elements of an array; each chunk that has any is read once."""
    spec = stored.spec(array)
    found, chunks = np.empty(len(positions), spec.dtype), positions // spec.chunk
    for index in np.unique(chunks).tolist():
        inside = chunks == index
        found[inside] = stored.chunk(spec, index)[positions[inside] - index * spec.chunk]
    return found


def facts_of(graph: Graph, kernel: str) -> Facts:
    """What a plan for searches of a graph depends on; reads its offsets.

    MemoryBudgetError if its rows are in memory already, or in an order that the kernel lacks.
    """
    stored, order = require_stored(graph, kernel)
    offsets = graph.arrays_of(order, "offsets")
    sides = tuple(count_lengths(stored, arrays, graph.rows)[0] for arrays in offsets)
    return facts_about(graph, kernel, sides)


def facts_about(graph: Graph, kernel: str, sides: tuple[Lengths, ...]) -> Facts:
    """As `facts_of`, with the lengths of the rows given."""
    stored, order = require_stored(graph, kernel)
    weights = graph.weight_dtype if kernel == "sssp" else None
    distance = 4 if weights is None else distances_of(weights).itemsize
    tables = stored.spec(names.INTERNAL_OF), stored.spec(names.ORIGINAL_OF)
    gapped = 0 if graph.first_id is not None else 8 * graph.vertices
    return Facts(
        kernel,
        graph.vertices,
        graph.rows,
        graph.shards,
        names.id_dtype(graph.rows).itemsize,
        0 if weights is None else weights.itemsize,
        distance,
        gapped + sum(spec.length * spec.dtype.itemsize for spec in tables),
        sides,
        _packed_bits(graph, order, weighted=weights is not None),
    )


def _packed_bits(graph: Graph, order: str, *, weighted: bool) -> int:
    """Bits of an arc where its columns are packed, else 0."""
    columns = ["neighbors", *(["weights"] if weighted else [])]
    specs = [
        graph.stored.spec(f"{names.rows_path(0, names.OUT, order)}/{column}") for column in columns
    ]
    if all(spec.packing is None for spec in specs):
        return 0
    return sum(
        8 * spec.dtype.itemsize if spec.packing is None else spec.packing.bits for spec in specs
    )


def require_stored(graph: Graph, kernel: str) -> tuple[Stored, str]:
    """The store that holds a graph's rows in the order that a kernel wants, and the order.

    MemoryBudgetError if there is none.
    """
    order = names.ORDER_OF[kernel]
    if not isinstance(graph.stored, Stored):
        raise MemoryBudgetError(f"{graph.name} has no arcs elsewhere")
    if order not in graph.attributes["row_orders"]:
        raise MemoryBudgetError(
            f"{graph.name}: {kernel} sorts its rows in memory, since it has none in the order "
            f"{order!r}; build it with --rows both"
        )
    return graph.stored, order


_WHOLE = 1 << 30


def heaviest_of_long(rows: TierRows, short: int) -> Any:
    """Largest weight of the rows of more than ``short`` arcs: that of the last arc of one."""
    lengths = rows.heads.lengths
    long = np.flatnonzero(lengths > short)
    return arcs_at(rows, long, lengths[long].astype(np.int64) - 1).max(initial=0)


def arcs_at(rows: TierRows, which: IntArray, arcs: IntArray) -> AnyArray:
    """Weight of one arc of each of some ascending rows."""
    weights = np.empty(len(which), rows.heads.weights.dtype)
    most = len(rows.window.row)
    for begin in range(0, len(which), most):
        some = which[begin : begin + most]
        rows.window.row[: len(some)] = some
        rows.window.cursor[: len(some)] = arcs[begin : begin + most]
        target = weights[begin : begin + most]

        def scan(*part: Any, some: IntArray = some, target: AnyArray = target) -> int:
            _, window, first, end, kept, _, column = part
            at = np.searchsorted(some, window.row[first:end])
            target[at] = column[window.offset[1, first:end]]
            return int(kept)

        rows.scan(len(some), scan, 1)
    return weights


def survey_tier(rows: TierRows, head_share: float) -> Survey:
    """Survey of light-first rows, from a few rows alone: each takes a block or two."""
    lengths, firsts = rows.heads.lengths, rows.heads.first
    last = max(0, sampled_rows(len(lengths)) - 1)
    sampled = np.unique(np.linspace(0, last, MOST_SURVEYED).astype(np.int64))
    sampled = sampled[: len(lengths)]
    sampled = sampled[lengths[sampled] > 0]
    middle = arcs_at(rows, sampled, lengths[sampled].astype(np.int64) // 2)
    lightest = firsts[sampled] if len(firsts) else arcs_at(rows, sampled, np.zeros_like(sampled))
    return survey_of(int(head_share * _WHOLE), _WHOLE, lightest, middle)


def known_weights(graph: Graph, out: TierRows, heaviest: Any) -> Known:
    """What SSSP knows of the weights, from the rows of out-arcs that are loaded."""
    return Known(survey_tier(out, graph.head_share(first_rows(graph.rows))), heaviest)
