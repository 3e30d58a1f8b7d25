"""A search as it travels to the process that searches, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ooc_graph.layout.checkpoints import Checkpoints
from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.layout.stored import Stored
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import FREE, Capacity
from ooc_graph.model.strategy import Strategy
from ooc_graph.types import AnyArray


@dataclass(frozen=True)
class Trace:
    """How a search went."""

    elapsed_s: float  # the search alone
    # (vertices, arcs examined, direction) per level or phase.
    levels: tuple[tuple[int | None, int, str], ...]


def trace_of(kernel: str, found: Any) -> Trace:
    """Trace of what a device found."""
    if kernel != "bfs":
        phases = tuple((None, arcs, phase) for phase, arcs in found.phase_arcs.items())
        return Trace(found.elapsed_s, phases)
    columns = (found.level_vertices, found.level_arcs, found.level_direction)
    levels = zip(*(column.tolist() for column in columns), strict=True)
    steps = ((count, arcs, "pull" if is_pull else "push") for count, arcs, is_pull in levels)
    return Trace(found.elapsed_s, tuple(steps))


def slowest(traces: Sequence[Trace]) -> Trace:
    """Trace of all ranks, which agree on everything but the clock."""
    return replace(traces[0], elapsed_s=max(trace.elapsed_s for trace in traces))


@dataclass(frozen=True)
class Written:
    """An answer that was written into a partial store, or its columns; and what is said of it.

    ``attributes`` are stored with it, besides the kernel and the graph; ``others``: further arrays,
    given only if the answer stays in memory. ``order_s`` are seconds until its columns were in
    order, or written. ``read_bytes`` were read of the store, if rows stay there and that was
    counted; ``ranks`` searched together.
    """

    trace: Trace
    specs: tuple[ArraySpec, ...] = ()
    entries: tuple[FileEntry, ...] = ()
    columns: Mapping[str, AnyArray] | None = None
    notes: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, AnyArray] = field(default_factory=dict)
    order_s: float = 0.0
    read_bytes: int | None = None
    ranks: int = 1

    def __sizeof__(self) -> int:
        """Bytes by which Dask knows what a worker keeps, and what to move or spill."""
        narrow = getattr(self.columns, "narrow", None)
        return object.__sizeof__(self) + (0 if narrow is None else narrow.nbytes)


@dataclass(frozen=True)
class SearchTask:
    """A search as it travels to workers."""

    # Of the graph.
    path: str
    identity: str
    request: Request  # what is searched, and how
    root: int | None  # original id to search from; None if an algorithm has no root
    folder: str | None  # the partial store, or None
    # Where rows are, and what is held of them.
    strategy: Strategy
    reserved: Reservation
    capacity: Capacity = FREE  # memory for all that the process keeps loaded
    like: Stored | None = None  # an answer of the same graph beside ``folder``
    checkpoints: Checkpoints | None = None  # of the partial store, if ranks write their states

    @property
    def kernel(self) -> str:
        """As of the request."""
        return self.request.kernel

    @property
    def key(self) -> Key:
        """The engine that it needs."""
        device = self.strategy.device
        return Key(self.path, self.identity, self.kernel, device, self.reserved)

    @property
    def is_for_memory(self) -> bool:
        """Whether the answer goes to memory, and nothing of it is left out."""
        return self.folder is None and self.request.within is None

    @property
    def parts(self) -> Path:
        """Where ranks leave their parts of an answer that is written."""
        return Path(self.folder or "") / "spill"
