"""Open a graph store and bring rows into host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from ooc_graph.errors import CorruptStoreError, NegativeWeightError, UnknownVertexError, UsageError
from ooc_graph.layout import names
from ooc_graph.layout.stored import Stored
from ooc_graph.memory.cpu.columns import Column, LastFile
from ooc_graph.remote.stores import local_path
from ooc_graph.shards.attribute_kinds import require_kinds
from ooc_graph.shards.graph_facts import GraphFacts
from ooc_graph.shards.row_loader import Allocator, RowLoader
from ooc_graph.types import AnyArray, Dealing, IntArray, Rows, Shard

when_left: list[Callable[[Graph], None]] = []
"""Called with a graph at the end of its ``with``."""


@dataclass(frozen=True)
class Graph(GraphFacts):
    """A built graph: opened in a moment, read when it is searched.

    ``stored`` is the store, checked as `Stored.open` does; or the arrays of a graph in memory.
    """

    @classmethod
    def open(cls, path: str | Path) -> Graph:
        """Open the store that a build wrote; NotAStoreError or CorruptStoreError if it is none.

        A store at a URL is copied first, as `ooc_graph.remote.stores.local_path` does.
        """
        if not isinstance(path, (str, PathLike)):
            raise UsageError(f"graph: give a path or an opened graph, not {type(path).__name__}")
        stored = Stored.open(local_path(path), "graph")
        graph = cls(stored)
        graph._require_own_sizes(stored)
        return graph

    def _require_own_sizes(self, stored: Stored) -> None:
        """Refuse attributes that are none, or differ from the arrays: memory is taken by them."""
        try:
            require_kinds(self.attributes)
            tables = ((names.INTERNAL_OF, self.vertices), (names.ORIGINAL_OF, self.rows))
            are_own = all(stored.spec(array).length == length for array, length in tables)
            last = [
                f"{names.rows_path(shard, names.OUT, self._kept(names.HUB))}/offsets" in stored
                for shard in (self.shards - 1, self.shards)
            ]
        except (KeyError, TypeError, ValueError, AttributeError):
            are_own, last = False, []
        if not are_own or last != [True, False]:
            raise CorruptStoreError(
                f"{self.path}: its attributes are not those of its arrays; build the graph again"
            )

    def __repr__(self) -> str:
        return f"<Graph {self.where}: {self.summary}>"

    def __hash__(self) -> int:
        return hash((self.path, self.identity))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free what this process keeps loaded of the graph."""
        for leave in when_left:
            leave(self)

    def original_ids(self) -> IntArray:
        """All original ids, ascending: int64 (vertices,), host memory."""
        if self.first_id is not None:
            return np.arange(self.first_id, self.first_id + self.vertices)
        return self.stored.read(names.ORIGINALS)

    def internal_of(self) -> AnyArray:
        """Internal id of each original id in ascending order, -1 without arcs; (vertices,)."""
        return self.stored.read(names.INTERNAL_OF)

    def original_of(self) -> IntArray:
        """Original id of each internal id: int64 (rows,)."""
        return self.stored.read(names.ORIGINAL_OF)

    def tuples(self) -> AnyArray:
        """Input tuples at each internal id, duplicates counted, self-loops not: (rows,)."""
        return self.stored.read(names.TUPLES)

    def head_share(self, rows: int) -> float:
        """Share of the input tuples at the first rows, 0 without rows; reads no others."""
        if not self.rows:
            return 0.0
        spec, covered = self.stored.spec(names.TUPLES), 0
        for index in range(-(-rows // spec.chunk)):
            start, _ = spec.bounds(index)
            covered += int(self.stored.chunk(spec, index)[: rows - start].sum(dtype=np.uint64))
        tuples = 2 * (self.edges - int(self.attributes["self_loops"]))
        return covered / max(tuples, 1)

    def position_of(self, original: int) -> int:
        """Position of an original id in ascending order; or UnknownVertexError."""
        if self.first_id is not None:
            position = original - self.first_id
            if 0 <= position < self.vertices:
                return position
        else:
            found = self._bisect(original)
            if found is not None:
                return found
        raise UnknownVertexError(
            f"vertex {original} is not in {self.name}", advice=self._id_advice()
        )

    def _bisect(self, original: int) -> int | None:
        # A search asks for the same one several times.
        last: tuple[int, int | None] | None = self.__dict__.get("_last")
        if last is None or last[0] != original:
            self.__dict__["_last"] = last = original, self._bisected(original)
        return last[1]

    def _bisected(self, original: int) -> int | None:
        spec = self.stored.spec(names.ORIGINALS)
        low, high = 0, spec.chunks
        while low < high:
            middle = (low + high) // 2
            chunk = self.stored.chunk(spec, middle)
            if original < chunk[0]:
                high = middle
            elif original > chunk[-1]:
                low = middle + 1
            else:
                index = int(np.searchsorted(chunk, original))
                return spec.bounds(middle)[0] + index if chunk[index] == original else None
        return None

    def _id_advice(self) -> str:
        if not self.vertices:
            return "it has no vertices"
        if self.first_id is not None:
            return f"its ids go from {self.first_id} to {self.first_id + self.vertices - 1}"
        return f"it has {self.vertices:,} vertices whose ids have gaps; give one of the input's ids"

    def internal(self, original: int) -> int:
        """Internal id of one vertex, -1 if it has no arc; reads 64 KiB of a large store."""
        position = self.position_of(original)
        spec = self.stored.spec(names.INTERNAL_OF)
        if not isinstance(self.stored, Stored) or spec.chunk_bytes % names.SIDECAR_BYTES:
            index = position // spec.chunk
            return int(self.stored.chunk(spec, index)[position - index * spec.chunk])
        column = Column(self.stored, [names.INTERNAL_OF], np.zeros(1, np.int64))
        buffer = bytearray(names.SIDECAR_BYTES)
        block, within = divmod(position, names.SIDECAR_BYTES // column.dtype.itemsize)
        with self.stored.reading(), LastFile() as last:
            column.read(block, memoryview(buffer), last)
        return int(np.frombuffer(buffer, column.dtype)[within])

    def require(self, order: str, *, signed: bool = False) -> None:
        """Refuse a search that needs an order, ``hub`` or ``light``, which the store does not have.

        ``signed``: the search supports negative weights.
        """
        if order == names.LIGHT and not self.weighted:
            raise UsageError(
                f"{self.name}: holds no weights, so there are no weighted distances; use bfs, or "
                "build it again with weights (and --rows both)"
            )
        if order == names.LIGHT and not signed and self.has_negative_weights:
            raise NegativeWeightError(
                f"{self.name}: has negative weights (lightest {self.attributes['lightest']})",
                advice="sssp needs weights of zero or more; apsp (in Python johnson) takes any",
            )

    def resident_bytes(
        self, order: str, shards: Sequence[int] | None = None, *, out_only: bool = False
    ) -> int:
        """Host memory of the rows that a search needs, of all or of some shards."""
        chosen = range(self.shards) if shards is None else shards
        total = 0
        for column in ("offsets", "neighbors", *(["weights"] if order == names.LIGHT else [])):
            for arrays in self.arrays_of(order, column)[: 1 if out_only else None]:
                specs = [self.stored.spec(arrays[shard]) for shard in chosen]
                total += sum(spec.length * spec.dtype.itemsize for spec in specs)
        return total

    def arrays_of(self, order: str, column: str) -> list[list[str]]:
        """Names of the arrays of a column of the rows: one for each side and shard."""
        kept, shards = self._kept(order), range(self.shards)
        return [
            [f"{names.rows_path(shard, side, kept)}/{column}" for shard in shards]
            for side in self.sides
        ]

    def load(
        self,
        order: str,
        shard: int | None = None,
        *,
        shards: int | None = None,
        room: Allocator | None = None,
        signed: bool = False,
    ) -> Shard:
        """Load rows into host memory, checked; CorruptStoreError names file and chunk.

        ``order`` is ``hub`` (BFS) or ``light`` (SSSP), and ``signed`` as in `require`. ``shard`` is
        one shard, or None for the whole graph in global order. ``shards``, a power of two, is the
        number of shards if those of the store are joined to fewer; None: its own. ``room`` makes
        the arrays of neighbours and weights; None: ordinary memory.
        """
        self.require(order, signed=signed)
        whole = Dealing(self.rows)
        dealing = whole if shard is None else Dealing(self.rows, shards or self.shards, shard)
        rows = {side: self._side(side, order, dealing, room) for side in self.sides}
        out, into = rows[names.OUT], rows.get(names.IN, rows[names.OUT])
        tuples = self.tuples()
        if shard is not None:
            tuples = tuples[dealing.owned()]
        if order == names.HUB:
            return Shard(dealing, self.directed, tuples, out_hub=out, into_hub=into)
        return Shard(dealing, self.directed, tuples, out_light=out, into_light=into)

    def load_out(self, shard: int, shards: int, *, room: Allocator | None = None) -> Shard:
        """As `load` in ``light`` order, for the out-arcs of one shard only, without tuples."""
        self.require(names.LIGHT)
        dealing = Dealing(self.rows, shards, shard)
        out = self._side(names.OUT, names.LIGHT, dealing, room)
        tuples = np.broadcast_to(np.uint32(0), dealing.rows)
        return Shard(dealing, self.directed, tuples, out_light=out)

    def _kept(self, order: str) -> str:
        """Order in which there are rows for a search that wants ``order``."""
        return order if order in self.attributes["row_orders"] else names.LIGHT

    def _side(self, side: str, order: str, dealing: Dealing, allocate: Allocator | None) -> Rows:
        kept = self._kept(order)
        rows = RowLoader(self.stored, self.shards, allocate).load(side, kept, order, dealing)
        return rows if kept == order else self._by_id(rows)

    def _by_id(self, rows: Rows) -> Rows:
        """Order loaded rows by id, if only light ones are there and BFS wants them."""
        from ooc_graph.kernels.cpu.build.rows import sort_rows  # noqa: PLC0415

        sort_rows(rows.offsets.astype(np.int64), rows.neighbors, np.empty(0, np.uint32))
        return rows
