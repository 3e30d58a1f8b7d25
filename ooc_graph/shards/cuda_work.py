"""What the tasks of a build on CUDA devices have in common, and what they leave for each other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ooc_graph.edges.interface import EdgeSource
from ooc_graph.layout.checkpoints import Checkpoint, Checkpoints, NoCheckpoints
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.names import INTERNAL_OF, LIGHT, ORIGINALS, TUPLES
from ooc_graph.shards.build_options import BuildOptions
from ooc_graph.shards.cuda_tables import StoreLayout
from ooc_graph.shards.tables import VertexSpace
from ooc_graph.shards.tally import Tally, stored_weight_dtype
from ooc_graph.types import IntArray, rows_of_shard


@dataclass(frozen=True)
class DeviceWork:
    """A build, as its tasks know it; it travels to workers.

    Each attempt has a name of its own. A process may use ``device_bytes`` of its device (None:
    nearly all that is free), and ``host_bytes`` of host memory. As many as ``processes`` do tasks
    at the same time, and ``on_host`` of them on the same host. Others had ``others_bytes`` of a
    device when the build began (None: what is in use when a process begins).
    """

    source: EdgeSource
    options: BuildOptions
    checkpoints: Checkpoints | NoCheckpoints
    attempt: str
    device_bytes: int | None
    host_bytes: int
    processes: int = 1
    on_host: int = 1
    others_bytes: int | None = None

    def require_going_on(self) -> None:
        """Do no more for an attempt that is over: FileNotFoundError, as if its task wrote."""
        if self.checkpoints.is_over:
            raise FileNotFoundError(f"{self.checkpoints.folder}: this attempt to build it is over")

    @property
    def orders(self) -> tuple[str, ...]:
        """Row orders of the store."""
        return self.options.orders(self.source.weighted)

    @property
    def weighted(self) -> bool:
        """Whether weights are stored."""
        return LIGHT in self.orders

    def layout(self, numbered: Numbered) -> StoreLayout:
        """What the store holds, now that vertices are numbered."""
        total, dtype = numbered.total, None
        if self.weighted:
            dtype = stored_weight_dtype(self.source, total)
        packings = self.options.packings(numbered.rows, numbered.arcs, dtype, total)
        starts = starts_of(numbered.rows, len(numbered.shard_arcs))
        given = self.source, numbered.space, total, self.orders, dtype
        return StoreLayout(*given, starts, packings)


@dataclass(frozen=True)
class StoredTable:
    """A table of the store: its array, and the crc32c of each chunk."""

    spec: ArraySpec
    crcs: tuple[int, ...]


@dataclass(frozen=True)
class Numbered:
    """What is known once vertices are counted and numbered, and their tables are in the store.

    ``arcs`` are tuples at all rows, ``shard_arcs`` those at the rows of each shard, ``longest``
    those of the row that has most. The space of ids with gaps names no file.
    """

    space: VertexSpace
    total: Tally
    rows: int
    arcs: int
    longest: int
    shard_arcs: tuple[int, ...]
    tables: Mapping[str, StoredTable]

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Numbered:
        """What a checkpoint says that was given `facts_of`."""
        facts, crcs = checkpoint.facts, {entry.path: entry.crc32c for entry in checkpoint.entries}
        tables = {}
        for spec in specs_of(checkpoint):
            if spec.path in (INTERNAL_OF, TUPLES, ORIGINALS):
                found = (crcs[spec.chunk_path(index)] for index in range(spec.chunks))
                tables[spec.path] = StoredTable(spec, tuple(crc or 0 for crc in found))
        total = Tally(**facts["total"])
        if total.negative_loop is not None:
            total.negative_loop = (total.negative_loop[0], int(total.negative_loop[1]))
        return cls(
            VertexSpace(facts["first"], facts["vertices"], ORIGINALS if facts["gapped"] else None),
            total,
            facts["rows"],
            facts["arcs"],
            facts["longest"],
            tuple(facts["shard_arcs"]),
            tables,
        )


@dataclass
class Done:
    """What a task leaves: its checkpoint, what it took (seconds by stage), and what it has to say.

    ``run_bytes`` were written to sorted runs.
    """

    checkpoint: Checkpoint
    seconds: dict[str, float] = field(default_factory=dict)
    run_bytes: int = 0
    notes: list[str] = field(default_factory=list)


def facts_of(
    space: VertexSpace, total: Tally, specs: Iterable[ArraySpec], **counted: Any
) -> dict[str, Any]:
    """Facts of the checkpoint that `Numbered` is made of, JSON-able."""
    return {
        "first": space.first,
        "vertices": space.count,
        "gapped": space.originals is not None,
        "total": asdict(total),
        "specs": documents_of(specs),
        **counted,
    }


def documents_of(specs: Iterable[ArraySpec]) -> dict[str, Any]:
    """Arrays of a store as facts of a checkpoint."""
    return {spec.path: json.loads(spec.document()) for spec in specs}


def specs_of(checkpoint: Checkpoint) -> list[ArraySpec]:
    """Arrays of a checkpoint."""
    documents = checkpoint.facts["specs"]
    return [ArraySpec.from_document(path, document) for path, document in documents.items()]


def starts_of(rows: int, shards: int) -> IntArray:
    """First row of each shard in store order, and all rows: int64 (shards + 1,)."""
    lengths = [rows_of_shard(rows, shards, shard) for shard in range(shards)]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
