"""A search as it travels to the process that searches, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ooc_graph.layout.chunks import FileEntry
from ooc_graph.layout.metadata import ArraySpec
from ooc_graph.model.request import Request
from ooc_graph.model.reservation import Key, Reservation
from ooc_graph.model.resources import FREE, Capacity
from ooc_graph.model.strategy import Strategy
from ooc_graph.model.trace import Trace
from ooc_graph.types import AnyArray


@dataclass(frozen=True)
class Written:
    """An answer that was written into a partial store, or its columns; and what is said of it.

    ``attributes`` are stored with it, besides the kernel and the graph.
    """

    trace: Trace
    specs: tuple[ArraySpec, ...] = ()
    entries: tuple[FileEntry, ...] = ()
    columns: Mapping[str, AnyArray] | None = None
    notes: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)


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

    @property
    def kernel(self) -> str:
        """``bfs``, ``sssp`` or ``components``."""
        return self.request.kernel

    @property
    def key(self) -> Key:
        """The engine that it needs."""
        device = self.strategy.device
        return Key(self.path, self.identity, self.kernel, device, self.reserved)

    @property
    def parts(self) -> Path:
        """Where ranks leave their parts of an answer that is written."""
        return Path(self.folder or "") / "spill"
