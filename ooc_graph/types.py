"""Shared vocabulary: array types, what callers may choose, and how rows are dealt to shards.

Vertices carry two ids. The *original* id is the user's own (int64, gaps allowed). The *internal*
id is the vertex's rank by falling degree (docs/reference/storage.md). Rows belong to shards in
blocks of ``DEAL_BLOCK`` consecutive internal ids, round-robin.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

IntArray = NDArray[np.int64]
AnyArray = NDArray[Any]

DeviceName: TypeAlias = Literal["auto", "cpu", "cuda"]
Exchange: TypeAlias = Literal["auto", "scheduler"]
Method: TypeAlias = Literal["rows", "edges"]
Arrays: TypeAlias = Literal["numpy", "cupy", "dask"]
RowOrders: TypeAlias = Literal["hub", "light", "both"]
Reduction: TypeAlias = Literal["eccentricity", "closeness", "sum", "histogram"]
Kernel: TypeAlias = Literal["bfs", "sssp", "apsp", "multi_source_bfs", "graph500"]
WeightType: TypeAlias = Literal["int", "int64", "float", "float32", "float64"]
FileFormat: TypeAlias = Literal[
    "edgelist",
    "csv",
    "tsv",
    "mtx",
    "gr",
    "graphalytics",
    "metis",
    "algs4",
    "counted",
    "adjacency",
    "npy",
    "npz",
    "parquet",
]

DEAL_BLOCK_BITS = 10
DEAL_BLOCK = 1 << DEAL_BLOCK_BITS

INT64_UNREACHED = np.iinfo(np.int64).max
INT32_UNREACHED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class EdgeBlock:
    """Input tuples as read: original ids, int64 (m,), non-negative, in host memory.

    ``weight`` is float32, float64 or int64 (m,), or None if the input has no weights.
    """

    source: IntArray
    target: IntArray
    weight: AnyArray | None = None

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Dealing:
    """Which rows of ``vertices`` kept ones one of ``shards``, a power of two, owns, and where."""

    vertices: int
    shards: int = 1
    shard: int = 0

    @property
    def rows(self) -> int:
        """Number of rows this shard owns."""
        return rows_of_shard(self.vertices, self.shards, self.shard)

    def local_of(self, internal: AnyArray) -> AnyArray:
        """Row number inside the shard of internal ids that it owns."""
        block = internal >> DEAL_BLOCK_BITS
        return ((block // self.shards) << DEAL_BLOCK_BITS) | (internal & (DEAL_BLOCK - 1))

    def internal_of(self, local: AnyArray) -> AnyArray:
        """Internal id of row numbers inside the shard."""
        block = (local >> DEAL_BLOCK_BITS) * self.shards + self.shard
        return (block << DEAL_BLOCK_BITS) | (local & (DEAL_BLOCK - 1))

    def owned(self) -> AnyArray:
        """Internal id of every row of the shard: int64 (rows,)."""
        return self.internal_of(np.arange(self.rows))

    def put(self, own: AnyArray, every: AnyArray) -> None:
        """Write values of the shard's rows, in local order, to their places among all rows."""
        blocks = self.vertices >> DEAL_BLOCK_BITS
        whole = every[: blocks << DEAL_BLOCK_BITS].reshape(blocks, DEAL_BLOCK)
        dealt = whole[self.shard :: self.shards]
        dealt[...] = own[: dealt.size].reshape(dealt.shape)
        rest = own[dealt.size :]
        every[self.vertices - len(rest) :] = rest


def rows_of_shard(vertices: int, shards: int, shard: int) -> int:
    """Rows that shard ``shard`` of ``shards`` owns in a graph of ``vertices`` rows."""
    full, rest = divmod(vertices, DEAL_BLOCK)
    rows = ((full - shard + shards - 1) // shards) * DEAL_BLOCK if full > shard else 0
    return rows + (rest if full % shards == shard else 0)


def owner_of(internal: AnyArray, shards: int) -> AnyArray:
    """Shard that owns each internal id."""
    return (internal >> DEAL_BLOCK_BITS) % shards


def distinct(values: AnyArray) -> AnyArray:
    """Distinct values, ascending: as ``np.unique``, whose hash table is many times slower."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


@dataclass(frozen=True)
class Rows:
    """Rows of one shard in host memory, compressed sparse row.

    ``offsets`` are uint64 (rows + 1,), ``neighbors`` uint32 or uint64 (arcs,): internal ids.
    Hub-first rows ascend by id and have no weights; light-first rows ascend by weight, ties by id:
    float32, float64, int32 or int64 (arcs,). No duplicates, no self-loops.
    """

    offsets: NDArray[np.uint64]
    neighbors: AnyArray
    weights: AnyArray | None = None


@dataclass(frozen=True)
class Shard:
    """The rows that one rank searches, in host memory; ``Dealing(vertices)``: the whole graph.

    If it is not directed, ``into`` rows are the ``out`` rows (the same objects). Hub-first rows, or
    light-first rows with weights, are None if they are not loaded. ``tuples``, uint32 or uint64
    (rows,), are those of the input at each owned vertex, duplicates counted, self-loops not.
    """

    dealing: Dealing
    directed: bool
    tuples: AnyArray
    out_hub: Rows | None = None
    into_hub: Rows | None = None
    out_light: Rows | None = None
    into_light: Rows | None = None


@dataclass(frozen=True)
class Gathering:
    """How ranks find each other in memory that all of them have kept, without a message.

    ``name`` is that of this attempt to run them, from 1 to 2**62 - 1. ``is_silent`` tells whether
    no other process has sent anything yet; it raises once nobody waits for the ranks any more.
    """

    name: int
    is_silent: Callable[[], bool]


class StageProgress(Protocol):
    """Progress of one stage."""

    def advance(self, amount: float, said: str = "") -> None:
        """So much more is done, in the stage's unit; parts of one, too. A bar shows ``said``."""


class Progress(Protocol):
    """Shows how far long work is."""

    def stage(
        self, name: str, total: int | None = None, unit: str = ""
    ) -> AbstractContextManager[StageProgress]:
        """Begin a stage of ``total`` units; leaving the context ends it."""

    def note(self, text: str) -> None:
        """Show something in one line."""


ProgressLike: TypeAlias = "Progress | Callable[..., Any] | bool | RichProgress | None"
"""What public functions take as ``progress=``; `ooc_graph.report.adapters` has what it means."""

Advance: TypeAlias = Callable[[float], None]
"""`StageProgress.advance` of a stage."""


def unseen(_: float, __: str = "") -> None:
    """Progress of a stage that is not shown."""


class NoProgress:
    """Shows nothing."""

    def stage(self, *_: object, **__: object) -> AbstractContextManager[StageProgress]:
        """Begin a stage that is not shown."""
        return nullcontext(self)

    advance = staticmethod(unseen)

    def note(self, text: str) -> None:
        """Show nothing."""
