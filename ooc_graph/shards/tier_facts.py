"""What a plan depends on for searches whose arcs stay in the store."""

from __future__ import annotations

from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.common.sssp.distances import distances_of
from ooc_graph.layout.names import INTERNAL_OF, ORDER_OF, ORIGINAL_OF, OUT, id_dtype, rows_path
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.plan import Facts
from ooc_graph.memory.heads import Lengths
from ooc_graph.shards.lengths import count_lengths
from ooc_graph.shards.load import Graph


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
