"""Answers that the CUDA device puts in order: columns that stay there, or pass the bus once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ooc_graph.answers.scatter import Ids, Tree, TreeColumns, unreached
from ooc_graph.errors import MemoryBudgetError
from ooc_graph.kernels.cuda.many.pieces import Pieces, staged_bytes
from ooc_graph.kernels.cuda.runtime.modules import cuda, is_plain_pool, within_memory
from ooc_graph.kernels.cuda.runtime.pinned import is_pinned, pinned_buffer
from ooc_graph.kernels.cuda.runtime.rows import on_device
from ooc_graph.kernels.cuda.runtime.scatter import ORDER_ROW_BYTES, PART_VERTICES
from ooc_graph.layout.names import DISTANCE, LEVEL, PARENT, VERTEX
from ooc_graph.model.engine import Engine
from ooc_graph.model.task import SearchTask, Trace, Written
from ooc_graph.runtime import process
from ooc_graph.runtime.engine_keys import lend
from ooc_graph.shards.load import Graph
from ooc_graph.sinks.single import deliver_late, measure_dtype
from ooc_graph.threads import Threads
from ooc_graph.types import AnyArray

LEAST_VERTICES = 1 << 20
"""Columns in host memory of smaller graphs are put in order by the host."""
# Vertices of a piece, whole blocks of the order; and bytes of one in its columns at most.
_PIECE = 1 << 20
_VERTEX_BYTES = 16


def search(engine: Engine, root: int) -> Written:
    """Search a graph that the device holds from an original id; all columns on the device.

    MemoryBudgetError: if the columns do not fit beside the graph.
    """
    internal = int(engine.ids.internal_of[engine.graph.position_of(root)])
    with within_memory("the answer"):
        tree = engine.search.run_on_device(internal)
        by_row = tree.level if engine.kernel == "bfs" else tree.distance
        names = None if engine.original_parents else on_device(engine.ids.original_of)
        parent, measure = engine.order.wide_columns(tree.parent, by_row, names)
        columns = _columns(engine.kernel, engine.ids, parent, measure)
    return Written(Trace(tree.elapsed_s, ()), columns=columns)


def in_host_memory(engine: Engine, root: int, device_bytes: int) -> Written | None:
    """Search from an original id; columns for host memory that the device puts in order.

    That is when they are read, if this process has the answer. None if the device does not hold the
    graph with original ids, or has no room for their order within ``device_bytes``, which are
    reserved for all that this process has there; or if the graph is small.
    """
    if not engine.original_parents or engine.pinned or len(engine.ids.internal_of) < LEAST_VERTICES:
        return None
    if not _order_fits(engine, device_bytes):
        return None
    internal = int(engine.ids.internal_of[engine.graph.position_of(root)])
    tree = engine.search.run_on_device(internal)
    try:
        columns = _OrderedThere(engine, root, tree)
        written, late = deliver_late(columns, Trace(tree.elapsed_s, ()))
        if process.dask_worker() is None:
            lend(engine, late.settle)
            return written
        late.settle()
        return replace(written, order_s=late.seconds["order"])
    except MemoryBudgetError:  # of the device: the host puts them in order
        return None


def _order_fits(engine: Engine, device_bytes: int) -> bool:
    if not is_plain_pool():
        return False
    needed = 2 * _PIECE * _VERTEX_BYTES
    if "order" not in vars(engine):
        table = engine.ids.internal_of.itemsize * PART_VERTICES
        needed += len(engine.ids.original_of) * ORDER_ROW_BYTES + table
    return int(cuda().get_default_memory_pool().used_bytes()) + needed <= device_bytes


class _OrderedThere(TreeColumns):
    """Columns of a tree on the device, which puts them in order; each passes the bus once."""

    def __init__(self, engine: Engine, root: int, tree: Any) -> None:
        is_bfs = engine.kernel == "bfs"
        self._by_row = tree.parent, tree.level if is_bfs else tree.distance
        wide = np.dtype(np.int32) if is_bfs else self._by_row[1].dtype
        nothing = np.empty(0, np.uint32), np.empty(0, wide)
        position = engine.graph.position_of(root)
        super().__init__(Tree(engine.kernel, root, position, *nothing), engine.ids)
        # All that is needed of the device, as nobody expects to be refused when columns are read.
        self._order, self._piece = engine.order, min(_PIECE, self.size)
        self._there = [self._order.empty_wide(self._by_row[1], self._piece) for _ in range(2)]

    def fill_all(self, name: str, out: AnyArray, threads: int) -> None:
        """Put a whole column into ``out``: the next piece is put in order while others travel."""
        if name == VERTEX:
            super().fill_all(name, out, threads)
            return
        size = self._piece
        full = self.size // size * size
        staged = None
        if not is_pinned(out):
            staged = pinned_buffer(staged_bytes(full // size, size, out.itemsize))
        copying = cuda().cuda.Stream(non_blocking=True)
        try:
            with Threads(threads) as executor:
                for first, rows in ((0, out[:full].reshape(-1, size)), (full, out[None, full:])):
                    if rows.size:
                        pieces = Pieces(rows, None, staged, copying, executor)
                        self._bring(first, rows, name != PARENT, pieces, copying)
        finally:
            # Whatever happens, memory is given back only when nothing is copied any more.
            copying.synchronize()

    def _bring(self, first: int, rows: AnyArray, column: int, pieces: Pieces, copying: Any) -> None:
        stream, size, last = cuda().cuda.get_current_stream(), rows.shape[1], -1
        copied: list[Any] = [None, None]
        for number in range(len(rows)):
            slot = number % 2
            if number > 1:
                stream.wait_event(copied[slot])
            into = self._there[slot][0][:size], self._there[slot][1][:size]
            self._order.ready(*self._by_row, into, first=first + number * size)()
            copying.wait_event(stream.record())
            given = into[column].data.ptr, size * rows.itemsize
            last = pieces.send(*given, slice(number, number + 1))
            copied[slot] = copying.record()
        pieces.wait_for(last)


def without_arcs(graph: Graph, ids: Ids, task: SearchTask) -> Written:
    """Columns on the device if the root has no arc: nothing but the root is reached."""
    assert task.root is not None
    size, position = len(ids.internal_of), graph.position_of(task.root)
    with within_memory("the answer"):
        dtype = measure_dtype(graph, task.kernel)
        measure = cuda().full(size, unreached(task.kernel, dtype), dtype)
        parent = cuda().full(size, -1, np.int64)
        measure[position], parent[position] = 0, task.root
        columns = _columns(task.kernel, ids, parent, measure)
    return Written(Trace(0.0, ()), columns=columns)


def _columns(kernel: str, ids: Ids, parent: Any, measure: Any) -> dict[str, Any]:
    name = LEVEL if kernel == "bfs" else DISTANCE
    if ids.originals is None:
        first = ids.first or 0
        vertex = cuda().arange(first, first + len(parent), dtype=np.int64)
    else:
        vertex = on_device(ids.originals)
    return {VERTEX: vertex, PARENT: parent, name: measure}
