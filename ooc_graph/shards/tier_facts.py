"""What a plan depends on for searches whose arcs stay in the store.

What SSSP knows of the weights comes from a few blocks of each side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.kernels.common.sssp.rows import Known, Survey, first_rows, sampled_rows, survey_of
from ooc_graph.kernels.common.store.rows import TierRows
from ooc_graph.layout.names import INTERNAL_OF, ORDER_OF, ORIGINAL_OF, OUT, id_dtype, rows_path
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.plan import Facts
from ooc_graph.memory.heads import Lengths
from ooc_graph.shards.lengths import MOST_SURVEYED, count_lengths
from ooc_graph.shards.load import Graph
from ooc_graph.types import AnyArray, IntArray


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
    tables = stored.spec(INTERNAL_OF), stored.spec(ORIGINAL_OF)
    gapped = 0 if graph.first_id is not None else 8 * graph.vertices
    return Facts(
        kernel,
        graph.vertices,
        graph.rows,
        graph.shards,
        id_dtype(graph.rows).itemsize,
        0 if weights is None else weights.itemsize,
        distance,
        gapped + sum(spec.length * spec.dtype.itemsize for spec in tables),
        sides,
        _packed_bits(graph, order, weighted=weights is not None),
    )


def _packed_bits(graph: Graph, order: str, *, weighted: bool) -> int:
    """Bits of an arc where its columns are packed, else 0."""
    columns = ["neighbors", *(["weights"] if weighted else [])]
    specs = [graph.stored.spec(f"{rows_path(0, OUT, order)}/{column}") for column in columns]
    if all(spec.packing is None for spec in specs):
        return 0
    return sum(
        8 * spec.dtype.itemsize if spec.packing is None else spec.packing.bits for spec in specs
    )


def require_stored(graph: Graph, kernel: str) -> tuple[Stored, str]:
    """The store that holds a graph's rows in the order that a kernel wants, and the order.

    MemoryBudgetError if there is none.
    """
    order = ORDER_OF[kernel]
    if not isinstance(graph.stored, Stored):
        raise MemoryBudgetError(f"{graph.path}: is in memory, and has no arcs elsewhere")
    if order not in graph.attributes["row_orders"]:
        raise MemoryBudgetError(
            f"{graph.path}: {kernel} sorts its rows in memory, since it has none in the order "
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
